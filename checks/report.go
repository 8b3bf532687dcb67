package checks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v60/github"
)

// What a caller can do something about. Other errors are go-github's own, wrapped.
var (
	ErrGone     = errors.New("the check run or its repository is gone")       // 404 or 410: there is nobody to report to
	ErrNoCommit = errors.New("the commit is not in the repository at GitHub") // 422: not pushed, or pushed away
)

// Target is the commit that a Check Run is about.
type Target struct {
	Owner, Repo string
	HeadSHA     string
	DetailsURL  string // of the mission, for people; optional
	Fresh       bool   // nothing of ours was ever shown on the commit: CompleteAll and Gate do not look for it
}

// ReporterOptions are all optional but for AppID, without which runs of other Apps with our ids would be taken for ours.
type ReporterOptions struct {
	AppID    int64
	Redact   func(string) string // over everything that is posted
	Now      func() time.Time
	Deadline time.Duration // of Complete, which a cancelled caller does not stop; default 2 minutes
	Wait     func(ctx context.Context, d time.Duration) error
	Log      *slog.Logger
}

// Reporter owns the life of Check Runs: queued, in progress, completed. Every method may be called again with the same key
// and then finds what it did before, so that a check is reported once and always to its end. Safe for concurrent use.
type Reporter struct {
	o     ReporterOptions
	mu    sync.Mutex
	lanes map[string]*lane
}

