package container

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

// runtime makes bundles for a runtime with runc's command line.
type runtime struct {
	program string
	image   image
}

// check says why a program cannot run our containers: runsc of gVisor, for one, passes no descriptors. Without them nobody could tell
// a container's end from the runtime's, and without the other option nothing is left of a dead one to look at.
func (r *runtime) check(ctx context.Context) error {
	program, err := exec.LookPath(r.program)
	if err != nil {
		return fmt.Errorf("the runtime %s is not installed", r.program)
	}
	help, _ := exec.CommandContext(ctx, program, "run", "--help").CombinedOutput() // some end with another status after it
	for _, option := range []string{"-preserve-fds", "-keep"} {
		if !bytes.Contains(help, []byte(option)) {
			return fmt.Errorf("the runtime %s has no 'run -%s', as runc has it", r.program, option)
		}
	}
	return nil
}

// rootUID is who root of a container is on the host: a user that has nothing, and is not the one that commands run as.
func rootUID(uid int) int { return uid + 1 }

// first is what runs as the first process inside. It starts the command, reaps what that leaves behind, and says how it ended, which
// neither a runtime nor a first process that is the command itself does: a signal without a handler does not reach that one. It goes to
// the directory too, as the user of the command: what lies there, and leads to where, a command before may have made, and runtimes have
// gone with it to what they had open (CVE-2024-21626).
const first = `cd -- "$1" 2>/dev/null || { printf '{"not-started":1}\n' >&3; exit 126; }
shift
case $1 in
*/*) [ -e "$1" ] || no=127; [ -n "$no" ] || { [ -f "$1" ] && [ -x "$1" ]; } || no=126 ;;
*) command -v -- "$1" >/dev/null || no=127 ;;
esac
[ -z "$no" ] || { printf '{"not-started":%d}\n' $no >&3; exit $no; }
printf '{"begun":true}\n' >&3
"$@" <&6 >&4 2>&5 3>&- 4>&- 5>&- 6<&-
printf '{"exit-code":%d}\n' $? >&3`

// firstShell is a copy of the shell that may be executed and not read: the kernel then keeps the process that does closed to others
// of the same user (would_dump in fs/exec.c), so that no command writes into the memory of the one that says how it has ended.
const firstShell = "/.sandpiper/sh"

// Bundle writes config.json and the root file system.
func (r *runtime) Bundle(b jail.Bundle) ([]string, error) {
	program, err := exec.LookPath(r.program)
	if err != nil {
		return nil, fmt.Errorf("%w: the runtime %s is not installed", jail.ErrUnavailable, r.program)
	}
	system, err := r.image.dir()
	if err != nil {
		return nil, err
	}
	config, err := r.config(b, system)
	if err != nil {
		return nil, err
	}
	if err := r.root(b, system, config); err != nil {
		return nil, fmt.Errorf("root file system: %w", err)
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(b.Dir, "config.json"), text, 0o600); err != nil {
		return nil, err
	}
	return []string{program, "--root", filepath.Join(b.Dir, "state"), "--log", filepath.Join(b.Dir, logName), "--log-format", "json",
		"run", "--keep", "--preserve-fds", "4", "--bundle", b.Dir, b.Name}, nil
}

const logName = "log"

// Failure reads the last error of the runtime's log.
func (r *runtime) Failure(dir string) error {
	f, err := os.Open(filepath.Join(dir, logName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	last := ""
	for in := bufio.NewScanner(f); in.Scan(); {
		var line struct{ Level, Msg string }
		if json.Unmarshal(in.Bytes(), &line) == nil && (line.Level == "error" || line.Level == "fatal") {
			last = line.Msg
		}
	}
	if last == "" {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", jail.ErrUnavailable, r.program, last)
}

// root makes the root file system, with everything that something is mounted on: the runtime itself works as a user who may
// write nothing there.
func (r *runtime) root(b jail.Bundle, image string, config *specs.Spec) error {
	root := config.Root.Path
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if image != "" {
		if err := overImage(b.Dir, image, root); err != nil {
			return err
		}
	}
	if image == "" {
		if err := hostRoot(root); err != nil {
			return err
		}
	}
	// An image may hold links: os.Root keeps what is made inside.
	inside, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer inside.Close()
	for path, text := range jail.Files(b.UID, b.Spec.Hostname) {
		if err := place(inside, path, []byte(text), false); err != nil {
			return err
		}
	}
	if err := placeShell(cmp.Or(image, "/"), inside); err != nil {
		return fmt.Errorf("shell: %w", err)
	}
	below := ""
	for _, m := range config.Mounts {
		if below != "" && strings.HasPrefix(m.Destination, below) {
			continue // on a file system that is mounted there first, where the runtime may write
		}
		if m.Destination == "/run" {
			below = "/run/"
		}
		info, err := os.Stat(m.Source)
		file := err == nil && m.Type == "bind" && !info.IsDir()
		if m.Destination == filepath.Join(jail.WorkspaceDir, ".git") {
			continue
		}
		if err := place(inside, m.Destination, nil, !file); err != nil {
			return err
		}
	}
	// runc gives a tmpfs the mode of the directory that it is mounted on, whatever its options say.
	return inside.Chmod("tmp", 0o777|os.ModeSticky)
}

// hostRoot makes what holds the programs of this machine together: its links, and directories without anything of it.
func hostRoot(root string) error {
	_, links, err := jail.HostSystem()
	if err != nil {
		return err
	}
	for path, target := range links {
		if err := os.Symlink(target, filepath.Join(root, path)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/var", "/etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	return os.Symlink("../tmp", filepath.Join(root, "var/tmp"))
}

// placeShell copies the shell of a system, in which alone its links lead.
func placeShell(system string, inside *os.Root) error {
	dir, err := os.Open(system)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd, err := unix.Openat2(int(dir.Fd()), "bin/sh", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Join(system, "bin/sh"), Err: err}
	}
	shell := os.NewFile(uintptr(fd), "sh")
	defer shell.Close()
	name := strings.TrimPrefix(firstShell, "/")
	if err := inside.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	copied, err := inside.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o111)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, shell)
	return errors.Join(err, copied.Close())
}

// place makes a file or directory, and its parents; what is there stays, but for the content of a file.
func place(root *os.Root, path string, text []byte, dir bool) error {
	name := strings.TrimPrefix(path, "/")
	if dir {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if _, err := root.Lstat(name); err == nil && text == nil {
		return nil
	}
	_ = root.Remove(name)
	return root.WriteFile(name, text, 0o644)
}

// overImage mounts an image so that the places for mounts can be made, and nothing is written to it.
func overImage(dir, image, root string) error {
	upper, work := filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if strings.ContainsAny(image, ":,\\") {
		return fmt.Errorf("image %q: its path has a character that overlays do not take", image)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", image, upper, work)
	if err := unix.Mount("overlay", root, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("image %s: %w", image, err)
	}
	return nil
}
