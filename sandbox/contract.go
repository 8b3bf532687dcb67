package sandbox

import (
	"context"
	"io"
	"time"
)

// ID names a run and with it everything that the run owns: its directory, refs, processes. It is made of [a-z0-9-].
type ID string

// State is where a sandbox is in its life.
type State string

// The states of a sandbox. A sandbox is made as created, is running while a command lives in it, and after that
// dirty (something differs from the base) or created again. It is verified once its checks have passed on the collected
// tree, promoted once somebody outside has taken what it made, and discarded once its workspace is gone.
const (
	Created   State = "created"
	Running   State = "running"
	Dirty     State = "dirty"
	Verified  State = "verified"
	Promoted  State = "promoted"
	Discarded State = "discarded"
)

// Kind says how one path differs from the base.
type Kind string

// The kinds of change. A renamed change has its old path in From.
const (
	Added       Kind = "added"
	Modified    Kind = "modified"
	Deleted     Kind = "deleted"
	Renamed     Kind = "renamed"
	TypeChanged Kind = "typechanged"
)

// Change is one path that differs from the base.
type Change struct {
	Path    string `json:"path"`           // relative to the root of the repository, slashes, raw bytes as git has them
	From    string `json:"from,omitempty"` // the old path of a rename
	Kind    Kind   `json:"kind"`
	OldMode string `json:"old_mode,omitempty"` // git's octal modes: 100644, 100755, 120000, 160000; empty where there is no file
	NewMode string `json:"new_mode,omitempty"`
	OldID   string `json:"old_id,omitempty"` // blob (or, for 160000, commit) ids in hex
	NewID   string `json:"new_id,omitempty"`
	Size    int64  `json:"size"` // bytes of the new content; 0 for a deletion
	Added   int    `json:"added"`
	Removed int    `json:"removed"` // lines; both -1 for a binary file
}

// ProbeKey is the key of the store that probes of the boundary work on: a repository of one file. No mission has it.
const ProbeKey = "probe"

// Source is where the files of a sandbox come from.
type Source struct {
	Key  string `json:"key"`            // of the store: gh-<repository id>, or local-<digest of the path>
	URL  string `json:"url,omitempty"`  // for people, never with a credential in it
	Base string `json:"base"`           // the commit that the run starts from: pinned, never computed again
	From string `json:"from,omitempty"` // the branch or ref that Base was taken from, for people
}

// Options of Create.
type Options struct {
	ID      ID     // empty: made by the manager. A second Create with the same ID and base finds the first one's sandbox.
	Backend string // empty: the manager's default
	Limits  Limits
	Parent  ID // the run whose result this sandbox checks, if it does
}

// Limits of one sandbox. Zero is the manager's default.
type Limits struct {
	Procs  int           `json:"procs,omitempty"`
	Memory int64         `json:"memory,omitempty"` // bytes
	Disk   int64         `json:"disk,omitempty"`   // bytes that the workspace may grow by
	Output int64         `json:"output,omitempty"` // bytes of one command's output
	Files  int           `json:"files,omitempty"`  // new files in the workspace
	Wall   time.Duration `json:"wall,omitempty"`   // of one command
}

// Bind puts a host file or directory into the sandbox, read-only.
type Bind struct {
	Host   string `json:"host"`
	Inside string `json:"inside"`
}

// Command is what runs in a sandbox. Its environment is empty but for what the jail needs and Env.
type Command struct {
	Argv    []string      `json:"argv"`
	Dir     string        `json:"dir,omitempty"` // below the workspace; empty is its root
	Env     []string      `json:"env,omitempty"` // NAME=value
	Stdin   string        `json:"stdin,omitempty"`
	Binds   []Bind        `json:"binds,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"` // 0: the limit of the sandbox
	Output  int64         `json:"output,omitempty"`  // bytes; 0: the limit of the sandbox
	Network []string      `json:"network,omitempty"` // groups and hosts that it may reach, as a policy names them; none: it has no network
	Broker  *Grant        `json:"broker,omitempty"`  // what it may ask of the broker; nil: there is none for it
}

// Grant is what a command may ask of the broker, which holds the credentials outside. A limit of 0 is none.
type Grant struct {
	Models   []string `json:"models,omitempty"`   // endpoints, by the names of the settings: anthropic, openai, gemini
	Git      bool     `json:"git,omitempty"`      // fetches of the run's repository, from the bot's store
	Money    int64    `json:"money,omitempty"`    // millionths of a US dollar, by list prices
	Tokens   int64    `json:"tokens,omitempty"`   // in and out
	Requests int64    `json:"requests,omitempty"` // to models
}

// Spent is what a command used of its grant.
type Spent struct {
	Requests int64 `json:"requests"`
	Input    int64 `json:"input"` // tokens
	Output   int64 `json:"output"`
	Money    int64 `json:"money"` // millionths of a US dollar; nothing for a model of unknown price at an address that is not its vendor's
}

// Reason says why a command ended.
type Reason string

// The reasons. Lost is said of a command whose supervisor died without leaving an exit status. HostFull is also
// said of one that was not begun: what is left of the disk is the bot's.
const (
	Exited    Reason = "exited"
	Signaled  Reason = "signaled"
	TimedOut  Reason = "timed out"
	Flooded   Reason = "too much output"
	Overfull  Reason = "too much disk"
	OutOfMem  Reason = "too much memory"
	HostFull  Reason = "no room on the machine's disk"
	Cancelled Reason = "cancelled"
	NotBegun  Reason = "could not start"
	Lost      Reason = "lost"
)

