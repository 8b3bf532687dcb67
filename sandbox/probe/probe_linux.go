package probe

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

// Sandboxes is the manager of the runs, as far as probes use it.
type Sandboxes interface {
	Create(ctx context.Context, mission string, src sandbox.Source, o sandbox.Options) (sandbox.ID, error)
	Run(ctx context.Context, id sandbox.ID, c sandbox.Command, std sandbox.Stdio) (sandbox.Exit, error)
	Delta(id sandbox.ID) (string, error)
	Record(id sandbox.ID) (sandbox.Record, error)
	Discard(ctx context.Context, id sandbox.ID) (sandbox.Discard, error)
	Forget(ctx context.Context, id sandbox.ID) error
}

// Options of Run.
type Options struct {
	Sandboxes Sandboxes
	Stores    *gitstore.Stores
	Backend   string
	StateDir  string // in whose directories a marker must not appear either
	Program   string // this executable, if it is not the one to bind inside
	Now       func() time.Time
}

// limits of the probes' sandbox: enough for a Go program, little enough to be reached in a moment.
var limits = sandbox.Limits{Procs: 64, Memory: 128 << 20, Disk: 32 << 20, Output: 1 << 20, Files: 1000, Wall: time.Minute}

// round is one run of the probes.
type round struct {
	Options
	result    Result
	nonce     string // of what is tried inside
	control   string // of what is tried outside of any sandbox
	canary    string // the credential: found is breached
	dir       string // disposable, outside of any workspace
	endpoints *endpoints
	inside    map[string]string // what the program said, by what it tried
	printed   bytes.Buffer      // everything that it printed
	delta     string
	findings  []sandbox.Finding
}

// environment keeps two probes from setting the canary at once: a process has one environment.
var environment sync.Mutex

// Run makes one round. It does not fail: what could not be tried is inconclusive, and the result says why.
func Run(ctx context.Context, o Options) Result {
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &round{Options: o, inside: map[string]string{}, nonce: word(), control: word(), canary: "canary-" + word()}
	r.result = Result{Backend: o.Backend, Started: o.Now().UTC()}
	began := o.Now()
	err := r.try(ctx)
	r.result.Unavailable = errors.As(err, new(*sandbox.ErrUnavailable))
	r.judge(err)
	r.result.Took = o.Now().Sub(began)
	return r.result
}

func word() string { return strings.ToLower(rand.Text()[:16]) }

func (r *round) see(observer, what, saw string) {
	r.result.Observed = append(r.result.Observed, Observation{observer, what, saw})
}

// try does everything that is to be judged, and takes back what it made.
func (r *round) try(ctx context.Context) (err error) {
	removeStale(r.Now())
	if r.dir, err = os.MkdirTemp("", disposable); err != nil {
		return fmt.Errorf("disposable directory: %w", err)
	}
	defer os.RemoveAll(r.dir)
	if err := r.lay(); err != nil {
		return err
	}
	if r.endpoints, err = listenAll(r.dir, word()); err != nil {
		return err
	}
	err = r.launch(ctx)
	r.endpoints.close()
	r.look()
	return err
}

const disposable = "sandpiper-probe-"

// removeStale removes what rounds of this user have left whose process was killed. A round takes seconds.
func removeStale(now time.Time) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), disposable+"*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err == nil && info.IsDir() && int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() && now.Sub(info.ModTime()) > time.Hour {
			_ = os.RemoveAll(dir) // it is tried again
		}
	}
}

// lay puts down what a program that is not confined finds: a directory that everybody can write, and a credential.
func (r *round) lay() error {
	for dir, mode := range map[string]os.FileMode{r.dir: 0o711, r.outside(): 0o777, r.workspace(): 0o777} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir, mode); err != nil {
			return err
		}
	}
	return os.WriteFile(r.canaryFile(), []byte(r.canary), 0o644)
}

func (r *round) outside() string    { return filepath.Join(r.dir, "outside") }
func (r *round) workspace() string  { return filepath.Join(r.dir, "unscoped") }
func (r *round) canaryFile() string { return filepath.Join(r.dir, "credentials") }

