// Package promote takes what a run made out of its sandbox and offers it to people: a commit, a branch, a pull request,
// and a manifest of exactly what changed.
//
// Each step looks for what it did before it does it, so that publishing twice, after a kill or after an answer that was
// lost, ends in one branch and one pull request. The package must not approve, merge, or switch on automatic merging, and
// has no code for it: that is for people.
package promote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// What a caller can do something about. ErrRefused and ErrClosed say more.
var (
	ErrNothing     = sandbox.ErrNothing                                      // say so; there is no pull request
	ErrBranchMoved = errors.New("somebody else has moved the bot's branch")  // stop until a person hands it back
	ErrBaseGone    = errors.New("the base branch is not in the repository")  // ask where to
	ErrTooMany     = errors.New("too many branches of that name are in use") // something else is wrong
)

// ErrRefused says that the repository does not take what was to be promoted. The result stays in the store.
type ErrRefused struct {
	Reason  string   // for the person concerned, one line
	Missing string   // the App's permission that is missing, as "workflows: write"; empty when it is something else
	Paths   []string // what the reason is about, if it is paths: without them the rest can be promoted
	Err     error
}

func (e *ErrRefused) Error() string { return "promotion refused: " + e.Reason }

func (e *ErrRefused) Unwrap() error { return e.Err }

// ErrClosed says that the mission's pull request was closed or merged before. It is not opened twice.
type ErrClosed struct{ PR *github.PullRequest }

func (e *ErrClosed) Error() string {
	how := "closed"
	if e.PR.MergedAt != nil || e.PR.GetMerged() {
		how = "merged"
	}
	return fmt.Sprintf("pull request #%d of this mission was %s", e.PR.GetNumber(), how)
}

// Person is an account at GitHub.
type Person struct {
	Login string `json:"login"`
	ID    int64  `json:"id"`
}

// Check is one row of how the change was checked.
type Check struct {
	Name        string
	Command     string
	Conclusion  string // in GitHub's words: success, failure, …
	Summary     string
	URL         string // of the Check Run; optional
	Required    bool
	Duration    time.Duration
	Annotations int
}

// Record is what else the bot knows of a run. Digests are "sha256:…", empty where there is none.
type Record struct {
	Policy       string // digest of the policy in force
	Receipt      string // digest of what the agent was given
	AgentVersion string // as it says itself; optional
	BotVersion   string
	Findings     []sandbox.Finding
}

// Item is something that the agent was given, or that was withheld from it, with a word on it and where it stands, if that is a page.
type Item struct{ What, Note, URL string }

// Branch is a branch of the bot as it was last seen.
type Branch struct{ Name, Head string }

// Request is everything that a promotion is made of. The same request gives the same commit, branch and pull request.
type Request struct {
	Run         sandbox.ID
	Mission     string
	Owner, Repo string
	RepoID      int64
	Base        string // the branch that the change is for, by name
	Issue       int    // 0: none
	Stacked     bool   // the issue is a pull request, onto whose branch this one goes
	Suggest     bool   // the issue is a pull request whose branch is not the bot's to push to: see PostReview
	Title       string // of the issue, or of the task
	Style       Style  // of the first line of commits, and of the title of the pull request
	Signoff     bool   // commits carry Signed-off-by of the bot
	Keep        bool   // the agent's own commits are kept, where they can be
	Text        string // of the issue, as the agent was given it; optional
	Instruction string // what the requester added in a comment; optional
	Requester   Person
	Bot         Person    // such as sandpiper[bot]: author of the commit
	When        time.Time // of the commit: a recorded time, not the present
	Selection   sandbox.Selection
	Staged      Staged // what Stage made; only for Publish
	Draft       bool
	DraftReason string  // for people
	Workflows   bool    // the App may change workflow files
	API         bool    // commits are made by GitHub's API, which signs them, instead of pushed
	Previous    *Branch // what an earlier run of this mission pushed: this one goes on there
	FollowUp    *FollowUp
	Onto        string // of an update: the head of the bot's branch, which stays in the history beside the base
	Agent       string
	Checks      []Check
	Gates       []gates.Result
	Record
	CheckedTree string // that the checks ran on; empty: not known
	Given       []Item
	Withheld    []Item
	Reach       []Item   // what the agent could get at
	Approvals   int      // that the check sandpiper / review waits for
	OwnCounts   bool     // whether the requester's approval is one of them
	MissionURL  string   // where the mission is told as it goes
	Said        string   // by the agent, at its end
	Labels      []string // put on the pull request
	Reviewers   bool     // owners of what it touches are asked for a review
	Took        string   // time and money of the run, for people
}

// Result is what people can look at now.
type Result struct {
	Branch   string
	Head     string
	PR       *github.PullRequest
	Manifest Manifest
	Adopted  bool     // the pull request was there already
	Notes    []string // what could not be done as asked, for people
}

// Sandboxes is the manager of sandboxes, which is told when the work of one has been taken.
type Sandboxes interface {
	Promoted(ctx context.Context, id sandbox.ID) error
}

var _ Sandboxes = (*sandbox.Manager)(nil)

