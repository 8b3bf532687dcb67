package jail

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// bwrapArgs are the arguments of bubblewrap but for the descriptors that are added at the start. Sources of mounts are taken
// from staged: paths at which the user that the tree runs as can reach them. Files says what to write where.
//
// They are passed by a descriptor (--args), so that /proc/*/cmdline shows neither paths of the host nor the environment.
func bwrapArgs(s Spec, l Limits, uid int, staged []Mount, w without) (args []string, files map[string]string, err error) {
	add := func(more ...string) { args = append(args, more...) }
	hostname := cmp.Or(s.Hostname, "sandbox")

	add("--unshare-user")
	if !w.namespaces {
		add("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup", "--hostname", hostname)
		if s.Listen == nil { // else the thread that starts bubblewrap is in one already
			add("--unshare-net")
		}
	}
	if !w.userns {
		add("--disable-userns")
	}
	if !w.caps {
		add("--cap-drop", "ALL")
	}
	if !w.parent {
		add("--die-with-parent")
	}
	if !w.session {
		add("--new-session")
	}
	system, err := systemArgs()
	if err != nil {
		return nil, nil, err
	}
	add(system...)
	add(procArgs(w)...)
	add(scratchArgs(s, l)...)
	for _, m := range staged {
		if m.Writable {
			add("--bind", m.Host, m.Inside)
		} else {
			add("--ro-bind", m.Host, m.Inside)
		}
	}
	if !w.readOnly {
		add("--remount-ro", "/")
	}
	dir := cmp.Or(s.Dir, "/")
	if s.Dir == "" && s.Workspace != "" {
		dir = WorkspaceDir
	}
	add("--chdir", dir)
	for _, kv := range environment(s.Env) {
		name, value, _ := strings.Cut(kv, "=")
		add("--setenv", name, value)
	}
	return args, written(uid, hostname), nil
}

func tmpfs(size int64, at string) []string {
	return []string{"--size", strconv.FormatInt(size, 10), "--tmpfs", at}
}

// procArgs give a /proc of the own processes, without what tells of the host, and without bubblewrap's own process.
func procArgs(w without) []string {
	args := []string{"--proc", "/proc"}
	cover := func(dir string) { args = append(append(args, tmpfs(4096, dir)...), "--remount-ro", dir) }
	for _, p := range hidden {
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			cover(p)
		} else if err == nil {
			args = append(args, "--ro-bind", "/dev/null", p)
		}
	}
	if !w.init {
		cover("/proc/1")
	}
	return args
}

// scratchArgs give what can be written and is gone at the end, each with a size. The /dev that bubblewrap makes is a tmpfs
// without one, as is the root: both become read-only.
func scratchArgs(s Spec, l Limits) []string {
	args := append([]string{"--dev", "/dev"}, tmpfs(min(l.Tmp, 64<<20), "/dev/shm")...)
	args = append(append(args, "--remount-ro", "/dev"), tmpfs(l.Tmp, "/tmp")...)
	args = append(args, "--chmod", "1777", "/tmp", "--dir", "/var", "--symlink", "../tmp", "/var/tmp")
	args = append(args, tmpfs(4<<20, "/run")...)
	if s.Home == "" {
		args = append(args, tmpfs(l.Tmp, HomeDir)...)
	}
	return args
}

func environment(own []string) []string {
	return append([]string{"HOME=" + HomeDir, "PATH=" + Path, "USER=agent", "LOGNAME=agent", "LANG=C.UTF-8"}, own...)
}

// mounts are all mounts of a spec in order, System, Workspace and Home among them.
func (s Spec) mounts() []Mount {
	var out []Mount
	for _, path := range s.System {
		if real, err := realSystemPath(path); err == nil { // see check
			out = append(out, Mount{Host: real, Inside: path})
		}
	}
	if s.Home != "" {
		out = append(out, Mount{Host: s.Home, Inside: HomeDir, Writable: true})
	}
	if s.Workspace != "" {
		out = append(out, Mount{Host: s.Workspace, Inside: WorkspaceDir, Writable: true})
	}
	return append(out, s.Mounts...)
}

// check refuses what bubblewrap would not understand as it was meant.
func (s Spec) check() error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return errors.New("no command")
	}
	if strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		return fmt.Errorf("name %q: only letters, digits and ._- can be part of it", s.Name)
	}
	for _, path := range s.System {
		if err := CheckSystemPath(path); err != nil {
			return err
		}
	}
	for _, m := range s.mounts() {
		if !path.IsAbs(m.Host) || !path.IsAbs(m.Inside) || path.Clean(m.Inside) == "/" {
			return fmt.Errorf("mount %s at %s: both have to be absolute paths, and the root is not one", m.Host, m.Inside)
		}
		if err := m.Overlay.check(m.Host); err != nil {
			return err
		}
	}
	words := slices.Concat(s.Argv, s.Env, []string{s.Dir, s.Hostname})
	for i, kv := range s.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return fmt.Errorf("environment: entry %d is not NAME=value", i) // and is not shown: it may be a secret
		}
	}
	for _, word := range words {
		if strings.ContainsRune(word, 0) {
			return fmt.Errorf("argument %q: contains a NUL", word)
		}
	}
	return nil
}
