package promote

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// lands has a person put files on main, as one commit; "" deletes one. It returns the commit.
func (w *world) lands(files map[string]string) string {
	w.t.Helper()
	octavia, err := w.server.As("octavia")
	must(w.t, err)
	main, _, err := octavia.Git.GetRef(w.t.Context(), "octavia", "calc", "heads/main")
	must(w.t, err)
	var entries []*github.TreeEntry
	for path, text := range files {
		e := &github.TreeEntry{Path: github.String(path), Mode: github.String("100644"), Type: github.String("blob")}
		if text != "" {
			e.Content = github.String(text)
		}
		entries = append(entries, e)
	}
	tree, _, err := octavia.Git.CreateTree(w.t.Context(), "octavia", "calc", main.GetObject().GetSHA(), entries)
	must(w.t, err)
	commit, _, err := octavia.Git.CreateCommit(w.t.Context(), "octavia", "calc", &github.Commit{
		Message: github.String("meanwhile"), Tree: tree, Parents: []*github.Commit{{SHA: main.Object.SHA}},
	}, nil)
	must(w.t, err)
	main.Object.SHA = commit.SHA
	_, _, err = octavia.Git.UpdateRef(w.t.Context(), "octavia", "calc", main, true)
	must(w.t, err)
	return commit.GetSHA()
}

func (w *world) content(commit, path string) string {
	w.t.Helper()
	text, err := w.made.git("", nil, "show", commit+":"+path)
	must(w.t, err)
	return text
}

