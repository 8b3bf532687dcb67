package promote

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Where GitHub looks for these files, in its order
// (https://docs.github.com/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners).
var ownersFiles = []string{".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"}

// fileMost is the size up to which GitHub reads a CODEOWNERS file, in bytes.
const fileMost = 3 << 20

// first gives the first file of a commit that is there; "" where it is longer than fileMost.
func (p *publication) first(ctx context.Context, commit string, paths []string) (string, error) {
	ids, err := p.Repository.blobIDs(ctx, commit, paths)
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		id, ok := ids[path]
		if !ok {
			continue
		}
		found, err := p.Repository.Blobs(ctx, []string{id}, fileMost)
		return string(found[id]), err
	}
	return "", nil
}

var ownerForm = regexp.MustCompile(`^@([A-Za-z0-9-]+)(?:/([A-Za-z0-9._-]+))?$`)

// OwnersFiles are the places of a CODEOWNERS file, the first of which that is there counts.
func OwnersFiles() []string { return slices.Clone(ownersFiles) }

// OwnersOf are the owners of a path as the text of a CODEOWNERS file has them, those of the last line that matches: @login, @org/team, or an
// address of mail.
func OwnersOf(codeowners, path string) (own []string) {
	for line := range strings.Lines(codeowners) {
		f := strings.Fields(strings.ReplaceAll(line, `\ `, "\x00")) // a space in a pattern, as gitignore escapes it
		if at := slices.IndexFunc(f, func(word string) bool { return strings.HasPrefix(word, "#") }); at >= 0 {
			f = f[:at] // a comment
		}
		if len(f) > 0 && owns(strings.ReplaceAll(f[0], "\x00", " "), path) {
			own = f[1:]
		}
	}
	return own
}

// owners are the accounts and teams that own any of the paths. Addresses of mail cannot be asked for a review.
func owners(codeowners string, paths []string) (people, teams []string) {
	for _, path := range paths {
		for _, o := range OwnersOf(codeowners, path) {
			switch m := ownerForm.FindStringSubmatch(o); {
			case m == nil:
			case m[2] != "":
				teams = append(teams, m[2])
			default:
				people = append(people, m[1])
			}
		}
	}
	slices.Sort(people)
	slices.Sort(teams)
	return slices.Compact(people), slices.Compact(teams)
}

// owns follows the rules of gitignore patterns that CODEOWNERS takes: without a slash in front or in the middle a pattern
// matches at any depth, a directory takes all below it, and dir/* only what is directly in it.
func owns(pattern, path string) bool {
	glob, anchored := strings.CutPrefix(pattern, "/")
	if !anchored && !strings.Contains(strings.TrimSuffix(glob, "/"), "/") {
		glob = "**/" + glob
	}
	if strings.HasSuffix(glob, "/*") && strings.Count(path, "/") != strings.Count(glob, "/") && !strings.Contains(glob, "**") {
		return false
	}
	return sandbox.MatchGlob(glob, path)
}

// decorate puts labels on the pull request and asks owners of what it touches for a review. Neither keeps it from being
// offered: a label or an owner may be gone.
func (p *publication) decorate(ctx context.Context) {
	pull := p.result.PR
	var missing []string
	for _, l := range p.req.Labels {
		if !slices.ContainsFunc(pull.Labels, func(has *github.Label) bool { return strings.EqualFold(has.GetName(), l) }) {
			missing = append(missing, l)
		}
	}
	if len(missing) > 0 {
		if _, _, err := p.GitHub.Issues.AddLabelsToIssue(ctx, p.req.Owner, p.req.Repo, pull.GetNumber(), missing); err != nil {
			p.Log.Warn("labels of the pull request", "pull", pull.GetNumber(), "labels", missing, "error", err)
		}
	}
	if err := p.askOwners(ctx, pull); err != nil {
		p.Log.Warn("reviewers of the pull request", "pull", pull.GetNumber(), "error", err)
	}
}

// askOwners asks once: people who were asked, or have reviewed, are not asked again. Whoever asked for the work is not one
// of its reviewers.
func (p *publication) askOwners(ctx context.Context, pull *github.PullRequest) error {
	if !p.req.Reviewers || len(pull.RequestedReviewers)+len(pull.RequestedTeams) > 0 {
		return nil
	}
	text, err := p.first(ctx, p.req.Staged.OwnersAt(), ownersFiles)
	if err != nil || text == "" {
		return err
	}
	var touched []string
	for _, c := range p.req.Staged.Changes {
		touched = append(touched, c.Path)
		if c.From != "" {
			touched = append(touched, c.From)
		}
	}
	people, teams := owners(text, touched)
	people = slices.DeleteFunc(people, func(login string) bool { return strings.EqualFold(login, p.req.Requester.Login) })
	if len(people)+len(teams) == 0 {
		return nil
	}
	reviews, _, err := p.GitHub.PullRequests.ListReviews(ctx, p.req.Owner, p.req.Repo, pull.GetNumber(), nil)
	if err != nil || len(reviews) > 0 {
		return err
	}
	people, teams = people[:min(len(people), 15)], teams[:min(len(teams), 15)] // GitHub takes no more
	// One at a time: a single owner without access would make GitHub refuse all of them.
	for _, one := range append(each(people, func(s string) github.ReviewersRequest { return github.ReviewersRequest{Reviewers: []string{s}} }),
		each(teams, func(s string) github.ReviewersRequest { return github.ReviewersRequest{TeamReviewers: []string{s}} })...) {
		if _, _, rerr := p.GitHub.PullRequests.RequestReviewers(ctx, p.req.Owner, p.req.Repo, pull.GetNumber(), one); rerr != nil {
			err = fmt.Errorf("ask %v %v: %w", one.Reviewers, one.TeamReviewers, rerr)
		}
	}
	return err
}

func each[A, B any](list []A, f func(A) B) (out []B) {
	for _, a := range list {
		out = append(out, f(a))
	}
	return out
}