// Exit is how a command ended. Code is 128+n for signal n, as a shell says it.
type Exit struct {
	Code      int       `json:"code"`
	Reason    Reason    `json:"reason"`
	Message   string    `json:"message,omitempty"` // for people: what could not start, which limit
	Started   time.Time `json:"started"`
	Ended     time.Time `json:"ended"`
	Output    int64     `json:"output"` // bytes that the command wrote
	Truncated bool      `json:"truncated,omitempty"`
	Blocked   []string  `json:"blocked,omitempty"` // hosts that it asked for and that are not open to it, as a policy would name them
	Spent     *Spent    `json:"spent,omitempty"`   // of its grant; nil: it had none
	Watched   []string  `json:"watched,omitempty"` // limits that no control group of this machine holds: memory is then only watched
}

// OK says whether the command ran to its end and ended with 0.
func (e Exit) OK() bool { return e.Reason == Exited && e.Code == 0 }

// CheckResult is one check: its command, how it ended, and where its log lies.
type CheckResult struct {
	Name    string  `json:"name"`
	Command Command `json:"command"`
	Exit    Exit    `json:"exit"`
	Log     string  `json:"log"` // path on the host, mode 0600
}

// Selection says which changes a promotion takes. Both empty: all of them. An entry is a glob as in path.Match, and ** for any
// depth, or names pieces of one text file that was modified: "sum.go:2" its second hunk as Diff shows it, "sum.go:1,4-6" several,
// "tool:mode" the change of its mode.
type Selection struct {
	Only []string `json:"only,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// Signature is an author or committer.
type Signature struct {
	Name  string    `json:"name"`
	Email string    `json:"email"`
	When  time.Time `json:"when"`
}

// CommitSpec is how the promoted commit is made. The same spec on the same tree gives the same commit id.
type CommitSpec struct {
	Author    Signature
	Committer Signature
	Message   string
}

// Promotion is the record of exactly what was promoted.
type Promotion struct {
	Run     ID       `json:"run"`
	Base    string   `json:"base"`
	Commit  string   `json:"commit"` // in the store, under refs/sandpiper/<run>/promoted
	Tree    string   `json:"tree"`
	Changes []Change `json:"changes"`
	LeftOut []Change `json:"left_out,omitempty"`
}

// Discard is what became of a discarded sandbox.
type Discard struct {
	Run     ID       `json:"run"`
	Kept    []string `json:"kept"`    // refs of the store, and files of the archive
	Removed []string `json:"removed"` // directories and refs
}

// Finding is a recorded fact about the boundary.
type Finding struct {
	Run      ID        `json:"run"`
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`     // such as collect.special, fs.setuid, res.disk
	Severity string    `json:"severity"` // info, low, medium, high
	Observer string    `json:"observer"` // host, kernel, sandbox-claimed
	Evidence string    `json:"evidence"` // at most 4 KiB, control characters escaped
	Outcome  string    `json:"outcome"`  // contained, breach, inconclusive
}

// Record is what is known of a sandbox; it lies as run.json in the directory of its run.
type Record struct {
	ID       ID        `json:"id"`
	Mission  string    `json:"mission,omitempty"`
	Parent   ID        `json:"parent,omitempty"`
	Backend  string    `json:"backend"`
	Why      string    `json:"why,omitempty"` // it was chosen and not a better one
	Source   Source    `json:"source"`
	Limits   Limits    `json:"limits"`
	State    State     `json:"state"`
	Made     bool      `json:"made"` // the workspace stands; until then Create may be called again to finish it
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`
	Result   string    `json:"result,omitempty"` // the commit of CollectDiff
	Layer    string    `json:"layer,omitempty"`  // what was laid into it; see Layer
	Keep     *Keep     `json:"keep,omitempty"`
	Watched  []string  `json:"watched,omitempty"` // see Exit, of the last command
	Findings []Finding `json:"findings,omitempty"`
}

// Keep is a person's wish that the reaper leaves a sandbox alone.
type Keep struct {
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// Stdio connects a command that runs in the foreground.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// Workspace is what a Backend works on: one run's directory and where its files come from.
type Workspace struct {
	ID     ID
	Dir    string // the directory of the run, made by the manager before Make
	Store  string // the git directory of the bare store
	Base   string
	Limits Limits
	Exec   string // for Launch: the directory of what is recorded of the command
}

// Backend gives what differs between the ways to provide a sandbox; the manager does states, records, locks and findings
// for all of them. Each method may be called again after a crash in the middle of it and then finishes the work.
type Backend interface {
	Name() string
	// Make makes the workspace at the base.
	Make(ctx context.Context, w Workspace) error
	// Path is where a person can look at the files; Delta where new and changed files lie on the host.
	Path(w Workspace) string
	Delta(w Workspace) string
	// Launch runs a command inside the boundary and returns after the last process of it is dead.
	// The error is for what could not be begun; a command that ended badly is an Exit.
	Launch(ctx context.Context, w Workspace, c Command, io Stdio) (Exit, []Finding, error)
	// Collect writes what differs from the base as a commit on top of it and returns its id (the base's own when
	// nothing differs). It reads the workspace as data: no configuration, hook, filter or link of it is followed.
	Collect(ctx context.Context, w Workspace, everything bool) (commit string, findings []Finding, err error)
	// Remove takes the workspace away. What is already gone is no error.
	Remove(ctx context.Context, w Workspace) error
}
