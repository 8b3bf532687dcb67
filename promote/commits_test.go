package promote

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/agentgit"
)

// committed is a run in whose sandbox an agent made commits.
type committed struct {
	*maker
	history sandbox.AgentHistory
}

func (c *committed) AgentCommits(context.Context, sandbox.ID) (sandbox.AgentHistory, error) {
	return c.history, nil
}

// commits makes one commit after the other, each with all its files, and has the run hold those of the last.
func (w *world) commits(steps ...map[string]string) *committed {
	w.t.Helper()
	c := &committed{maker: w.made}
	at := w.made.base
	for i, files := range steps {
		w.made.files = files
		made, err := w.made.Select(w.t.Context(), "", sandbox.Selection{}, w.req.commitSpec(w.deps.Redact))
		must(w.t, err)
		id, err := w.made.git("step", []string{"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@y.z", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@y.z"}, "commit-tree", made.Tree, "-p", at)
		must(w.t, err)
		c.history.Commits = append(c.history.Commits, agentgit.Commit{ID: id, Tree: made.Tree, Parents: []string{at}, Message: "step " + string(rune('1'+i))})
		c.history.Head, c.history.Result, at = id, id, id
	}
	w.req.Keep = true
	return c
}

func (w *world) stageOf(c *committed) Staged {
	w.t.Helper()
	s, err := Stage(w.t.Context(), c, w.repo, w.deps.Redact, w.req)
	must(w.t, err)
	return s
}

func subjects(s Staged) (all []string) {
	for _, step := range s.Steps {
		subject, _, _ := strings.Cut(step.Message, "\n")
		all = append(all, subject)
	}
	return all
}

func TestCommitsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.commits(map[string]string{"a": "1\n"}, map[string]string{"a": "1\n", "b": "2\n"})
	w.lands(map[string]string{"other": "x\n"})
	s := w.stageOf(c)
	if diff := cmp.Diff([]string{"step 1", "step 2"}, subjects(s)); diff != "" || s.Note != "" || !s.Merged() {
		t.Errorf("merged %v, note %q (-want +got)\n%s", s.Merged(), s.Note, diff)
	}
	if tree, err := w.repo.treeOf(t.Context(), s.Commit); err != nil || tree != s.Tree {
		t.Errorf("the last commit has tree %s, %v, want %s", tree, err, s.Tree)
	}
	if w.content(s.Steps[0].Commit, "other") != "x" || len(s.Steps[0].Changes) != 1 {
		t.Errorf("the first does not stand on the newest base: %+v", s.Steps[0].Changes)
	}
}

// TestCommitsThatCannotBeKept stay at one, with the reason.
func TestCommitsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*world, *committed)
		says  string
	}{
		"a merge among them": {func(_ *world, c *committed) {
			c.history.Commits[1].Parents = append(c.history.Commits[1].Parents, c.base)
		}, "not one after the other"},
		"something is left out":                {func(_ *world, c *committed) { c.left = []sandbox.Change{{Path: "x"}} }, "left out"},
		"not what was collected":               {func(_ *world, c *committed) { c.history.Result = c.history.Commits[0].ID }, "do not add up"},
		"one conflicts and the whole does not": {func(w *world, _ *committed) { w.lands(map[string]string{"sum.go": "package other\n"}) }, "one by one they do not merge"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.commits(map[string]string{"sum.go": "package wrong\n"}, map[string]string{"sum.go": "package calc\n", "b": "2\n"})
			c.spoil(w, run)
			s := w.stageOf(run)
			if len(s.Steps) != 0 || !strings.Contains(s.Note, c.says) || s.Commit == "" {
				t.Errorf("steps %v, note %q, want %q", subjects(s), s.Note, c.says)
			}
		})
	}
}

func TestStepMessage(t *testing.T) {
	t.Parallel()
	r := request()
	got := r.stepMessage("squash! Fix @octocat's sum, closes #3.\n\nWhy:\n\n\n\n    code hunter2\nSigned-off-by: Rita <r@x.y>\nSandpiper-Run: r-evil\nskip-checks: true\n", func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") })
	head, trailers, _ := strings.Cut(got, "\n\nRefs: #12\n")
	if want := "Fix octocat's sum, closes 3\n\nWhy:\n\n    code [secret]"; head != want {
		t.Errorf("got %q, want %q", head, want)
	}
	for _, banned := range []string{"Rita", "evil", "skip-checks"} {
		if strings.Contains(got, banned) || !strings.Contains(trailers, "Sandpiper-Run: ") {
			t.Errorf("trailers: %q", got)
		}
	}
}
