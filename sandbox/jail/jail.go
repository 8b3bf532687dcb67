// Package jail confines one process tree: what it sees, what it can reach, how much it can use, how long it lives.
//
// It starts a command under bubblewrap in namespaces of its own, with no capability, no network, no descriptor and no
// environment but what it is given, on a read-only system, under a seccomp filter and under limits; and it returns after
// the last process of the tree is dead. It must not know what the command is for: missions, git and backends are above.
//
// What it does not do: hold back an exploit of the kernel, hide how busy the machine is, or tell a good output from a bad
// one. Linux only.
package jail

import (
	"errors"
	"io"
	"net"
	"time"
)

// Where things are inside.
const (
	WorkspaceDir = "/workspace"
	HomeDir      = "/home/agent"
)

// Path is the search path inside unless Spec.Env says otherwise.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

// DefaultUID is the user and group that a tree runs as when the launcher is root. It needs no entry in /etc/passwd; no
// service should use it.
const DefaultUID = 64777

// Mount makes a file or directory of the host visible.
type Mount struct {
	Host     string
	Inside   string // an absolute path; its parents are made
	Writable bool
	// Overlay makes Host the upper layer of an overlay file system, which is what is visible: what is written
	// lands in Host, and all else is seen through from below. The mount is of the tree alone and ends with it.
	Overlay *Overlay
}

// Overlay is what lies below the upper layer of an overlay file system.
type Overlay struct {
	Lower []string // directories, the highest first; nothing in them may change while they are in use
	Work  string   // an empty directory on the file system of the upper layer, which must not be an overlay itself
}

// Limits of one command. Zero is the default.
type Limits struct {
	Procs    int           // processes and threads at once; 1024
	Memory   int64         // bytes of all processes together; 4 GiB
	Disk     int64         // bytes by which everything writable on the host's disk may grow; 4 GiB
	Output   int64         // bytes of standard output and error together; 64 MiB
	FileSize int64         // bytes of one file; as Disk
	Tmp      int64         // bytes of /tmp, and of the home where the host gives none; 256 MiB
	Files    int           // files by which everything writable on the host's disk may grow; 200,000
	Wall     time.Duration // 1 h
}

// withDefaults fills in what is not set.
func (l Limits) withDefaults() Limits {
	def := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	if l.Procs <= 0 {
		l.Procs = 1024
	}
	if l.Files <= 0 {
		l.Files = 200_000
	}
	if l.Wall <= 0 {
		l.Wall = time.Hour
	}
	def(&l.Memory, 4<<30)
	def(&l.Disk, 4<<30)
	def(&l.Output, 64<<20)
	def(&l.Tmp, 256<<20)
	def(&l.FileSize, l.Disk)
	return l
}

// Spec is what to run, and with what around it.
type Spec struct {
	// Name of the run, of [A-Za-z0-9._-]: control groups are named by it.
	Name string
	Argv []string
	Dir  string   // inside; default /workspace if there is a Workspace, else /
	Env  []string // NAME=value, on top of HOME, PATH, USER, LOGNAME, LANG and PWD

	// Workspace is a host directory, writable at /workspace. Home is one at /home/agent; without it that is a tmpfs.
	// Where the launcher is root they have to belong to the user that the tree runs as.
	Workspace, Home string
	Mounts          []Mount  // later ones lie over earlier ones, and over Workspace and Home
	System          []string // further host paths that are visible, read-only, at the same place

	Hostname string // default "sandbox"
	Limits   Limits
	// Used is what the writable directories held when they were made (see Measure): growth counts from there. Nil:
	// from the start of the command.
	Used *Usage
	// UID that the tree runs as when the launcher is root; 0 is DefaultUID. An ordinary user runs it as itself.
	UID int
	// Runtime, if it is set, runs the tree instead of bubblewrap. It takes root.
	Runtime Runtime
	// Listen, if it is set, is called once, in a goroutine of its own, with a listener at 127.0.0.1:3128 in the network namespace
	// of the tree: what it serves is all that the tree can reach. The listener is closed when the tree is dead, and Run returns
	// after Listen has.
	Listen func(net.Listener)
}

// Stdio connects the command: always by pipes, for a file or a terminal of the host could be reopened from inside.
// A nil In is empty, a nil Out or Err is thrown away. The same writer twice keeps the order of what is written.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// Reason says why the tree ended.
type Reason string

// The reasons. Signaled is said as a shell says it: a command that exits with 128+n by itself looks the same.
const (
	Exited        Reason = "exited"
	Signaled      Reason = "signaled"
	TimedOut      Reason = "timeout"
	TooMuchOutput Reason = "output"
	TooMuchDisk   Reason = "disk"
	TooManyFiles  Reason = "files"
	HostDiskLow   Reason = "host-disk" // the file system is down to its Reserve, whoever filled it; also of a command that was not begun for it
	OutOfMemory   Reason = "memory"
	Cancelled     Reason = "cancelled"
	FailedToStart Reason = "failed-to-start"
)

// Observation is something that the host saw of the tree while it ran.
type Observation struct {
	Kind     string `json:"kind"` // res.memory, res.disk, res.files, res.host-disk, res.output, res.pids, proc.survivor, sys.killed
	Evidence string `json:"evidence"`
	Observer string `json:"observer"` // host: this process saw it; kernel: a control group or a filter stopped it
}

// Result is how the tree ended.
type Result struct {
	Code           int    // of the command; 128+n for signal n; -1 if it was ended by us
	Signal         string // such as "killed", where Code says a signal
	Reason         Reason
	Started, Ended time.Time
	OutputBytes    int64 // what the command wrote, also what was not passed on
	Truncated      bool
	Observations   []Observation
	// Watched are the limits that the kernel would have held in a control group, and that this machine leaves to the watcher, which
	// sees late: memory.
	Watched []string
}

// ErrUnavailable is wrapped by errors that say why this machine cannot confine anything.
var ErrUnavailable = errors.New("jail unavailable")

// NotStarted is the error for a command that could not be executed inside. Code is as env(1) has it: 127 when there is
// no such command, 126 when it cannot be executed.
type NotStarted struct {
	Code   int
	Reason string
}

func (e *NotStarted) Error() string { return "not started: " + e.Reason }

// without names parts of the jail that a test leaves out, to show that an attack fails because of them.
type without struct {
	seccomp, guard, session, userns, caps, readOnly, init, closeFDs bool
	namespaces, environment, cgroup, rlimits, watch, uid, parent    bool
}