// places are where no marker must appear. The first one everybody could write to.
func (r *round) places() []string {
	places := []string{r.outside(), "/", "/usr", "/usr/local/bin", "/etc", "/run/sandpiper/objects"}
	for _, dir := range []string{filepath.Join(r.StateDir, "runs"), filepath.Join(r.Stores.Dir(sandbox.ProbeKey), "objects"), filepath.Join(r.Stores.Dir(sandbox.ProbeKey), "refs", "heads")} {
		if filepath.IsAbs(dir) {
			places = append(places, dir)
		}
	}
	return places
}

// launch runs the program outside of a sandbox, as the control, and inside one.
func (r *round) launch(ctx context.Context) error {
	environment.Lock()
	defer environment.Unlock()
	if err := os.Setenv(canaryVariable, r.canary); err != nil {
		return err
	}
	defer os.Unsetenv(canaryVariable)
	if err := r.unscoped(ctx); err != nil {
		r.see("host", "control without a sandbox", err.Error())
	}
	base, object, err := r.repository(ctx)
	if err != nil {
		return fmt.Errorf("repository of the probes: %w", err)
	}
	id, err := r.Sandboxes.Create(ctx, "", sandbox.Source{Key: sandbox.ProbeKey, Base: base, From: "probe"},
		sandbox.Options{ID: sandbox.ID("probe-" + r.nonce), Backend: r.Backend, Limits: limits})
	if err != nil {
		return err
	}
	r.result.Run = id
	if rec, err := r.Sandboxes.Record(id); err == nil {
		r.result.Backend = rec.Backend
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		if _, err := r.Sandboxes.Discard(ctx, id); err == nil {
			_ = r.Sandboxes.Forget(ctx, id)
		}
	}()
	if r.delta, err = r.Sandboxes.Delta(id); err != nil {
		return err
	}
	p := plan{Nonce: r.nonce, Control: jail.WorkspaceDir, Outside: r.places(), Files: []string{r.canaryFile()}, Endpoints: r.endpoints.list, Object: object}
	for _, step := range []struct {
		mode    string
		amount  int64
		network []string
	}{{mode: "all"}, {mode: "network", network: []string{"allowed.sandpiper.invalid"}}, {mode: "processes", amount: 2 * int64(limits.Procs)}, {mode: "memory", amount: 4 * limits.Memory}} {
		p.Mode, p.Amount = step.mode, step.amount
		if err := r.run(ctx, id, p, step.network); err != nil {
			return err
		}
	}
	rec, err := r.Sandboxes.Record(id)
	r.findings, r.result.Watched = rec.Findings, rec.Watched
	for _, f := range rec.Findings {
		r.see(f.Observer, f.Kind, f.Evidence)
	}
	// While it stands: the control marker has to be where the host sees the workspace.
	text, rerr := os.ReadFile(filepath.Join(r.delta, markerName(r.nonce)))
	r.see("host", "marker in the workspace", string(text)+" "+outcomeOf(rerr))
	r.inside["host marker"] = string(text)
	return err
}

// run has the program try one thing, by the launcher of the runs.
func (r *round) run(ctx context.Context, id sandbox.ID, p plan, network []string) error {
	program := r.Program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		program = self
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var out, errs bytes.Buffer
	exit, err := r.Sandboxes.Run(ctx, id, sandbox.Command{
		Argv: []string{insidePath}, Stdin: string(text), Network: network, Timeout: 30 * time.Second,
		Binds: []sandbox.Bind{{Host: program, Inside: insidePath}},
	}, sandbox.Stdio{Out: &out, Err: &errs})
	if err != nil {
		return fmt.Errorf("%s: %w", p.Mode, err)
	}
	r.see("host", "end of "+p.Mode, fmt.Sprintf("%s, status %d %s", exit.Reason, exit.Code, exit.Message))
	r.inside["exit "+p.Mode] = fmt.Sprintf("%s %d", exit.Reason, exit.Code)
	r.hear(p.Mode, out.Bytes())
	r.printed.Write(errs.Bytes())
	return nil
}

