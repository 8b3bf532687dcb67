package review

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// commitsMost is how many commits of a pull request GitHub lists.
const commitsMost = 250

// countAuthors takes back the approvals of people who wrote what is approved: GitHub keeps the author of a pull request from approving
// it, and that is the bot, whoever has pushed onto its branch since.
func (g *Gate) countAuthors(ctx context.Context, gh *github.Client, m *store.Mission, t *tally) error {
	if t.head == m.Head && m.Attempt == 1 { // all of it is the bot's; a later round may stand on what people have pushed
		return nil
	}
	seen := 0
	for o := (&github.ListOptions{PerPage: 100}); ; {
		page, response, err := gh.PullRequests.ListCommits(ctx, m.Owner, m.Name, m.Pull, o)
		if err != nil {
			return fmt.Errorf("commits of %d: %w", m.Pull, err)
		}
		for _, c := range page {
			t.without(c.GetAuthor().GetLogin(), "wrote a commit of this")
			t.without(c.GetCommitter().GetLogin(), "wrote a commit of this")
		}
		seen += len(page)
		if response.NextPage == 0 {
			break
		}
		o.Page = response.NextPage
	}
	if seen >= commitsMost {
		t.waits = append(t.waits, fmt.Sprintf("GitHub lists %d of the commits only, and the authors of the others cannot be known", commitsMost))
	}
	return nil
}

// filesMost is how many files of a pull request GitHub lists.
const filesMost = 3000

// countOwners keeps the gate closed until an owner of each path that the pull request touches has approved. Who owns what is read where it
// goes to, never from the change itself.
func (g *Gate) countOwners(ctx context.Context, gh *github.Client, m *store.Mission, t *tally) error {
	text, err := g.Evidence.Owners(ctx, m)
	if err != nil || text == "" {
		return err
	}
	paths, err := pullPaths(ctx, gh, m)
	if err != nil {
		return err
	}
	if len(paths) >= filesMost {
		t.waits = append(t.waits, fmt.Sprintf("GitHub lists %d of the files only, and their owners cannot be known", filesMost))
		return nil
	}
	known := map[string]bool{} // by the owners of a path, joined
	for _, path := range paths {
		owners := slices.DeleteFunc(slices.Clone(promote.OwnersOf(text, path)), func(o string) bool { return !strings.HasPrefix(o, "@") })
		key := strings.Join(owners, " ")
		if len(owners) == 0 || known[key] {
			continue
		}
		known[key] = true
		why, err := g.ownerApproved(ctx, m, owners, t.approved)
		if err != nil {
			return err
		}
		if why != "" {
			t.waits = append(t.waits, fmt.Sprintf("%s is owned by %s, %s", path, key, why))
		}
	}
	return nil
}

func pullPaths(ctx context.Context, gh *github.Client, m *store.Mission) (paths []string, err error) {
	for o := (&github.ListOptions{PerPage: 100}); ; {
		page, response, err := gh.PullRequests.ListFiles(ctx, m.Owner, m.Name, m.Pull, o)
		if err != nil {
			return nil, fmt.Errorf("files of %d: %w", m.Pull, err)
		}
		for _, f := range page {
			paths = append(paths, f.GetFilename())
			if was := f.GetPreviousFilename(); was != "" {
				paths = append(paths, was)
			}
		}
		if response.NextPage == 0 || len(paths) >= filesMost {
			return paths, nil
		}
		o.Page = response.NextPage
	}
}

// ownerApproved says why none of the owners has approved; "" when one has.
func (g *Gate) ownerApproved(ctx context.Context, m *store.Mission, owners, approved []string) (why string, err error) {
	why = "none of whom has approved"
	for _, o := range owners {
		org, team, isTeam := strings.Cut(strings.TrimPrefix(o, "@"), "/")
		if !isTeam {
			if slices.ContainsFunc(approved, func(login string) bool { return strings.EqualFold(login, org) }) {
				return "", nil
			}
			continue
		}
		for _, login := range approved {
			member, err := g.memberOf(ctx, m, org, team, login)
			var denied *installation.ErrPermission
			switch {
			case errors.As(err, &denied):
				why = "and who is in a team cannot be read: the App has no permission `members: read`"
			case err != nil:
				return "", err
			case member:
				return "", nil
			}
		}
	}
	return why, nil
}

// memberOf says whether a person is in a team, or in one below it. It wants a permission that the App need not have:
// *installation.ErrPermission then.
func (g *Gate) memberOf(ctx context.Context, m *store.Mission, org, team, login string) (bool, error) {
	gh, err := g.GitHub.Client(ctx, repoOf(m), installation.Members)
	if err != nil {
		return false, err
	}
	membership, response, err := gh.Teams.GetTeamMembershipBySlug(ctx, org, team, login)
	if response != nil && response.StatusCode == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("team %s/%s: %w", org, team, err)
	}
	return membership.GetState() == "active", nil
}
