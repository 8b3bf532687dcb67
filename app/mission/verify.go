package mission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/app/tree"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// verify stages what the run offers and runs the checks on exactly that, in a sandbox of its own: what the agent left lying
// in its workspace, its home or its processes has no part in it.
func (e *Engine) verify(ctx context.Context, m *store.Mission) (next, error) {
	run, err := e.Store.Run(ctx, m.Run)
	if err != nil {
		return next{}, err
	}
	o, err := e.stage(ctx, m, run)
	if err != nil {
		return next{}, err
	}
	if to, held := e.hold(m, o); held {
		return to, nil
	}
	tree, list, err := e.checksOf(m, o.Commit)
	if err != nil {
		return next{}, err
	}
	var results []checks.Result
	if len(list) > 0 {
		id, err := e.makeSandbox(ctx, m, string(checksSandbox(m.Run, o)), o.Commit, "what "+m.Run+" offers", sandbox.ID(m.Run))
		if err != nil {
			return next{}, err
		}
		if err := e.setup(ctx, m, id, o.Commit); err != nil {
			return next{}, err
		}
		touched, err := e.touched(ctx, m, o.Base, o.Commit)
		if err != nil {
			return next{}, err
		}
		parkable, leave := e.parkable(ctx)
		defer leave()
		results, err = checks.Run(parkable, e.Sandboxes, id, list, checks.Options{Tree: tree, Touched: touched, Redact: e.Redact, Now: e.Now, Network: networkOf(m)})
		if err != nil {
			return next{}, err
		}
		if results, err = e.compare(parkable, m, results, o.Base, m.BaseBranch, checksSandbox(m.Run, o)); err != nil {
			return next{}, err
		}
	}
	offerButtons(results, checks.ActionRetry, checks.ActionFix, checks.ActionKeep)
	run.Checks = marshal(results)
	if err := e.Store.SaveRun(ctx, run); err != nil {
		return next{}, err
	}
	// What was selected or merged is not what the sandbox holds, so the sandbox is not verified by it.
	if rec, err := e.Sandboxes.Record(sandbox.ID(m.Run)); err != nil {
		return next{}, err
	} else if rec.State != sandbox.Discarded && o.whole() && checks.Passed(list, results) {
		if err := e.Sandboxes.Verified(ctx, sandbox.ID(m.Run)); err != nil {
			return next{}, fmt.Errorf("sandbox %s: %w", m.Run, err)
		}
	}
	return next{step: stepPromote, found: describeResults(results)}, nil
}

// checksOf gives the checks that the policy names, or those that the tree suggests.
func (e *Engine) checksOf(m *store.Mission, commit string) (*tree.Tree, []checks.Check, error) {
	p, err := policyOf(m)
	if err != nil {
		return nil, nil, err
	}
	files, err := tree.Open(e.Git.Dir(storeKey(m.RepositoryID)), commit)
	if err != nil {
		return nil, nil, err
	}
	if p.Checks == nil {
		return files, checks.Detect(files), nil
	}
	list := []checks.Check{}
	for _, c := range p.Checks {
		list = append(list, checkOf(c))
	}
	return files, list, nil
}

// networkOf is what the policy opens to every command of a mission.
func networkOf(m *store.Mission) []string {
	p, err := policyOf(m)
	if err != nil { // said where the policy is needed
		return nil
	}
	return p.Network
}

func checkOf(c policy.Check) checks.Check {
	return checks.Check{Name: c.Name, Run: c.Run, Dir: c.Dir, Annotate: c.Annotate, Required: c.Required, Timeout: c.Timeout}
}

// listed gives back the checks that results are of.
func listed(results []checks.Result) (list []checks.Check) {
	for _, r := range results {
		list = append(list, r.Check)
	}
	return list
}