// hear takes what the program printed. It is what was observed inside: worth something only where it speaks against us.
func (r *round) hear(mode string, out []byte) {
	r.printed.Write(out)
	for line := range bytes.Lines(out) {
		var s said
		if err := json.Unmarshal(line, &s); err != nil || len(r.result.Observed) > 300 {
			continue
		}
		r.inside[mode+" "+s.What] = s.Saw
		if strings.Contains(s.Saw, r.canary) {
			s.Saw = "the canary credential"
		}
		r.see("inside", s.What, s.Saw)
	}
}

// unscoped runs the same program without any boundary, as the user that sandboxes run as. It does to the disposable directory
// and to the endpoints what an agent without a sandbox could do.
func (r *round) unscoped(ctx context.Context) error {
	text, err := json.Marshal(plan{Nonce: r.control, Mode: "all", Control: r.workspace(), Outside: []string{r.outside()},
		Files: []string{r.canaryFile()}, Endpoints: r.endpoints.list})
	if err != nil {
		return err
	}
	// Not by its path: the directory that it lies in may be closed to that user.
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	if r.Program != "" {
		cmd = exec.CommandContext(ctx, r.Program)
	}
	cmd.Args, cmd.Dir, cmd.Stdin = []string{insidePath}, "/", bytes.NewReader(text)
	cmd.Env = []string{"PATH=" + jail.Path, canaryVariable + "=" + r.canary}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: jail.DefaultUID, Gid: jail.DefaultUID}}
	}
	out, err := cmd.Output()
	r.inside["control found"] = fmt.Sprint(bytes.Contains(out, []byte(r.canary)))
	return err
}

// repository makes the commit that the sandbox starts from, and a blob that is no part of it.
func (r *round) repository(ctx context.Context) (commit, object string, err error) {
	run := func(stdin string, args ...string) string {
		if err != nil {
			return ""
		}
		var out []byte
		out, err = r.Stores.Run(ctx, sandbox.ProbeKey, git.Call{Args: args, Stdin: strings.NewReader(stdin),
			Env: []string{"GIT_AUTHOR_NAME=Sandpiper", "GIT_AUTHOR_EMAIL=probe@sandpiper.invalid", "GIT_AUTHOR_DATE=1700000000 +0000",
				"GIT_COMMITTER_NAME=Sandpiper", "GIT_COMMITTER_EMAIL=probe@sandpiper.invalid", "GIT_COMMITTER_DATE=1700000000 +0000"}})
		return strings.TrimSpace(string(out))
	}
	file := run("The workspace of a probe.\n", "hash-object", "-w", "--stdin")
	tree := run("100644 blob "+file+"\tREADME\n", "mktree")
	commit = run("probe\n", "commit-tree", tree)
	object = run(otherRun, "hash-object", "-w", "--stdin")
	return commit, object, err
}

// otherRun stands for what another run has put into the store.
const otherRun = "an object of another run"

// look is what the host sees after everything: no marker anywhere, nothing heard. Markers that are there are taken away.
func (r *round) look() {
	for _, dir := range r.places() {
		path := filepath.Join(dir, markerName(r.nonce))
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		r.see("host", "marker at "+path, string(text)+" "+outcomeOf(err))
		r.breach("marker", "a marker was written to %s", dir)
		_ = os.Remove(path)
	}
	for _, at := range r.endpoints.heard("/" + r.nonce) {
		r.see("host", "call from inside", at)
		r.breach("connection", "the test endpoint %s was reached from inside", at)
	}
	if bytes.Contains(r.printed.Bytes(), []byte(r.canary)) {
		r.see("host", "canary credential", "it came out of the sandbox")
		r.breach("connection", "the canary credential was found inside")
	}
	text, err := os.ReadFile(filepath.Join(r.outside(), markerName(r.control)))
	r.see("host", "control marker", string(text)+" "+outcomeOf(err))
	if string(text) != r.control {
		r.missing("marker", "the control without a sandbox could not write the marker either")
	}
	heard := r.endpoints.heard("/" + r.control)
	r.see("host", "control calls", strings.Join(heard, ", "))
	if !slices.ContainsFunc(heard, func(at string) bool { return strings.HasPrefix(at, "tcp ") }) {
		r.missing("connection", "the control without a sandbox could not reach the test endpoint either")
	}
	if len(r.endpoints.heard(r.canary)) == 0 {
		r.missing("connection", "the control without a sandbox did not find the canary credential")
	}
}
