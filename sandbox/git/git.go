// Package git runs the git command line as a tool that cannot be turned against its caller.
//
// Every process starts with an environment built from nothing, without system or user configuration, hooks, file system
// monitors, pagers, editors or automatic maintenance, and with no transport but the one that the call names. Credentials
// are asked for at the moment of use and reach git through a pipe: they are in no argument, address, file or environment.
//
// The package must not be pointed at a git directory, an attribute driver or a configuration that a process in a sandbox
// could have written: options on the command line do not make that safe (git runs configured filters even on status).
package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// minimum is the oldest git that the commands of this project were written for: 2.34 of Ubuntu 22.04.
var minimum = [2]int{2, 34}

// Options of New.
type Options struct {
	Path    string       // of git; empty: found on PATH
	Environ []string     // where proxy and CA settings for network calls are taken from; nil: os.Environ()
	Log     *slog.Logger // one debug line a call; nil: none

	// Files is how long a command on a work tree may take that has no timeout of its own; 0: 15 min. Its patterns may be anybody's, and git
	// compares one with a path in a time that grows with the depth of the path to the power of the number of ** in it (wildmatch.c).
	Files time.Duration
}

// Git runs commands. It is safe for concurrent use.
type Git struct {
	path    string
	version func() (string, error) // asked once, when somebody wants it: a process takes longer than a create
	network []string
	log     *slog.Logger
	files   time.Duration
}

// Transport says which way to another repository a call may use.
type Transport string

// The transports. A call that names none cannot leave its own repository.
const (
	NoTransport Transport = ""
	HTTP        Transport = "http" // and https
	Local       Transport = "file" // a repository on this machine
)

// Credentials gives the user name and password for one call. It is asked at the moment of use.
type Credentials func(ctx context.Context) (username string, password redact.Secret, err error)

// Call is one git command.
type Call struct {
	Dir         string // working directory; empty: GitDir, or the root directory
	GitDir      string // always explicit: git must not go looking for a repository
	WorkTree    string
	Index       string   // GIT_INDEX_FILE
	Args        []string // the command and its arguments, with no global options
	Config      []string // name=value, after the settings of this package
	Env         []string // NAME=value, after the environment of this package
	Stdin       io.Reader
	Stdout      io.Writer // nil: returned by Run
	Stderr      io.Writer // told too what git and the other side say; nil: nobody. The errors have the end of it in any case.
	Transport   Transport
	Credentials Credentials
	Timeout     time.Duration // 0: until the context ends, or as long as Options.Files says with a WorkTree
	Hold        []*os.File    // descriptors that git keeps open while it lives, such as that of a lock
}

// New finds git.
func New(o Options) (*Git, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Path == "" {
		path, err := exec.LookPath("git")
		if err != nil {
			return nil, fmt.Errorf("git is not installed: %w", err)
		}
		o.Path = path
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("path of git: %w", err)
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	g := &Git{path: path, network: networkSettings(o.Environ), log: o.Log, files: cmp.Or(o.Files, 15*time.Minute)}
	g.version = sync.OnceValues(g.askVersion)
	return g, nil
}

// Version is the version as git says it, such as 2.39.5, or the error that this git is too old or none.
func (g *Git) Version() (string, error) { return g.version() }

func (g *Git) askVersion() (string, error) {
	out, err := g.Run(context.Background(), Call{Args: []string{"version"}, Timeout: 10 * time.Second})
	if err != nil {
		return "", fmt.Errorf("git version: %w", err)
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(out)), "git version ")
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("git version %q: %w", version, err)
	}
	if major < minimum[0] || major == minimum[0] && minor < minimum[1] {
		return "", fmt.Errorf("git %s is too old, %d.%d or newer is needed", version, minimum[0], minimum[1])
	}
	return version, nil
}

// Run runs one command until its end and returns what it wrote, unless Call.Stdout takes that. When the context ends or
// the timeout is over, the whole process group is killed. Errors of git itself are of type *Error.
func (g *Git) Run(ctx context.Context, c Call) ([]byte, error) {
	if c.Timeout == 0 && c.WorkTree != "" {
		c.Timeout = g.files
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took more than %s: %w", c.Timeout, context.DeadlineExceeded))
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb(c.Args), err)
	}
	cmd, stdout, stderr := g.command(ctx, c)
	secret, err := g.giveCredentials(ctx, c, cmd)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	err = cmd.Run()
	for _, f := range cmd.ExtraFiles {
		if !slices.Contains(c.Hold, f) {
			f.Close()
		}
	}
	g.log.DebugContext(ctx, "git", "verb", verb(c.Args), "dir", c.GitDir, "took", time.Since(start), "err", err)
	if err == nil {
		return stdout.Bytes(), nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("git %s: %w", verb(c.Args), context.Cause(ctx))
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return nil, fmt.Errorf("git %s: %w", verb(c.Args), err)
	}
	text := stderr.String()
	if verb(c.Args) == "push" { // with --porcelain the reasons for a refusal are on stdout
		text += "\n" + stdout.String()
	}
	if secret != "" {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	return stdout.Bytes(), &Error{Kind: classify(c, text), Args: c.Args, Stderr: text, Exit: exit.ExitCode()}
}

func (g *Git) command(ctx context.Context, c Call) (*exec.Cmd, *bytes.Buffer, *tail) {
	var stdout bytes.Buffer
	stderr := &tail{limit: 16 << 10}
	cmd := exec.CommandContext(ctx, g.path, append(globalOptions(c), c.Args...)...)
	cmd.Env = g.environment(c)
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
		if c.GitDir != "" {
			cmd.Dir = c.GitDir
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, &stdout, stderr
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(stderr, c.Stderr)
	}
	// git starts helpers (git-remote-https, pack-objects, sh): they are killed with it, or they would keep the pipes open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	cmd.ExtraFiles = slices.Clone(c.Hold)
	return cmd, &stdout, stderr
}

func verb(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// tail keeps the last bytes of what git says on stderr: a hostile server can say a great deal there.
type tail struct {
	buf   []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.limit {
		t.buf = slices.Clone(t.buf[len(t.buf)-t.limit:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	if len(t.buf) > t.limit {
		return string(t.buf[len(t.buf)-t.limit:])
	}
	return string(t.buf)
}