func describeResults(results []checks.Result) string {
	if len(results) == 0 {
		return "no checks: the policy names none and the tree suggests none"
	}
	var parts []string
	for _, r := range results {
		part := r.Name
		if r.Conclusion != checks.Success {
			part += " " + string(r.Conclusion)
		}
		switch n := len(r.Annotations); {
		case n == 1:
			part += " (1 annotation)"
		case n > 1:
			part += fmt.Sprintf(" (%d annotations)", n)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

func resultsOf(run *store.Run) (results []checks.Result, err error) {
	if run.Checks == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(run.Checks), &results); err != nil {
		return nil, fmt.Errorf("checks of %s: %w", run.ID, err)
	}
	return results, nil
}

func (e *Engine) target(m *store.Mission) checks.Target {
	return checks.Target{Owner: m.Owner, Repo: m.Name, HeadSHA: m.Head, DetailsURL: e.commentURL(m)}
}

// verifyPull runs the checks on the head of a pull request and reports each as it goes.
func (e *Engine) verifyPull(ctx context.Context, m *store.Mission) (next, error) {
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Checks)
	if err != nil {
		return next{}, err
	}
	tree, list, err := e.checksOf(m, m.Head)
	if err != nil {
		return next{}, err
	}
	if m.OnlyCheck != "" {
		list = slices.DeleteFunc(list, func(c checks.Check) bool { return checks.RunName(c.Name) != m.OnlyCheck })
	}
	run := &store.Run{ID: m.Run, Mission: m.ID, Attempt: m.Attempt, Base: m.Head, Result: m.Head, CreatedAt: e.Now(), Checks: marshal(pending(list))}
	if err := e.queueChecks(ctx, gh, m, run, list); err != nil {
		return next{}, err
	}
	base, branch, err := e.baseOfPull(ctx, m)
	if err != nil {
		return next{}, err
	}
	touched, err := e.touched(ctx, m, base, m.Head)
	if err != nil {
		return next{}, err
	}
	var reported error
	parkable, leave := e.parkable(ctx)
	defer leave()
	results, err := checks.Run(parkable, e.Sandboxes, sandbox.ID(m.Run), list, checks.Options{
		Tree: tree, Touched: touched, Redact: e.Redact, Now: e.Now, Network: networkOf(m),
		Starting: func(c checks.Check) {
			if _, err := e.Reporter.Start(ctx, gh, e.target(m), checkKey(m, c), e.Now()); err != nil {
				e.Log.Warn("check not shown as started", "mission", m.ID, "check", c.Name, "error", err)
			}
		},
		Finished: func(r checks.Result) {
			if len(checks.Suspects([]checks.Result{r})) > 0 && base != "" {
				return // it is shown once it is known what the base does
			}
			reported = errors.Join(reported, e.complete(ctx, gh, m, r))
		},
		Watch: e.watchChecks(gh, m),
	})
	if err = errors.Join(err, reported); err != nil {
		return next{}, err
	}
	if results, err = e.compare(parkable, m, results, base, branch, sandbox.ID(m.Run)); err != nil {
		return next{}, err
	}
	if err := e.completeAll(ctx, gh, m, results); err != nil {
		return next{}, err
	}
	run.Checks, run.EndedAt = marshal(results), e.Now()
	if err := e.Store.SaveRun(ctx, run); err != nil {
		return next{}, err
	}
	m.Outcome, m.Message = string(outcome.Checked), describeResults(results)
	return next{step: stepArchive, found: m.Message}, nil
}

// queueChecks records the run and shows each of its checks as waiting.
func (e *Engine) queueChecks(ctx context.Context, gh *github.Client, m *store.Mission, run *store.Run, list []checks.Check) error {
	if err := e.Store.SaveRun(ctx, run); err != nil {
		return err
	}
	for _, c := range list {
		if _, err := e.Reporter.Queue(ctx, gh, e.target(m), checkKey(m, c)); err != nil {
			return err
		}
	}
	return nil
}

// pending is what is known of checks that have not run: enough to conclude their Check Runs if they never do.
func pending(list []checks.Check) []checks.Result {
	results := []checks.Result{}
	for _, c := range list {
		results = append(results, checks.Result{Check: c})
	}
	return results
}

// staysOpen ends the message of a mission whose Check Runs could not be concluded.
const staysOpen = "; its Check Runs at GitHub stay open, since nothing could be written there"

// cancelChecks concludes the Check Runs of a run that was stopped before they were.
func (e *Engine) cancelChecks(ctx context.Context, m *store.Mission, run *store.Run, why string) error {
	if !run.EndedAt.IsZero() {
		return nil
	}
	results, err := resultsOf(run)
	if err != nil {
		return err
	}
	gh, err := e.GitHub.Client(ctx, repoOf(m), installation.Checks)
	if err != nil {
		return err
	}
	target := e.target(m)
	target.HeadSHA = run.Base // of this run, not of the one that supersedes it
	for _, r := range results {
		r.Conclusion, r.Summary, r.Completed = checks.Cancelled, why, e.Now()
		_, err := e.Reporter.Complete(ctx, gh, target, checkKey(m, r.Check), r)
		switch {
		case err == nil, errors.Is(err, checks.ErrGone), errors.Is(err, checks.ErrNoCommit):
		case outcome.Class(err) != nil: // as when the repository was archived meanwhile: no repetition mends it, and the run is over all the same
			e.Log.Warn("a Check Run stays open", "mission", m.ID, "check", r.Name, "error", err)
			m.Message = strings.TrimSuffix(m.Message, staysOpen) + staysOpen
			if err := e.Store.AddEffect(ctx, untold+m.ID, 0, e.Now()); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// checkKey names one check of one run for ever; a re-run is another run and another key.
func checkKey(m *store.Mission, c checks.Check) checks.ExternalID {
	return checks.ExternalID{Mission: m.ID, Run: m.Run, Check: c.Name, Attempt: 1}
}
