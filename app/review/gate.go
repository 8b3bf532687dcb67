package review

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
)

// Name is that of the Check Run, without the bot's prefix.
const Name = "review"

// GitHub gives clients for a purpose.
type GitHub interface {
	Client(context.Context, installation.Repo, installation.Purpose) (*github.Client, error)
}

// Reporter shows gates as Check Runs. Both may be called again.
type Reporter interface {
	Gate(context.Context, *github.Client, checks.Target, checks.ExternalID, checks.Gate) error
	EndGate(ctx context.Context, gh *github.Client, t checks.Target, check, why string) error
}

// Evidence is what a mission knows of its pull request and GitHub's API does not tell.
type Evidence interface {
	// Head is where the branch is, by git itself: the API may show an older head for a moment (quern-dev/quern#88).
	Head(context.Context, *store.Mission) (string, error)
	// Owners is the text of CODEOWNERS at the base that the change was made for; "" where there is none.
	Owners(context.Context, *store.Mission) (string, error)
	// Unsettled names the other gates that wait for a person's word.
	Unsettled(context.Context, *store.Mission) ([]string, error)
}

// Store is what the gate remembers.
type Store interface {
	// Effects gives the keys that begin so, of what was done and not undone.
	Effects(ctx context.Context, begin string) ([]string, error)
	AddEffect(ctx context.Context, key string, id int64, now time.Time) error
	DropEffect(ctx context.Context, key string) error
	// Approvals are by a comment, of exactly this head.
	Approvals(ctx context.Context, mission, head string) (logins []string, err error)
}

// Gate holds pull requests until people let them pass.
type Gate struct {
	GitHub   GitHub
	Reporter Reporter
	Evidence Evidence
	Store    Store
	Now      func() time.Time
}

// ErrLag says that the API still shows an older head than git does (quern-dev/quern#88: a gate let an unreviewed commit pass so).
const ErrLag = outcome.Passing("the API does not show the head of the pull request yet")

// looks is how often a head may move while the gate is being shown on it.
const looks = 5

// Set shows where the gate stands on the live head, and ends it on every other one: a push makes it wait again, because the new head has
// no approvals. A head that moved meanwhile is looked at anew, so that of several that set the gate at once the last one leaves it
// where the branch is. fresh: nothing of ours was ever shown on the pull request.
func (g *Gate) Set(ctx context.Context, m *store.Mission, fresh bool) error {
	read, err := g.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return err
	}
	for range looks {
		pr, _, err := read.PullRequests.Get(ctx, m.Owner, m.Name, m.Pull)
		if err != nil {
			return fmt.Errorf("pull request %d: %w", m.Pull, err)
		}
		if pr.GetState() != "open" {
			return g.End(ctx, m, "", "the pull request is closed")
		}
		head, err := g.Evidence.Head(ctx, m)
		if err != nil {
			return err
		}
		stands, err := g.Stands(ctx, read, m, pr, head)
		if err != nil {
			return err
		}
		if err := g.show(ctx, m, head, fresh && head == m.Head, stands); err != nil {
			return err
		}
		now, err := g.Evidence.Head(ctx, m)
		switch {
		case err != nil:
			return err
		case now != head:
			fresh = false
		case pr.GetHead().GetSHA() != head:
			return ErrLag
		default:
			return nil
		}
	}
	return ErrLag
}

// show sets the Check Run on a head, and ends those on all others.
func (g *Gate) show(ctx context.Context, m *store.Mission, head string, fresh bool, stands checks.Gate) error {
	gh, err := g.GitHub.Client(ctx, repoOf(m), installation.Checks)
	if err != nil {
		return err
	}
	if err := g.Store.AddEffect(ctx, shownOn(m, head), 0, g.Now()); err != nil {
		return err
	}
	key := checks.ExternalID{Mission: m.ID, Run: m.Run, Check: Name, Attempt: 1}
	if err := g.Reporter.Gate(ctx, gh, checks.Target{Owner: m.Owner, Repo: m.Name, HeadSHA: head, Fresh: fresh}, key, stands); err != nil {
		return err
	}
	return g.End(ctx, m, head, fmt.Sprintf("superseded: the head is %.12s now", head))
}

func repoOf(m *store.Mission) installation.Repo {
	return installation.Repo{InstallationID: m.InstallationID, ID: m.RepositoryID, Owner: m.Owner, Name: m.Name}
}

// policyOf is what the mission's policy asks of reviews.
func policyOf(m *store.Mission) (*policy.Policy, error) {
	p := new(policy.Policy)
	if err := json.Unmarshal([]byte(m.Policy), p); err != nil {
		return nil, fmt.Errorf("policy of mission %s: %w", m.ID, err)
	}
	return p, nil
}

// Stands says where the gate stands on the head that git has. It is never open while the API shows another one, while the pull request
// is for another base than the change was made and checked for, or while another gate waits for a person.
func (g *Gate) Stands(ctx context.Context, gh *github.Client, m *store.Mission, pr *github.PullRequest, head string) (checks.Gate, error) {
	p, err := policyOf(m)
	if err != nil {
		return checks.Gate{}, err
	}
	t, err := g.count(ctx, gh, m, p, head)
	if err != nil {
		return checks.Gate{}, err
	}
	if api := pr.GetHead().GetSHA(); api != head {
		t.waits = append(t.waits, fmt.Sprintf("GitHub shows the head %.7s, git has %.7s", api, head))
	}
	if base := pr.GetBase().GetRef(); base != m.BaseBranch {
		t.waits = append(t.waits, fmt.Sprintf("the pull request is for %s now, and this was made and checked for %s", base, m.BaseBranch))
	}
	if t.enough() && len(t.waits) == 0 {
		if err := g.countAuthors(ctx, gh, m, &t); err != nil {
			return checks.Gate{}, err
		}
	}
	if t.enough() && len(t.waits) == 0 {
		if err := g.countOwners(ctx, gh, m, &t); err != nil {
			return checks.Gate{}, err
		}
	}
	open, err := g.Evidence.Unsettled(ctx, m)
	shown := t.gate(m, p)
	if len(open) > 0 {
		shown.Open = false
		shown.Title = "a person has to settle " + strings.Join(open, ", ") + "; " + shown.Title
		shown.Summary += "\nOpen gates: `" + strings.Join(open, "`, `") + "`. `/sandpiper allow GATE` lets what one found pass.\n"
	}
	return shown, err
}
