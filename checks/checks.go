// Package checks runs a repository's own checks on a sandbox, reads what they printed, and reports each as a Check Run.
//
// A check is a shell command line. Its result says how it ended, with the interesting part of the log and annotations on
// the lines that the log names. A Reporter owns the life of the Check Runs at GitHub. The package must not decide whether
// a change is good enough, must not read anything of the sandbox but the log and the tree that it is given, and must not
// say of a check what was not observed: what could not be run is neutral, never a success.
package checks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Check is one command of a repository that judges a tree.
type Check struct {
	Name     string        `json:"name"`               // for people, and part of the Check Run's identity
	Run      string        `json:"run"`                // given to sh -e, so that the first line that fails ends it
	Dir      string        `json:"dir,omitempty"`      // below the root of the repository
	Annotate string        `json:"annotate,omitempty"` // one of Kinds, or "none"; empty tries all
	Required bool          `json:"required,omitempty"`
	Timeout  time.Duration `json:"timeout,omitempty"` // 0: the limit of the sandbox
}

// Conclusion is how a check ended, in GitHub's words.
type Conclusion string

// The conclusions that a check of ours can have.
const (
	Success   Conclusion = "success"
	Failure   Conclusion = "failure"
	TimedOut  Conclusion = "timed_out"
	Cancelled Conclusion = "cancelled"
	Neutral   Conclusion = "neutral" // it could not be judged, and that is not the change's fault
)

// Result is one check that has ended. Its texts are plain text, redacted, without control or hidden characters.
type Result struct {
	Check
	Conclusion  Conclusion                   `json:"conclusion"`
	Summary     string                       `json:"summary"`           // one line
	Hint        string                       `json:"hint,omitempty"`    // Markdown of ours: what people can do
	Excerpt     string                       `json:"excerpt,omitempty"` // the log around the first failure, at most 4,000 bytes
	LogTail     string                       `json:"log_tail,omitempty"`
	Annotations []*github.CheckRunAnnotation `json:"annotations,omitempty"`
	Omitted     int                          `json:"omitted,omitempty"`  // annotations found beyond those
	Near        int                          `json:"near,omitempty"`     // the first so many of them are on lines of the change
	Failing     []string                     `json:"failing,omitempty"`  // lines of its log that tell of a failure
	Baseline    *Baseline                    `json:"baseline,omitempty"` // of a failure; nil: not known
	Actions     []string                     `json:"actions,omitempty"`  // buttons, by identifier; of a check that did not pass
	Duration    time.Duration                `json:"duration"`
	Exit        sandbox.Exit                 `json:"exit"`
	Started     time.Time                    `json:"started"`
	Completed   time.Time                    `json:"completed"`
}

// Runner runs one command in a sandbox to its end. A second call with the same id and name finds the first one's command,
// whether it still runs or has ended. The error is for what could not be begun or observed.
type Runner interface {
	RunCheck(ctx context.Context, id sandbox.ID, name string, cmd sandbox.Command) (sandbox.CheckResult, error)
}

var _ Runner = (*sandbox.Manager)(nil)

// Tree is the tree that is checked. Paths are relative to its root, with slashes.
type Tree interface {
	Exists(path string) bool          // says whether there is a regular file
	Read(path string) ([]byte, error) // gives the whole of a regular file
}

// Options of Run. All are optional.
type Options struct {
	Root     string              // where the tree lies inside the sandbox; default /workspace
	Tree     Tree                // nil: no annotations
	Touched  Touched             // what the change is; nil: not known
	Redact   func(string) string // over everything that is taken out of a log
	Budget   time.Duration       // for all checks together; 0: none
	Network  []string            // groups and hosts that the checks may reach
	Watch    Watch
	Starting func(Check)
	Finished func(Result)
	Now      func() time.Time // default time.Now
}

func (o Options) withDefaults() Options {
	if o.Root == "" {
		o.Root = "/workspace"
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Starting == nil {
		o.Starting = func(Check) {}
	}
	if o.Finished == nil {
		o.Finished = func(Result) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Run runs the checks one after the other in the sandbox id and returns their results in the same order. A failing check
// does not keep the next ones from running. When ctx ends it returns the results so far and the cause; calling it again
// with the same arguments goes on where it was, since the runner finds each command by its name.
func Run(ctx context.Context, r Runner, id sandbox.ID, list []Check, o Options) ([]Result, error) {
	o = o.withDefaults()
	var results []Result
	var spent time.Duration // from the recorded times, not from our clock: the same after a restart
	for i, c := range list {
		limit := c.Timeout
		if o.Budget > 0 {
			left := o.Budget - spent
			if left <= 0 {
				res := notRun(c, TimedOut, fmt.Sprintf("not run: the time for all checks together, %v, was used up", o.Budget), o.Now())
				results = append(results, res)
				o.Finished(res)
				continue
			}
			if limit == 0 || limit > left {
				limit = left
			}
		}
		o.Starting(c)
		res, err := runOne(ctx, r, id, i, c, limit, o)
		if err != nil {
			return results, fmt.Errorf("check %q: %w", c.Name, err)
		}
		spent += res.Duration
		results = append(results, res)
		o.Finished(res)
	}
	return results, nil
}

func runOne(ctx context.Context, r Runner, id sandbox.ID, i int, c Check, limit time.Duration, o Options) (Result, error) {
	defer o.watch(ctx, id, execName(i, c.Name), c)()
	got, err := r.RunCheck(ctx, id, execName(i, c.Name), sandbox.Command{
		Argv:    command(c),
		Timeout: limit,
		Network: o.Network,
	})
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if err != nil {
		res := notRun(c, Neutral, "not run: "+plain(err.Error(), o.Redact), o.Now())
		res.Hint = noJudgement
		return res, nil
	}
	return judge(c, got, o), nil
}

// command enters the check's directory itself: one that is not there is then a failure that the log explains, and not a
// sandbox that could not be started.
func command(c Check) []string {
	if c.Dir == "" {
		return []string{"/bin/sh", "-e", "-c", c.Run}
	}
	return []string{"/bin/sh", "-e", "-c", `cd -- "$1"; exec /bin/sh -e -c "$2"`, "sh", c.Dir, c.Run}
}

// execName names a check's command in its sandbox, for the runner and the disk: the same for the same list of checks.
func execName(i int, name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 32 {
			break
		}
	}
	return strings.TrimRight(fmt.Sprintf("check-%d-%s", i+1, b.String()), "-")
}

// Superseded is the result of a check that nobody waits for any more. The reason is for people.
func Superseded(c Check, reason string, at time.Time) Result { return notRun(c, Cancelled, reason, at) }

func notRun(c Check, how Conclusion, summary string, at time.Time) Result {
	return Result{Check: c, Conclusion: how, Summary: summary, Started: at, Completed: at}
}

// Passed says whether every required check was seen to succeed, or to fail on the base in the same way. No result is not a success.
func Passed(list []Check, results []Result) bool {
	good := map[string]bool{}
	for _, r := range results {
		good[r.Name] = r.Conclusion == Success || r.Excused()
	}
	for _, c := range list {
		if c.Required && !good[c.Name] {
			return false
		}
	}
	return true
}
