package container

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

// config is the container, whose root file system is an image, or empty for that of this machine: https://github.com/opencontainers/runtime-spec/blob/main/config.md
func (r *runtime) config(b jail.Bundle, image string) (*specs.Spec, error) {
	for _, text := range slices.Concat(b.Spec.Argv, b.Spec.Env) {
		if !utf8.ValidString(text) { // JSON would put U+FFFD in its place, silently
			return nil, &jail.NotStarted{Code: 126, Reason: fmt.Sprintf("%.50q is no UTF-8, which is all that the configuration of a container can hold", text)}
		}
	}
	all, err := mounts(b, image)
	if err != nil {
		return nil, err
	}
	filter, err := seccomp()
	if err != nil {
		return nil, err
	}
	dir := cmp.Or(b.Spec.Dir, jail.WorkspaceDir)
	id, mapped := uint32(b.UID), uint32(rootUID(b.UID))
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: mapped, Size: 1}, {ContainerID: id, HostID: id, Size: 1}}
	return &specs.Spec{
		Version: "1.0.2",
		Process: &specs.Process{
			User: specs.User{UID: id, GID: id}, Args: append([]string{firstShell, "-c", first, "sh", dir}, b.Spec.Argv...),
			Env: jail.Environment(b.Spec.Env), Cwd: "/", Capabilities: &specs.LinuxCapabilities{}, NoNewPrivileges: true,
			Rlimits: rlimits(b.Limits),
		},
		Root:     &specs.Root{Path: filepath.Join(b.Dir, "root"), Readonly: true},
		Hostname: cmp.Or(b.Spec.Hostname, "sandbox"),
		Mounts:   all,
		Linux: &specs.Linux{
			UIDMappings: ids, GIDMappings: ids,
			// The network is the one that the runtime is started in.
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
				{Type: specs.MountNamespace}, {Type: specs.UserNamespace}, {Type: specs.CgroupNamespace}},
			Resources: &specs.LinuxResources{}, // of the control group that the runtime is started in
			Seccomp:   filter, RootfsPropagation: "rprivate",
			MaskedPaths:   append([]string{"/proc/latency_stats", "/sys/firmware"}, jail.Hidden()...),
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"},
		},
	}, nil
}

// rlimits are given as they are, or as low as ours are: a runtime without CAP_SYS_RESOURCE cannot raise them.
func rlimits(l jail.Limits) []specs.POSIXRlimit {
	var out []specs.POSIXRlimit
	for _, one := range []struct {
		name  string
		which int
		value int64
	}{{"RLIMIT_NPROC", unix.RLIMIT_NPROC, int64(l.Procs)}, {"RLIMIT_FSIZE", unix.RLIMIT_FSIZE, l.FileSize}, {"RLIMIT_CORE", unix.RLIMIT_CORE, 1}} {
		var ours unix.Rlimit
		if err := unix.Getrlimit(one.which, &ours); err != nil {
			continue
		}
		value := min(uint64(one.value), ours.Max)
		out = append(out, specs.POSIXRlimit{Type: one.name, Soft: value, Hard: value})
	}
	return out
}

func mounts(b jail.Bundle, image string) ([]specs.Mount, error) {
	tmpfs := func(at string, size int64, mode string, more ...string) specs.Mount {
		return specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs",
			Options: append([]string{"nosuid", "nodev", "mode=" + mode, "size=" + strconv.FormatInt(size, 10)}, more...)}
	}
	out := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		// Read-only once the devices are in it.
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k", "ro"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		tmpfs("/dev/shm", min(b.Limits.Tmp, 64<<20), "1777", "noexec"),
		tmpfs("/tmp", b.Limits.Tmp, "1777"),
		tmpfs("/run", 4<<20, "755"),
	}
	if image == "" {
		system, _, err := jail.HostSystem()
		if err != nil {
			return nil, err
		}
		for _, m := range system {
			out = append(out, bind(m))
		}
	}
	if b.Spec.Home == "" {
		out = append(out, tmpfs(jail.HomeDir, b.Limits.Tmp, "700", fmt.Sprintf("uid=%d,gid=%d", b.UID, b.UID)))
	}
	for _, m := range b.Mounts {
		out = append(out, bind(m))
	}
	return out, nil
}

func bind(m jail.Mount) specs.Mount {
	how := "ro"
	if m.Writable {
		how = "rw"
	}
	return specs.Mount{Destination: m.Inside, Type: "bind", Source: m.Host, Options: []string{"rbind", "rprivate", "nosuid", "nodev", how}}
}