// Repository is the repository at GitHub, and its store.
type Repository interface {
	// Push sets a branch to a commit if it is at expect; empty: if it does not exist. Already being there is no error.
	Push(ctx context.Context, commit, branch, expect string) error
	// LsRemote lists refs with their commits, as git ls-remote takes patterns.
	LsRemote(ctx context.Context, patterns ...string) (map[string]string, error)
	// Blobs reads blobs of the store up to a size; those that are longer are not in the answer.
	Blobs(ctx context.Context, ids []string, most int64) (map[string][]byte, error)
	// KeepManifest keeps the data with the run in the store, instead of what was kept before.
	KeepManifest(ctx context.Context, run sandbox.ID, data []byte) error

	blobIDs(ctx context.Context, commit string, paths []string) (map[string]string, error)
	edits(ctx context.Context, branch, expect, from, to string) ([]edit, error)
	parents(ctx context.Context, head, base string) ([]string, error)
	upload(ctx context.Context, objects []LFSObject) error
	resultDiff(ctx context.Context, s Staged) (diff string, without []string, err error)
}

// Deps is what Publish works with. Redact goes over everything that is posted.
type Deps struct {
	GitHub     *github.Client
	Sandboxes  Sandboxes
	Repository Repository
	Signer     *Signer // nil: manifests are not signed
	Redact     func(string) string
	Log        *slog.Logger
}

// Publish offers what was staged: manifest, branch, pull request. It may be called again with the same request at any time.
// Besides the errors above it returns those of the manager, of git and of the API, which may pass.
func Publish(ctx context.Context, d Deps, req Request) (Result, error) {
	if d.Redact == nil {
		d.Redact = func(s string) string { return s }
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	p := &publication{Deps: d, req: req}
	if err := p.stage(ctx); err != nil {
		return p.result, err
	}
	if err := p.publish(ctx); err != nil {
		return p.result, err
	}
	return p.result, d.Sandboxes.Promoted(ctx, req.Run)
}

type publication struct {
	Deps
	req      Request
	result   Result
	digest   string // of result.Manifest
	envelope []byte
	filled   string // the repository\'s template
}

// stage is for callers that have nothing to do between Stage and Publish.
func (p *publication) stage(ctx context.Context) (err error) {
	shop, able := p.Sandboxes.(Workshop)
	stored, ours := p.Repository.(Stored)
	if p.req.Staged.Commit == "" && able && ours {
		p.req.Staged, err = Stage(ctx, shop, stored, p.Redact, p.req)
	}
	return err
}

func (p *publication) publish(ctx context.Context) error {
	made := p.req.Staged
	if len(made.Changes) == 0 {
		return ErrNothing
	}
	if err := p.mayChange(made.Changes); err != nil {
		return err
	}
	heads, err := p.heads(ctx)
	if err != nil {
		return err
	}
	if heads["refs/heads/"+p.req.Base] == "" {
		return fmt.Errorf("branch %s: %w", p.req.Base, ErrBaseGone)
	}
	if heads["refs/heads/"+BranchRoot] != "" {
		return &ErrRefused{Reason: InTheWay}
	}
	pull, err := p.push(ctx, heads)
	if err != nil {
		return err
	}
	manifest := p.req.manifest(p.result.Head)
	p.result.Manifest, p.digest = manifest, manifest.Digest()
	p.envelope = p.Signer.Seal(manifest)
	if err := p.Repository.KeepManifest(ctx, p.req.Run, p.envelope); err != nil {
		return fmt.Errorf("keep manifest: %w", err)
	}
	if p.filled, err = p.template(ctx); err != nil {
		return err
	}
	if err := p.offer(ctx, pull); err != nil {
		return err
	}
	p.decorate(ctx)
	return p.stillOurs(ctx)
}

// stillOurs looks whether the pull request shows what was pushed. The API may be a moment behind, so the remote itself has
// the last word (quern-dev/quern#88).
func (p *publication) stillOurs(ctx context.Context) error {
	if shown := p.result.PR.GetHead().GetSHA(); shown == "" || shown == p.result.Head {
		return nil
	}
	at, err := p.at(ctx, p.result.Branch)
	if err == nil && at != p.result.Head {
		err = fmt.Errorf("branch %s is at %q: %w", p.result.Branch, at, ErrBranchMoved)
	}
	return err
}

// mayChange refuses before the push what GitHub would refuse in it, and says what is missing: a workflow file from an App
// without that permission (peter-evans/create-pull-request#1713).
func (p *publication) mayChange(changes []sandbox.Change) error {
	if p.req.Workflows {
		return nil
	}
	var paths []string
	for _, c := range changes {
		if c.Kind != sandbox.Deleted && strings.HasPrefix(c.Path, ".github/workflows/") {
			paths = append(paths, c.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return &ErrRefused{
		Reason: fmt.Sprintf("it changes workflow files (%s), and the App does not have the permission %q",
			oneLine(strings.Join(paths, ", "), p.Redact), "workflows: write"),
		Missing: "workflows: write", Paths: paths,
	}
}

// heads reads the branches that matter from the remote itself: the API can be a second behind it.
func (p *publication) heads(ctx context.Context) (map[string]string, error) {
	patterns := []string{"refs/heads/" + p.req.Base, "refs/heads/" + BranchRoot, "refs/heads/" + branchPrefix(p.req.Issue, p.req.Title) + "*"}
	if p.req.Previous != nil {
		patterns = append(patterns, "refs/heads/"+p.req.Previous.Name)
	}
	refs, err := p.Repository.LsRemote(ctx, slices.Compact(patterns)...)
	if err != nil {
		return nil, fmt.Errorf("list branches: %w", err)
	}
	return refs, nil
}
