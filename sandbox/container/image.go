package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// engines are programs that have images, which of them is there is used. They only give the files: commands run in our own bundles.
var engines = []string{"podman", "docker"}

// image is where the root file system comes from, by one of: a directory, which is used as it is; a tarball of one; the name of an
// image of an engine. The latter two are unpacked once, into the cache, under the name of their content.
type image struct{ name, cache string }

// prepare makes the root file system ready for commands.
func (i image) prepare(ctx context.Context) error {
	if i.name == "" {
		return nil
	}
	info, err := os.Stat(i.name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		// By what a file system knows of a file: to read some gigabytes for each sandbox takes seconds.
		key := fmt.Sprintf("%s %d %d", i.name, info.Size(), info.ModTime().UnixNano())
		return i.unpacked(ctx, key, func(dir string) error {
			f, err := os.Open(i.name)
			if err != nil {
				return err
			}
			defer f.Close()
			return unpack(f, dir)
		})
	case filepath.IsAbs(i.name):
		return i.unavailable(err.Error())
	}
	return i.ofEngine(ctx)
}

func (i image) unavailable(reason string) error {
	return &sandbox.ErrUnavailable{Backend: "container", Reason: fmt.Sprintf("image %s: %s", i.name, reason)}
}

// ofEngine has an engine write out an image that it has. Nothing is pulled: what runs is for the administrator to choose.
func (i image) ofEngine(ctx context.Context) error {
	var tried []string
	for _, name := range engines {
		engine, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		id, err := call(ctx, engine, "image", "inspect", "--format", "{{.Id}}", i.name).Output()
		if err != nil {
			tried = append(tried, name)
			continue
		}
		return i.unpacked(ctx, strings.TrimSpace(string(id)), func(dir string) error { return export(ctx, engine, i.name, dir) })
	}
	if len(tried) == 0 {
		return i.unavailable("neither podman nor docker is installed, and there is no such file")
	}
	return i.unavailable("no such image: asked " + strings.Join(tried, " and "))
}

// export makes a container that is never started, and unpacks its files.
func export(ctx context.Context, engine, name, dir string) error {
	made, err := call(ctx, engine, "create", "--network", "none", name, "/bin/sh").Output()
	if err != nil {
		return fmt.Errorf("%s create %s: %w", filepath.Base(engine), name, said(err))
	}
	id := strings.TrimSpace(string(made))
	defer func() { _ = call(context.WithoutCancel(ctx), engine, "rm", "--force", id).Run() }()
	ctx, stop := context.WithCancel(ctx) // where its output is not taken to its end
	defer stop()
	cmd := call(ctx, engine, "export", id)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := unpack(out, dir); err != nil {
		stop()
		return errors.Join(err, cmd.Wait())
	}
	return cmd.Wait()
}

// call runs an engine, without our environment, which holds secrets.
func call(ctx context.Context, engine string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, engine, args...)
	for _, name := range []string{"PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "CONTAINER_HOST"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// said is an error with what the program wrote.
func said(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %.500q", err, exit.Stderr)
	}
	return err
}

// unpacked makes sure that what fill makes lies in the cache under a key, and is what the image's name leads to.
func (i image) unpacked(ctx context.Context, key string, fill func(dir string) error) error {
	if err := os.MkdirAll(i.cache, 0o711); err != nil {
		return err
	}
	lock, err := flock.Wait(ctx, i.link()+".lock", flock.Exclusive)
	if err != nil {
		return fmt.Errorf("image %s: %w", i.name, err)
	}
	defer lock.Unlock()
	target := "of-" + digest(key)
	if at, err := os.Readlink(i.link()); err == nil && at == target {
		return nil
	}
	if _, err := os.Stat(filepath.Join(i.cache, target)); err != nil {
		// By the name that is locked, so that what one who was killed has left is found, and removed, by the next.
		dir := filepath.Join(i.cache, "new-"+digest(i.name))
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		root := filepath.Join(dir, "root")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(root, 0o755)); err != nil {
			return err
		}
		if err := fill(root); err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		if err := os.Rename(root, filepath.Join(i.cache, target)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	fresh := i.link() + ".new"
	_ = os.Remove(fresh)
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, i.link())
}

// dir is the root file system that prepare has made ready; empty: that of this machine.
func (i image) dir() (string, error) {
	if info, err := os.Stat(i.name); i.name == "" || err == nil && info.IsDir() {
		return i.name, nil
	}
	dir, err := filepath.EvalSymlinks(i.link())
	if err != nil {
		return "", fmt.Errorf("image %s was not made ready: %w", i.name, err)
	}
	return dir, nil
}

func (i image) link() string { return filepath.Join(i.cache, "name-"+digest(i.name)) }

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:10])
}
