package promote

import (
	"testing"

	"github.com/google/go-github/v60/github"
)

// TestOwnersAreThoseOfTheBase: also where the base branch was rewritten, so that the pull request has nothing in common with it, and the
// round starts from a commit of the pull request, which may name other owners.
func TestOwnersAreThoseOfTheBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before(map[string]string{"CODEOWNERS": "* @octavia\n"})
	w.made.files = map[string]string{"CODEOWNERS": "* @mallory\n"}
	s, err := w.stage()
	must(t, err)
	octavia, err := w.server.As("octavia")
	must(t, err)
	tree, err := w.made.git("", nil, "rev-parse", w.made.base+"^{tree}")
	must(t, err)
	orphan, _, err := octavia.Git.CreateCommit(t.Context(), "octavia", "calc", &github.Commit{Message: github.String("begin again"), Tree: &github.Tree{SHA: &tree}}, nil)
	must(t, err)
	_, _, err = octavia.Git.UpdateRef(t.Context(), "octavia", "calc", &github.Reference{Ref: github.String("refs/heads/main"), Object: &github.GitObject{SHA: orphan.SHA}}, true)
	must(t, err)
	round, err := w.repo.stageOn(t.Context(), w.made, Staged{Base: s.Commit, MergeBase: s.Commit, Commit: s.Commit}, "main")
	must(t, err)
	p := &publication{Deps: Deps{Repository: w.repo}}
	owners, err := p.first(t.Context(), round.OwnersAt(), ownersFiles)
	must(t, err)
	if owners != "* @octavia\n" {
		t.Errorf("the owners are %q, and the change says itself who they are", owners)
	}
}
