package container

import (
	"fmt"
	"slices"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

// seccomp is the list of system calls that Docker lets a container without capabilities make, less what the jail refuses. All
// others, and all of another architecture, are not there.
func seccomp() (*specs.LinuxSeccomp, error) {
	profile, err := moby.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	// The first one is the native one. The profile has its 32-bit sisters too; without them their calls kill.
	profile.Architectures = profile.Architectures[:min(1, len(profile.Architectures))]
	own := append(slices.Clone(jail.Denied()), "socket", "fallocate", "mknod", "mknodat", "setrlimit", "prlimit64")
	var out []specs.LinuxSyscall
	for _, s := range profile.Syscalls {
		s.Names = slices.DeleteFunc(slices.Clone(s.Names), func(name string) bool { return slices.Contains(own, name) })
		if len(s.Names) > 0 {
			out = append(out, s)
		}
	}
	for _, family := range jail.Families() {
		args := []specs.LinuxSeccompArg{{Index: 0, Value: family, Op: specs.OpEqualTo}}
		if family == unix.AF_NETLINK {
			args = append(args, specs.LinuxSeccompArg{Index: 2, Value: unix.NETLINK_ROUTE, Op: specs.OpEqualTo})
		}
		out = append(out, specs.LinuxSyscall{Names: []string{"socket"}, Action: specs.ActAllow, Args: args})
	}
	for at, name := range []string{1: "mknod", 2: "mknodat"} {
		if name == "" {
			continue
		}
		out = append(out, specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Index: uint(at), Value: jail.DeviceMode, ValueTwo: 0, Op: specs.OpMaskedEqual}}})
	}
	out = append(out, limits()...)
	refused := uint(unix.EOPNOTSUPP) // programs fall back to writing, which can be watched
	out = append(out, specs.LinuxSyscall{Names: []string{"fallocate"}, Action: specs.ActErrno, ErrnoRet: &refused})
	profile.Syscalls = out
	return profile, nil
}

// limits may be set but for that of core files, of which it is only said: see the filter of the jail.
func limits() []specs.LinuxSyscall {
	arg := func(index uint, op specs.LinuxSeccompOperator, value uint64) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Op: op, Value: value}
	}
	rule := func(name string, action specs.LinuxSeccompAction, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
		s := specs.LinuxSyscall{Names: []string{name}, Action: action, Args: args}
		if action == specs.ActErrno {
			s.ErrnoRet = new(uint)
		}
		return s
	}
	return []specs.LinuxSyscall{
		rule("setrlimit", specs.ActAllow, arg(0, specs.OpNotEqual, unix.RLIMIT_CORE)),
		rule("setrlimit", specs.ActErrno, arg(0, specs.OpEqualTo, unix.RLIMIT_CORE)),
		rule("prlimit64", specs.ActAllow, arg(1, specs.OpNotEqual, unix.RLIMIT_CORE)),
		rule("prlimit64", specs.ActAllow, arg(1, specs.OpEqualTo, unix.RLIMIT_CORE), arg(2, specs.OpEqualTo, 0)),
		rule("prlimit64", specs.ActErrno, arg(1, specs.OpEqualTo, unix.RLIMIT_CORE), arg(2, specs.OpNotEqual, 0)),
	}
}
