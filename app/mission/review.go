package mission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// gateName is the Check Run by which people hold the bot's pull requests: `sandpiper / review`.
const gateName = "review"

// reviewed looks at the gate again because somebody has reviewed, or taken a review back. What the event says of it does
// not count: the gate reads everything anew.
func (e *Engine) reviewed(ctx context.Context, c webhooks.ReviewSubmitted) (string, error) {
	m, err := e.missionOfPull(ctx, c.Repo.ID, c.Number)
	if m == nil || err != nil {
		return "ignored: no mission has this pull request", err
	}
	return "mission " + m.ID + ": review gate", e.gate(ctx, m)
}

// missionOfPull is the open mission that opened a pull request; nil when there is none.
func (e *Engine) missionOfPull(ctx context.Context, repository int64, pull int) (*store.Mission, error) {
	m, err := e.Store.MissionOfPull(ctx, repository, pull)
	if errors.Is(err, store.ErrNone) || err == nil && m.Ended() {
		return nil, nil
	}
	return m, err
}

// gate sets the Check Run `sandpiper / review` on the live head of a mission's pull request. It is green when enough people
// have approved exactly that commit; a push makes it wait again, because the new head has no approvals.
func (e *Engine) gate(ctx context.Context, m *store.Mission) error { return e.setGate(ctx, m, false) }

// setGate is gate for a pull request that may be fresh: nothing of ours was ever shown on it.
func (e *Engine) setGate(ctx context.Context, m *store.Mission, fresh bool) error {
	read, err := e.GitHub.Client(ctx, repoOf(m), installation.Issues)
	if err != nil {
		return err
	}
	pr, _, err := read.PullRequests.Get(ctx, m.Owner, m.Name, m.Pull)
	if err != nil {
		return fmt.Errorf("pull request %d: %w", m.Pull, err)
	}
	if pr.GetState() != "open" {
		return e.endGates(ctx, m, "", "the pull request is closed")
	}
	head, err := e.branchHead(ctx, m)
	if err != nil {
		return err
	}
	standing, err := e.stands(ctx, read, m, pr, head)
	if err != nil {
		return err
	}
	report, err := e.GitHub.Client(ctx, repoOf(m), installation.Checks)
	if err != nil {
		return err
	}
	target := e.target(m)
	target.HeadSHA = head
	target.Fresh = fresh && head == m.Head
	if err := e.Store.AddEffect(ctx, shownGate(m, head), 0, e.Now()); err != nil {
		return err
	}
	key := checks.ExternalID{Mission: m.ID, Run: m.Run, Check: gateName, Attempt: 1}
	if err := e.Reporter.Gate(ctx, report, target, key, standing); err != nil {
		return err
	}
	if err := e.endGates(ctx, m, head, fmt.Sprintf("superseded: the head is %.12s now", head)); err != nil {
		return err
	}
	if pr.GetHead().GetSHA() != head {
		return errLag
	}
	return nil
}

// errLag says that the API still shows an older head than git does (quern-dev/quern#88: a gate let an unreviewed commit pass so).
var errLag = errors.New("the API does not show the head of the pull request yet")

// stands says where the gate stands on the head that git has. It is never open while the API shows another one, while the pull request
// is for another base than the change was made and checked for, or while another gate waits for a person.
func (e *Engine) stands(ctx context.Context, gh *github.Client, m *store.Mission, pr *github.PullRequest, head string) (checks.Gate, error) {
	p, err := policyOf(m)
	if err != nil {
		return checks.Gate{}, err
	}
	t, err := e.count(ctx, gh, m, p, head)
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
		if err := e.countAuthors(ctx, gh, m, &t); err != nil {
			return checks.Gate{}, err
		}
	}
	if t.enough() && len(t.waits) == 0 {
		if err := e.countOwners(ctx, gh, m, &t); err != nil {
			return checks.Gate{}, err
		}
	}
	g := t.gate(m, p)
	return g, e.unsettled(ctx, m, &g)
}

// tally is who has said what of a head.
type tally struct {
	head              string
	need              int
	approved          []string // logins, each once
	objections, notes []string
	waits             []string // what else keeps the gate closed
}

func (t *tally) enough() bool { return len(t.objections) == 0 && len(t.approved) >= t.need }

// without takes back an approval, and says why.
func (t *tally) without(login, why string) {
	n := len(t.approved)
	t.approved = slices.DeleteFunc(t.approved, func(a string) bool { return strings.EqualFold(a, login) })
	if len(t.approved) < n {
		t.notes = append(t.notes, fmt.Sprintf("%s: %s", quote.Text(login), why))
	}
}

// count says who has approved this head, who objects, and who does not count and why.
func (e *Engine) count(ctx context.Context, gh *github.Client, m *store.Mission, p *policy.Policy, head string) (tally, error) {
	t := tally{head: head, need: p.Review.Approvals}
	reviews, err := latestReviews(ctx, gh, m)
	if err != nil {
		return t, err
	}
	said, err := e.Store.Approvals(ctx, m.ID, head)
	if err != nil {
		return t, err
	}
	for _, login := range said {
		reviews = append(reviews, vote{login: login, state: "APPROVED", commit: head, person: true, how: "by a comment"})
	}
	for _, r := range reviews {
		counts, why, err := e.counts(ctx, gh, m, p, r, head)
		switch {
		case err != nil:
			return t, err
		case !counts:
			t.notes = append(t.notes, fmt.Sprintf("%s: %s", quote.Text(r.login), why))
		case r.state == "APPROVED":
			if !slices.Contains(t.approved, r.login) {
				t.approved = append(t.approved, r.login)
			}
		default:
			t.objections = append(t.objections, quote.Text(r.login))
		}
	}
	slices.Sort(t.approved)
	return t, nil
}

