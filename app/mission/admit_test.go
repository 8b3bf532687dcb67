package mission

import (
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
)

// TestOnlyItsOwnPullRequestIsFoundAgain: whatever it says, a pull request of somebody else is not what a lost machine had opened.
func TestOnlyItsOwnPullRequestIsFoundAgain(t *testing.T) {
	t.Parallel()
	e := &Engine{Config: Config{Settings: Settings{Slug: "sandpiper"}}}
	m := &store.Mission{ID: "m-1", Run: "r-1-1", RepositoryID: 42}
	marked := func(run string) string {
		return promote.Marker{Mission: "m-1", Run: run, Manifest: "sha256:" + strings.Repeat("0", 64)}.String() + "\nCloses #7"
	}
	for name, c := range map[string]struct {
		login, branch string
		repo          int64
		body          string
		want          bool
	}{
		"its own":          {"sandpiper[bot]", "sandpiper/7-sum-1", 42, marked("r-1-1"), true},
		"of a fork":        {"mallory", "sandpiper/7-sum-1", 43, marked("r-1-1"), false},
		"of a person":      {"octavia", "sandpiper/7-sum-1", 42, marked("r-1-1"), false},
		"of another App":   {"renovate[bot]", "renovate/sum", 42, marked("r-1-1"), false},
		"of another place": {"sandpiper[bot]", "sandpiper/7-sum-1", 43, marked("r-1-1"), false},
		"of another run":   {"sandpiper[bot]", "sandpiper/7-sum-1", 42, marked("r-1-2"), false},
		"without a marker": {"sandpiper[bot]", "sandpiper/7-sum-1", 42, "Closes #7", false},
	} {
		pr := &github.PullRequest{
			User: &github.User{Login: &c.login}, Body: &c.body,
			Head: &github.PullRequestBranch{Ref: &c.branch, Repo: &github.Repository{ID: &c.repo}},
		}
		if got := e.promotedFrom(m, pr); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if e.promotedFrom(m, &github.PullRequest{}) { // the fork was deleted
		t.Error("one of nobody is taken")
	}
}