// NewReporter makes a Reporter.
func NewReporter(o ReporterOptions) *Reporter {
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Deadline == 0 {
		o.Deadline = 2 * time.Minute
	}
	if o.Wait == nil {
		o.Wait = wait
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Reporter{o: o, lanes: map[string]*lane{}}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Queue shows that the check will run.
func (r *Reporter) Queue(ctx context.Context, gh *github.Client, t Target, key ExternalID) (*github.CheckRun, error) {
	runs, err := r.ensure(ctx, gh, t, key, "queued", time.Time{})
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

// Start shows that the check runs since a time. A run that is already in progress or completed is left as it is.
func (r *Reporter) Start(ctx context.Context, gh *github.Client, t Target, key ExternalID, at time.Time) (*github.CheckRun, error) {
	runs, err := r.ensure(ctx, gh, t, key, "in_progress", at)
	if err != nil {
		return nil, err
	}
	if runs[0].GetStatus() != "queued" {
		return runs[0], nil
	}
	return r.patch(ctx, gh, t, runs[0].GetID(), update{
		UpdateCheckRunOptions: github.UpdateCheckRunOptions{Name: RunName(key.Check), Status: github.String("in_progress")},
		StartedAt:             timestamp(at),
	})
}

// OpenRuns gives the Check Runs of this App on a commit that are not completed, for whoever mends what a crash left.
func (r *Reporter) OpenRuns(ctx context.Context, gh *github.Client, t Target) ([]*github.CheckRun, error) {
	all, err := r.list(ctx, gh, t, "")
	if err != nil {
		return nil, err
	}
	var open []*github.CheckRun
	for _, run := range all {
		if _, ours := ParseExternalID(run.GetExternalID()); ours && run.GetStatus() != "completed" {
			open = append(open, run)
		}
	}
	return open, nil
}

// ensure finds the Check Runs of a key, or creates one. There is more than one only when two processes raced.
func (r *Reporter) ensure(ctx context.Context, gh *github.Client, t Target, key ExternalID, status string, started time.Time) ([]*github.CheckRun, error) {
	defer r.enter(t.HeadSHA + key.String())()
	return r.make(ctx, gh, t, key, status, started)
}

// make is ensure for whoever is in the lane of the key.
func (r *Reporter) make(ctx context.Context, gh *github.Client, t Target, key ExternalID, status string, started time.Time) ([]*github.CheckRun, error) {
	runs, err := r.find(ctx, gh, t, key)
	if err != nil || len(runs) > 0 {
		return runs, err
	}
	run, _, err := gh.Checks.CreateCheckRun(ctx, t.Owner, t.Repo, github.CreateCheckRunOptions{
		Name: RunName(key.Check), HeadSHA: t.HeadSHA, ExternalID: github.String(key.String()),
		DetailsURL: optional(t.DetailsURL), Status: &status, StartedAt: timestamp(started),
	})
	if err == nil {
		return []*github.CheckRun{run}, nil
	}
	if transient(err) { // it may have been created all the same
		if runs, again := r.find(ctx, gh, t, key); again == nil && len(runs) > 0 {
			return runs, nil
		}
	}
	return nil, classify("create check run "+key.String(), err)
}

func (r *Reporter) find(ctx context.Context, gh *github.Client, t Target, key ExternalID) ([]*github.CheckRun, error) {
	all, err := r.list(ctx, gh, t, RunName(key.Check))
	if err != nil {
		return nil, err
	}
	return of(all, key), nil
}

// of gives the runs of a key.
func of(all []*github.CheckRun, key ExternalID) (runs []*github.CheckRun) {
	for _, run := range all {
		if run.GetExternalID() == key.String() {
			runs = append(runs, run)
		}
	}
	return runs
}

// list gives the runs of this App on the commit, of one name or of all, every attempt of them: the default of the API is
// the latest of each name only. GitHub keeps at most 1,000 runs of one name in a suite.
func (r *Reporter) list(ctx context.Context, gh *github.Client, t Target, name string) ([]*github.CheckRun, error) {
	o := &github.ListCheckRunsOptions{CheckName: optional(name), Filter: github.String("all")}
	if r.o.AppID != 0 {
		o.AppID = &r.o.AppID
	}
	o.PerPage = 100
	var all []*github.CheckRun
	for {
		page, resp, err := gh.Checks.ListCheckRunsForRef(ctx, t.Owner, t.Repo, t.HeadSHA, o)
		if err != nil {
			return nil, classify("list check runs of "+t.HeadSHA, err)
		}
		for _, run := range page.CheckRuns {
			if run.App == nil || r.o.AppID == 0 || run.App.GetID() == r.o.AppID {
				all = append(all, run)
			}
		}
		if resp.NextPage == 0 {
			return all, nil
		}
		o.Page = resp.NextPage
	}
}

// update is github.UpdateCheckRunOptions with the started_at that it lacks in v60. Its Name must always be set: it has no
// omitempty, and an empty one would be sent.
type update struct {
	github.UpdateCheckRunOptions
	StartedAt *github.Timestamp `json:"started_at,omitempty"`
}

func (r *Reporter) patch(ctx context.Context, gh *github.Client, t Target, id int64, u update) (*github.CheckRun, error) {
	req, err := gh.NewRequest(http.MethodPatch, fmt.Sprintf("repos/%s/%s/check-runs/%d", t.Owner, t.Repo, id), u)
	if err != nil {
		return nil, err
	}
	run := new(github.CheckRun)
	if _, err := gh.Do(ctx, req, run); err != nil {
		return nil, classify(fmt.Sprintf("update check run %d", id), err)
	}
	return run, nil
}

// classify wraps an API error with what it was about and with what the caller can do about it.
func classify(what string, err error) error {
	var answer *github.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		switch answer.Response.StatusCode {
		case http.StatusNotFound, http.StatusGone:
			return fmt.Errorf("%s: %w: %w", what, ErrGone, err)
		case http.StatusUnprocessableEntity:
			if strings.Contains(strings.ToLower(answer.Error()), "no commit found") {
				return fmt.Errorf("%s: %w: %w", what, ErrNoCommit, err)
			}
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// transient says whether a call may succeed soon, or may even have succeeded: a broken connection or a server's own error.
func transient(err error) bool {
	var answer *github.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.Response.StatusCode >= 500 && answer.Response.StatusCode != http.StatusNotImplemented
	}
	var limited *github.RateLimitError
	var abuse *github.AbuseRateLimitError
	return !errors.As(err, &limited) && !errors.As(err, &abuse) && !errors.Is(err, context.Canceled)
}

func rejected(err error) bool {
	var answer *github.ErrorResponse
	return errors.As(err, &answer) && answer.Response != nil && answer.Response.StatusCode == http.StatusUnprocessableEntity
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timestamp(t time.Time) *github.Timestamp {
	if t.IsZero() {
		return nil
	}
	return &github.Timestamp{Time: t.UTC().Truncate(time.Second)}
}

// lane keeps two callers with the same key from both finding nothing and both creating.
type lane struct {
	sync.Mutex
	users int
}

func (r *Reporter) enter(key string) (leave func()) {
	r.mu.Lock()
	l := r.lanes[key]
	if l == nil {
		l = &lane{}
		r.lanes[key] = l
	}
	l.users++
	r.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		r.mu.Lock()
		defer r.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(r.lanes, key)
		}
	}
}
