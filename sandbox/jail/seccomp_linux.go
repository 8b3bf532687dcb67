package jail

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// newNamespaces are the flags of clone(2) and unshare(2) that make namespaces. A user namespace gives its maker every
// capability over what it makes next, mounts among it.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// denied are refused with EPERM, whatever the arguments.
var denied = []string{
	// Large interfaces of the kernel which have been ways out, and which no build needs.
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
	"keyctl", "add_key", "request_key", "memfd_secret", "fanotify_init", "lookup_dcookie", "modify_ldt", "vmsplice",
	// Other processes. The first process of the namespace is bubblewrap's: who writes its memory lives on without us.
	// The price: debuggers and leak sanitizers do not work inside.
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp", "move_pages", "migrate_pages",
	// Mounts and roots.
	"mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig", "fsmount",
	"fspick", "mount_setattr", "name_to_handle_at", "open_by_handle_at", "setns", "quotactl", "quotactl_fd",
	// The machine. The kernel asks for capabilities for these; so do we.
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct",
	"syslog", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "iopl", "ioperm", "vhangup",
	// Obsolete; the second tells of every file system of the machine.
	"sysfs", "ustat",
}

// families of sockets that stay: local ones (half of all language runtimes need socketpair and sockets in /tmp; those of
// the host are in another network namespace or below a path that is not mounted), the two internets, and netlink to
// the own namespace. AF_VSOCK, for one, knows no namespace and leads to whatever runs the virtual machine.
var families = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// DeviceMode is the bit that the modes of block and character devices have, and those of files, pipes and sockets have not.
const DeviceMode = unix.S_IFCHR

func policy() (*seccomp.Policy, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	absent := func(name string) bool { _, ok := info.SyscallNames[name]; return !ok } // not every architecture has all of them
	names := slices.DeleteFunc(slices.Clone(denied), absent)
	on := func(name string, cs ...seccomp.Condition) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: cs}
	}
	when := func(argument uint32, op seccomp.Operation, value uint64) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: op, Value: value}
	}
	var socket []seccomp.Condition
	for _, family := range families {
		socket = append(socket, when(0, seccomp.NotEqual, family))
	}
	conditional := []seccomp.NameWithConditions{
		on("socket", socket...),
		on("socket", when(0, seccomp.Equal, unix.AF_NETLINK), when(2, seccomp.NotEqual, unix.NETLINK_ROUTE)),
		// It makes a socket of any family before it finds that only local ones come in pairs, and the kernel loads a module for it.
		on("socketpair", when(0, seccomp.NotEqual, unix.AF_UNIX)),
		on("clone", when(0, seccomp.BitsSet, newNamespaces)),
		// One device needs no capability: 0:0, which is how overlays say that a file is gone (whiteouts, Linux 5.8).
		on("mknod", when(1, seccomp.BitsSet, DeviceMode)),
		on("mknodat", when(2, seccomp.BitsSet, DeviceMode)),
		on("unshare", when(0, seccomp.BitsSet, newNamespaces|unix.CLONE_NEWTIME)),
	}
	conditional = slices.DeleteFunc(conditional, func(c seccomp.NameWithConditions) bool { return absent(c.Name) })
	return &seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			// Its flags are in memory, where a filter cannot look: libraries fall back to clone.
			{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"}},
			// A gigabyte a millisecond, faster than anything can watch; programs fall back to writing.
			{Action: seccomp.ActionErrno | seccomp.Action(unix.EOPNOTSUPP), Names: []string{"fallocate"}},
			{Action: seccomp.ActionErrno, Names: names, NamesWithCondtions: conditional},
		},
	}, nil
}

// ioctls are refused on every descriptor: key strokes into a terminal, and what is fallocate by other names, which beside that no limit
// for the size of a file stops (ioctl_preallocate in fs/ioctl.c). They need only the low 32 bits of the argument: the kernel looks at no
// more of it, and a comparison of all 64 bits could be passed by setting one above.
var ioctls = []uint32{
	unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD,
	0x40305828, 0x4030582a, 0x40305839, // FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE (linux/falloc.h)
	0x4030580a, 0x40305824, // XFS_IOC_ALLOCSP, XFS_IOC_ALLOCSP64, until Linux 5.17
}

// guard stands in front of the filter. The library lets a foreign architecture fall through to the default action, which
// here is to allow: int 0x80 would reach every system call by its 32-bit number, and so would the x32 numbers.
func guard(info *arch.Info) []bpf.Instruction {
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4}, // seccomp_data.arch
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)},
	}
	if info.ID == arch.X86_64.ID {
		out = append(out,
			bpf.LoadAbsolute{Off: 0, Size: 4}, // seccomp_data.nr
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: uint32(arch.X32.SeccompMask), SkipFalse: 1},
			bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)})
	}
	return out
}

func denyIoctls(info *arch.Info) []bpf.Instruction {
	skip := uint8(2*len(ioctls) + 1)
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(info.SyscallNames["ioctl"]), SkipTrue: skip},
		bpf.LoadAbsolute{Off: lowWord(1), Size: 4},
	}
	for _, request := range ioctls {
		out = append(out,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: request, SkipTrue: 1},
			bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.EPERM)})
	}
	return out
}

// keepCoreLimit answers that the limit for core files was set, and leaves it. It is 1 byte, at which alone the kernel makes no core for a
// program of the host that takes them through a pipe: at 0, to which everyone may lower it, that program runs, as root and outside
// (core(5); coredump_pipe in fs/coredump.c). To refuse would be honest and ends programs that want no core, ssh-agent among them.
func keepCoreLimit(info *arch.Info) []bpf.Instruction {
	pretend := bpf.RetConstant{Val: uint32(seccomp.ActionErrno)} // with the error 0
	load := func(word uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: word, Size: 4} }
	is := func(value uint32, skip uint8) bpf.Instruction {
		return bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: value, SkipTrue: skip}
	}
	const nr = 0
	out := []bpf.Instruction{
		load(nr), is(uint32(info.SyscallNames["prlimit64"]), 7),
		load(lowWord(1)), is(unix.RLIMIT_CORE, 5),
		load(lowWord(2)), is(0, 2), load(lowWord(2) ^ 4), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, // it only asks
		pretend,
	}
	if old, ok := info.SyscallNames["setrlimit"]; ok { // not every architecture has it
		out = append(out, load(nr), is(uint32(old), 3), load(lowWord(0)), is(unix.RLIMIT_CORE, 1), pretend)
	}
	return out
}

// lowWord is where seccomp_data has the low 32 bits of an argument.
func lowWord(argument uint32) uint32 {
	at := 16 + 8*argument
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		at += 4
	}
	return at
}

// filter is the program for bwrap --seccomp: an array of struct sock_filter. It is the same for every run.
var filter = sync.OnceValues(func() ([]byte, error) { return assemble(without{}) })

func assemble(w without) ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	p, err := policy()
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	rest, err := p.Assemble()
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	var program []bpf.Instruction
	if !w.guard {
		program = slices.Concat(guard(info), denyIoctls(info), keepCoreLimit(info))
	}
	raw, err := bpf.Assemble(append(program, rest...))
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	var out []byte
	for _, i := range raw {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out, nil
}