// ten are lines far enough from one another that two sides can change them without a conflict.
func ten(change map[int]string) string {
	var b strings.Builder
	for i := range 10 {
		line := strings.Repeat("word ", i+1)
		if c, ok := change[i]; ok {
			line = c
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// before has a file in the base that the run starts from.
func (w *world) before(files map[string]string) {
	w.t.Helper()
	w.made.base = w.lands(files)
	_, err := w.repo.Tip(w.t.Context(), "main")
	must(w.t, err)
}

func TestStageMergesOntoTheNewestCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before(map[string]string{"ten.txt": ten(nil)})
	w.made.files = map[string]string{"ten.txt": ten(map[int]string{8: "ours"})}
	tip := w.lands(map[string]string{"ten.txt": ten(map[int]string{1: "theirs"}), "new.txt": "new\n"})
	s, err := w.stage()
	must(t, err)
	if s.Base != tip || s.MergeBase != w.made.base || len(s.Conflicts)+len(s.Lost) != 0 {
		t.Errorf("staged %+v", s)
	}
	if got := w.content(s.Commit, "ten.txt"); got != strings.TrimSpace(ten(map[int]string{1: "theirs", 8: "ours"})) {
		t.Errorf("merged:\n%s", got)
	}
	if diff := cmp.Diff([]string{"ten.txt"}, paths(s.Changes)); diff != "" {
		t.Errorf("changes (-want +got)\n%s", diff)
	}
	again, err := w.stage()
	must(t, err)
	if diff := cmp.Diff(s, again); diff != "" {
		t.Errorf("staged twice (-first +second)\n%s", diff)
	}
	res, err := w.publish()
	must(t, err)
	message, err := w.made.git("", nil, "log", "-1", "--format=%P%n%B", res.Head)
	must(t, err)
	if !strings.HasPrefix(message, tip+"\n") || !strings.Contains(message, "Sandpiper-Merge-Base: "+w.made.base) {
		t.Errorf("commit: %s", message)
	}
}

func paths(list []sandbox.Change) (names []string) {
	for _, c := range list {
		names = append(names, c.Path)
	}
	slices.Sort(names)
	return names
}

func TestCase11ConflictStaysOnTheRecordedBase(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		theirs, ours map[string]string
		want         []string
	}{
		"the same line":         {map[string]string{"ten.txt": ten(map[int]string{4: "theirs"})}, map[string]string{"ten.txt": ten(map[int]string{4: "ours"})}, []string{"ten.txt"}},
		"deleted and changed":   {map[string]string{"ten.txt": ""}, map[string]string{"ten.txt": ten(map[int]string{4: "ours"})}, []string{"ten.txt"}},
		"added twice":           {map[string]string{"n\"ä\t": "theirs\n"}, map[string]string{"n\"ä\t": "ours\n"}, []string{"n\"ä\t"}},
		"two of three conflict": {map[string]string{"a": "1\n", "b": "1\n"}, map[string]string{"a": "2\n", "b": "2\n", "c": "2\n"}, []string{"a", "b"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.before(map[string]string{"ten.txt": ten(nil)})
			w.made.files = tt.ours
			w.lands(tt.theirs)
			s, err := w.stage()
			must(t, err)
			if s.Base != w.made.base || s.Base == s.Tip {
				t.Errorf("based on %s, run started from %s, tip %s", s.Base, w.made.base, s.Tip)
			}
			if diff := cmp.Diff(tt.want, s.Conflicts); diff != "" {
				t.Errorf("conflicts (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(len(tt.ours), len(s.Changes)); diff != "" {
				t.Errorf("something of ours is lost (-want +got)\n%s", diff)
			}
			res, err := w.publish()
			must(t, err)
			for _, want := range []string{"does not merge", "This is a draft"} {
				if !strings.Contains(res.PR.GetBody(), want) {
					t.Errorf("body lacks %q:\n%s", want, res.PR.GetBody())
				}
			}
			if !res.PR.GetDraft() {
				t.Error("no draft")
			}
		})
	}
}

func TestStageWhatTheBaseHasAlready(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lands(w.made.files)
	if _, err := w.stage(); !errors.Is(err, ErrNothing) {
		t.Errorf("got %v, want ErrNothing", err)
	}
}

// TestStageOnRewrittenBase: somebody has rewritten main meanwhile, so that the run's base is no ancestor of it.
func TestStageOnRewrittenBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before(map[string]string{"ten.txt": ten(nil), "secret.txt": "taken out of the history\n"})
	w.made.files = map[string]string{"ten.txt": ten(map[int]string{8: "ours"})}
	octavia, err := w.server.As("octavia")
	must(t, err)
	parent, err := w.made.git("", nil, "rev-parse", w.made.base+"^")
	must(t, err)
	_, _, err = octavia.Git.UpdateRef(t.Context(), "octavia", "calc", &github.Reference{Ref: github.String("refs/heads/main"), Object: &github.GitObject{SHA: &parent}}, true)
	must(t, err)
	tip := w.lands(map[string]string{"ten.txt": ten(map[int]string{1: "theirs"})})
	s, err := w.stage()
	must(t, err)
	if names, err := w.made.git("", nil, "ls-tree", "--name-only", s.Commit); err != nil || s.Base != tip || strings.Contains(names, "secret.txt") {
		t.Errorf("what was taken out of the history is back (%v): base %s\n%s", err, s.Base, names)
	}
	if got := w.content(s.Commit, "ten.txt"); got != strings.TrimSpace(ten(map[int]string{1: "theirs", 8: "ours"})) {
		t.Errorf("merged:\n%s", got)
	}
}

// TestCase12LinesThatAreNewerThanTheRun stages by hand what an agent makes that edits an old copy: the guard must name it.
func TestCase12LinesThatAreNewerThanTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before(map[string]string{"ten.txt": ten(nil), "other.txt": "other\n"})
	base := w.made.base
	tip := w.lands(map[string]string{"ten.txt": ten(map[int]string{1: "theirs, new", 2: "and moved elsewhere"})})
	_, err := w.repo.Tip(t.Context(), "main")
	must(t, err)
	w.made.base, w.made.files = tip, map[string]string{"ten.txt": ten(map[int]string{8: "ours"}), "other.txt": "and moved elsewhere\n"}
	stale, err := w.stage()
	must(t, err)
	stale.MergeBase = base
	lost, err := w.repo.lost(t.Context(), stale, stale.Commit)
	must(t, err)
	if diff := cmp.Diff([]Lost{{"ten.txt", 2, "theirs, new"}}, lost); diff != "" {
		t.Errorf("lost (-want +got)\n%s", diff)
	}
}
