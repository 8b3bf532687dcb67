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
	own := append(slices.Clone(jail.Denied()), "socket", "socketpair", "fallocate", "ioctl", "mknod", "mknodat", "setrlimit", "prlimit64")
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
	out = append(out, specs.LinuxSyscall{Names: []string{"socketpair"}, Action: specs.ActAllow,
		Args: []specs.LinuxSeccompArg{{Index: 0, Value: unix.AF_UNIX, Op: specs.OpEqualTo}}})
	for at, name := range []string{1: "mknod", 2: "mknodat"} {
		if name == "" {
			continue
		}
		out = append(out, specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Index: uint(at), Value: jail.DeviceMode, ValueTwo: 0, Op: specs.OpMaskedEqual}}})
	}
	out = append(append(out, otherThan("ioctl", 1, jail.Ioctls()...)...), limits()...)
	refused := uint(unix.EOPNOTSUPP) // programs fall back to writing, which can be watched
	out = append(out, specs.LinuxSyscall{Names: []string{"fallocate"}, Action: specs.ActErrno, ErrnoRet: &refused})
	profile.Syscalls = out
	return profile, nil
}

// limits may be set but for that of core files, of which it is only said: see the filter of the jail.
func limits() []specs.LinuxSyscall {
	pretend := new(uint) // the error 0
	core := func(name string, resource uint, more ...specs.LinuxSeccompArg) specs.LinuxSyscall {
		is := specs.LinuxSeccompArg{Index: resource, Value: lowHalf, ValueTwo: unix.RLIMIT_CORE, Op: specs.OpMaskedEqual}
		return specs.LinuxSyscall{Names: []string{name}, Args: append([]specs.LinuxSeccompArg{is}, more...)}
	}
	set := core("setrlimit", 0)
	ask := core("prlimit64", 1, specs.LinuxSeccompArg{Index: 2, Value: 0, Op: specs.OpEqualTo})
	both := core("prlimit64", 1, specs.LinuxSeccompArg{Index: 2, Value: 0, Op: specs.OpNotEqual})
	ask.Action, set.Action, both.Action, set.ErrnoRet, both.ErrnoRet = specs.ActAllow, specs.ActErrno, specs.ActErrno, pretend, pretend
	out := append(otherThan("setrlimit", 0, unix.RLIMIT_CORE), otherThan("prlimit64", 1, unix.RLIMIT_CORE)...)
	return append(out, set, ask, both)
}

// lowHalf is all that the kernel looks at of an argument of 32 bits.
const lowHalf = 1<<32 - 1

// otherThan allows a call for all values that the low half of an argument can have but some. There is no comparison for that, and one
// of the whole argument is passed by a bit in the other half. So it allows every beginning that none of them has.
func otherThan(name string, argument uint, values ...uint32) (out []specs.LinuxSyscall) {
	var halve func(bit int, begin uint32, values []uint32)
	halve = func(bit int, begin uint32, values []uint32) {
		for _, begin := range []uint32{begin, begin | 1<<bit} {
			mask := ^uint32(0) << bit
			in := slices.DeleteFunc(slices.Clone(values), func(v uint32) bool { return v&mask != begin })
			if len(in) == 0 {
				out = append(out, specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow,
					Args: []specs.LinuxSeccompArg{{Index: argument, Value: uint64(mask), ValueTwo: uint64(begin), Op: specs.OpMaskedEqual}}})
			} else if bit > 0 {
				halve(bit-1, begin, in)
			}
		}
	}
	halve(31, 0, values)
	return out
}
