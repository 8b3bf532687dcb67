package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/standing"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

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
func (g *Gate) count(ctx context.Context, gh *github.Client, m *store.Mission, p *policy.Policy, head string) (tally, error) {
	t := tally{head: head, need: p.Review.Approvals}
	reviews, err := latestReviews(ctx, gh, m)
	if err != nil {
		return t, err
	}
	said, err := g.Store.Approvals(ctx, m.ID, head)
	if err != nil {
		return t, err
	}
	for _, login := range said {
		reviews = append(reviews, vote{login: login, state: "APPROVED", commit: head, person: true, how: "by a comment"})
	}
	for _, r := range reviews {
		counts, why, err := g.counts(ctx, gh, m, p, r, head)
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
	shown := checks.Gate{Open: t.enough() && len(t.waits) == 0, Summary: t.summary(m, p)}
	switch {
	case len(t.objections) > 0:
		shown.Title = fmt.Sprintf("%s asked for changes", strings.Join(t.objections, ", "))
	case len(t.approved) < t.need:
		shown.Title = fmt.Sprintf("waiting for %d of %d approvals of %.7s", t.need-len(t.approved), t.need, t.head)
	case len(t.waits) > 0:
		shown.Title = "waiting: " + t.waits[0]
	default:
		shown.Title = fmt.Sprintf("%d of %d approvals of %.7s", len(t.approved), t.need, t.head)
	}
	return shown
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
	id                   int64 // of the account; 0: not known
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
			v := vote{login: r.GetUser().GetLogin(), id: r.GetUser().GetID(), state: state, commit: r.GetCommitID(), person: r.GetUser().GetType() == "User"}
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
func (g *Gate) counts(ctx context.Context, gh *github.Client, m *store.Mission, p *policy.Policy, v vote, head string) (bool, string, error) {
	switch {
	case v.state == "DISMISSED":
		return false, "the review was dismissed", nil
	case !v.person:
		return false, "not a person", nil
	case v.state == "APPROVED" && v.commit != head:
		return false, fmt.Sprintf("the approval is of %.7s", v.commit), nil
	case v.state == "APPROVED" && (v.login == m.Requester || v.id != 0 && v.id == m.RequesterID) && !p.Review.Requester: // names change
		return false, "asked for this", nil
	}
	who, err := standing.Of(ctx, gh, repoOf(m), v.login)
	if err != nil {
		return false, "", err
	}
	if !who.MayWrite() {
		return false, "no write access", nil
	}
	return true, "", nil
}