// gate is what the tally says to people.
func (t *tally) gate(m *store.Mission, p *policy.Policy) checks.Gate {
	g := checks.Gate{Open: t.enough() && len(t.waits) == 0, Summary: t.summary(m, p)}
	switch {
	case len(t.objections) > 0:
		g.Title = fmt.Sprintf("%s asked for changes", strings.Join(t.objections, ", "))
	case len(t.approved) < t.need:
		g.Title = fmt.Sprintf("waiting for %d of %d approvals of %.7s", t.need-len(t.approved), t.need, t.head)
	case len(t.waits) > 0:
		g.Title = "waiting: " + t.waits[0]
	default:
		g.Title = fmt.Sprintf("%d of %d approvals of %.7s", len(t.approved), t.need, t.head)
	}
	return g
}

func (t *tally) summary(m *store.Mission, p *policy.Policy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "An approval counts when it is of exactly `%s`, by a person with write access", t.head)
	if !p.Review.Requester {
		fmt.Fprintf(&b, " other than %s, who asked for this", quote.Text(m.Requester))
	}
	b.WriteString(". A push makes this wait again. Without reviews: `/sandpiper approve " + t.head[:min(12, len(t.head))] + "`.\n")
	if t.head != m.Head {
		fmt.Fprintf(&b, "\nThis head is not Sandpiper's: it pushed `%.12s`, and its checks and gates looked at that.\n", m.Head)
	}
	if len(t.approved) > 0 {
		fmt.Fprintf(&b, "\nApproved by %s.\n", quote.Text(strings.Join(t.approved, ", ")))
	}
	for _, w := range t.waits {
		fmt.Fprintf(&b, "\n- waits: %s", quote.Text(w))
	}
	for _, n := range t.notes {
		fmt.Fprintf(&b, "\n- does not count: %s", n)
	}
	return b.String()
}

// vote is the newest review of one person, or what they said in a comment.
type vote struct {
	login, state, commit string
	person               bool
	how                  string
}

// latestReviews gives each person's newest review that says yes or no. A comment in between changes neither, as at GitHub.
func latestReviews(ctx context.Context, gh *github.Client, m *store.Mission) ([]vote, error) {
	options := &github.ListOptions{PerPage: 100}
	var votes []vote
	at := map[string]int{}
	for {
		page, response, err := gh.PullRequests.ListReviews(ctx, m.Owner, m.Name, m.Pull, options)
		if err != nil {
			return nil, fmt.Errorf("reviews of %d: %w", m.Pull, err)
		}
		for _, r := range page {
			state := strings.ToUpper(r.GetState())
			if state != "APPROVED" && state != "CHANGES_REQUESTED" && state != "DISMISSED" {
				continue
			}
			v := vote{login: r.GetUser().GetLogin(), state: state, commit: r.GetCommitID(), person: r.GetUser().GetType() == "User"}
			if i, seen := at[v.login]; seen {
				votes[i] = v
				continue
			}
			at[v.login] = len(votes)
			votes = append(votes, v)
		}
		if response.NextPage == 0 {
			return votes, nil
		}
		options.Page = response.NextPage
	}
}

// counts says whether a vote counts, and why not. An objection counts on whatever commit it was made, until it is dismissed or
// followed by an approval.
func (e *Engine) counts(ctx context.Context, gh *github.Client, m *store.Mission, p *policy.Policy, v vote, head string) (bool, string, error) {
	switch {
	case v.state == "DISMISSED":
		return false, "the review was dismissed", nil
	case !v.person:
		return false, "not a person", nil
	case v.state == "APPROVED" && v.commit != head:
		return false, fmt.Sprintf("the approval is of %.7s", v.commit), nil
	case v.state == "APPROVED" && v.login == m.Requester && !p.Review.Requester:
		return false, "asked for this", nil
	}
	who, err := e.standing(ctx, gh, repoOf(m), webhooks.User{Login: v.login})
	if err != nil {
		return false, "", err
	}
	if !who.mayWrite() {
		return false, "no write access", nil
	}
	return true, "", nil
}

// approve records an approval by a comment, for teams that do not use reviews. It names the commit, so that it cannot be of
// something that the person has not seen.
func (e *Engine) approve(ctx context.Context, gh *github.Client, m *store.Mission, c webhooks.Slash) (string, error) {
	if strings.EqualFold(strings.TrimSpace(c.Args), "findings") { // those of the boundary, which a gate holds
		c.Args = "boundary"
		return e.allow(ctx, gh, m, c)
	}
	if m.Ended() || m.Pull == 0 {
		return "There is no open pull request to approve.", nil
	}
	pr, _, err := gh.PullRequests.Get(ctx, m.Owner, m.Name, m.Pull)
	if err != nil {
		return "", fmt.Errorf("pull request %d: %w", m.Pull, err)
	}
	head, err := e.branchHead(ctx, m)
	if err != nil {
		return "", err
	}
	given, _, _ := strings.Cut(strings.ToLower(c.Args), " ")
	switch {
	case pr.GetState() != "open":
		return "The pull request is closed; there is nothing to approve.", nil
	case len(given) < 7 || !strings.HasPrefix(head, given):
		return fmt.Sprintf("Say which commit: the head of #%d is `%s`.", m.Pull, head[:min(12, len(head))]), nil
	case c.Author.Login == m.Requester:
		p, err := policyOf(m)
		if err != nil || !p.Review.Requester {
			return "The approval of the person who asked for the work does not count here.", err
		}
	}
	if err := e.Store.Approve(ctx, m.ID, head, c.Author.Login, e.Now()); err != nil {
		return "", err
	}
	return fmt.Sprintf("Approval of `%s` recorded.", head[:min(12, len(head))]), e.gate(ctx, m)
}
