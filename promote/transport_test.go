package promote

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// file is a path's mode and content; for a submodule the content is a commit id.
type file struct{ mode, text string }

type tree map[string]file

// makeTree writes a tree into the store with git's plumbing.
func (w *world) makeTree(files tree) string {
	w.t.Helper()
	var index strings.Builder
	for path, f := range files {
		id := f.text
		if f.mode != "160000" {
			var err error
			id, err = w.made.git(f.text, nil, "hash-object", "-w", "--stdin")
			must(w.t, err)
		}
		fmt.Fprintf(&index, "%s %s\t%s\x00", f.mode, id, path)
	}
	_, err := w.made.git("", nil, "read-tree", "--empty")
	must(w.t, err)
	_, err = w.made.git(index.String(), nil, "update-index", "-z", "--index-info")
	must(w.t, err)
	id, err := w.made.git("", nil, "write-tree")
	must(w.t, err)
	return id
}

// offers stages one tree on another, which is put on main before.
func (w *world) offers(n int, base, ours tree) {
	w.t.Helper()
	env := []string{"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@y.z", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@y.z"}
	main, err := w.repo.Tip(w.t.Context(), "main")
	must(w.t, err)
	b, err := w.made.git("base", env, "commit-tree", w.makeTree(base), "-p", main)
	must(w.t, err)
	must(w.t, w.repo.Push(w.t.Context(), b, "main", main))
	w.req.Mission, w.req.Run, w.req.Issue, w.req.Previous = fmt.Sprintf("m-%d", n), sandbox.ID(fmt.Sprintf("r-%d-1", n)), n, nil
	w.stages(b, ours)
}

func (w *world) stages(base string, ours tree) {
	w.t.Helper()
	env := []string{"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@y.z", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@y.z"}
	s := Staged{Run: w.req.Run, MergeBase: base, Base: base, Tip: base, Tree: w.makeTree(ours)}
	w.req.Staged = s
	var err error
	s.Commit, err = w.made.git(w.req.message(w.deps.Redact), env, "commit-tree", s.Tree, "-p", base)
	must(w.t, err)
	s.Changes, err = w.made.Between(w.t.Context(), "", base, s.Commit)
	must(w.t, err)
	w.req.Staged = s
}

// inTwo has what was staged come in two commits, the first of which has another tree.
func (w *world) inTwo(mid tree) {
	w.t.Helper()
	env := []string{"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@y.z", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@y.z"}
	s := &w.req.Staged
	s.Steps = []Step{{Tree: w.makeTree(mid), Message: "first\n"}, {Tree: s.Tree, Message: "second\n"}}
	for i, parent := 0, s.Base; i < len(s.Steps); i++ {
		var err error
		s.Steps[i].Commit, err = w.made.git(s.Steps[i].Message, env, "commit-tree", s.Steps[i].Tree, "-p", parent)
		must(w.t, err)
		parent = s.Steps[i].Commit
		s.Commit = parent
	}
}

// shows holds the pull request's head at GitHub to the staged tree.
func (w *world) shows(res Result) {
	w.t.Helper()
	commit, _, err := w.deps.GitHub.Git.GetCommit(w.t.Context(), "octavia", "calc", res.PR.GetHead().GetSHA())
	must(w.t, err)
	if got := commit.GetTree().GetSHA(); got != w.req.Staged.Tree {
		w.t.Errorf("API %v: tree %s, want %s", w.req.API, got, w.req.Staged.Tree)
	}
	for i, at := len(w.req.Staged.Steps)-2, commit; i >= 0; i-- {
		at, _, err = w.deps.GitHub.Git.GetCommit(w.t.Context(), "octavia", "calc", at.Parents[0].GetSHA())
		must(w.t, err)
		if got, want := at.GetTree().GetSHA(), w.req.Staged.Steps[i].Tree; got != want {
			w.t.Errorf("API %v: tree %s of commit %d, want %s", w.req.API, got, i+1, want)
		}
	}
	if v := commit.GetVerification().GetVerified(); v != w.req.API {
		w.t.Errorf("API %v: signed %v", w.req.API, v)
	}
	if got, want := strings.TrimSpace(commit.GetMessage()), strings.TrimSpace(w.req.message(w.deps.Redact)); got != want {
		w.t.Errorf("API %v: message %q, want %q", w.req.API, got, want)
	}
}

var ordinary = tree{"README.md": {"100644", "# calc\n"}, "tool": {"100755", "#!/bin/sh\n"}, "dir/a": {"100644", "a\n"}, "dir/b": {"100644", "b\n"}}

// with is the tree with some files changed; one without a mode goes.
func (t tree) with(change tree) tree {
	out := maps.Clone(t)
	for path, f := range change {
		if out[path] = f; f.mode == "" {
			delete(out, path)
		}
	}
	return out
}

// TestTransports holds both ways to bring a commit to GitHub to the same tree, byte for byte.
func TestTransports(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("1234", 10)
	for name, change := range map[string]tree{
		"contents":               {"dir/a": {"100644", "changed\n"}, "new": {"100644", "no newline"}},
		"executables":            {"new.sh": {"100755", "x\n"}, "README.md": {"100755", "# calc\n"}, "tool": {"100644", "#!/bin/sh\n"}},
		"an executable edited":   {"tool": {"100755", "#!/bin/bash\n"}},
		"symbolic links":         {"link": {"120000", "dir/a"}, "dir/b": {"120000", "../README.md"}},
		"a rename":               {"dir/a": {}, "elsewhere/a": {"100644", "a\n"}},
		"a copy":                 {"dir/copy of a": {"100644", "a\n"}},
		"deletions":              {"dir/a": {}, "dir/b": {}},
		"empty files":            {"empty": {"100644", ""}, "dir/a": {"100644", ""}},
		"binary":                 {"bin": {"100644", "\x00\x01\xff\xfe\r\n\x00"}},
		"line ends":              {"crlf": {"100644", "a\r\nb\rc\n"}},
		"five megabytes":         {"large": {"100644", strings.Repeat("0123456789abcde\n", 5<<16)}},
		"odd names":              {"größe/日本": {"100644", "x\n"}, "a \"q\"\t\\": {"100644", "x\n"}, " lead": {"100644", "x\n"}, "-dash": {"100644", "x\n"}, "new\nline": {"100644", "x\n"}, ":(top)": {"100644", "x\n"}},
		"a submodule":            {"sub": {"160000", commit}, ".gitmodules": {"100644", "[submodule \"sub\"]\n\tpath = sub\n\turl = https://example.org/sub\n"}},
		"a file for a directory": {"dir/a": {}, "dir/b": {}, "dir": {"100644", "now a file\n"}},
		"a directory for a file": {"tool": {}, "tool/a": {"100644", "x\n"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.deps.Sandboxes = w.made
			for i, api := range []bool{false, true} {
				w.req.API = api
				w.offers(i+1, ordinary, ordinary.with(change))
				res, err := Publish(t.Context(), w.deps, w.req)
				must(t, err)
				w.shows(res)
				again, err := Publish(t.Context(), w.deps, w.req)
				must(t, err)
				if again.Head != res.Head || again.PR.GetNumber() != res.PR.GetNumber() {
					t.Errorf("API %v: published twice is %s and %s", api, res.Head, again.Head)
				}
				// Another selection of the same run renews the branch, unless somebody else has moved it.
				w.req.Previous = &Branch{res.Branch, res.Head}
				w.stages(w.req.Staged.Base, ordinary.with(change).with(tree{"more": {"100644", "more\n"}}))
				res, err = Publish(t.Context(), w.deps, w.req)
				must(t, err)
				w.shows(res)
			}
		})
	}
}

// TestTransportsKeepCommitsOfAFollowUp: the commits of a later round stand one by one on the branch's head, by both transports, and
// a person who pushed meanwhile is left alone.
func TestTransportsKeepCommitsOfAFollowUp(t *testing.T) {
	t.Parallel()
	for _, api := range []bool{false, true} {
		w := newWorld(t)
		w.req.API = api
		w.offers(1, ordinary, ordinary.with(tree{"one": {"100644", "1\n"}}))
		first, err := Publish(t.Context(), w.deps, w.req)
		must(t, err)
		_, err = w.repo.Tip(t.Context(), first.Branch) // the head that GitHub made, for the store
		must(t, err)
		base := w.req.Staged.Base
		w.req.Previous, w.req.FollowUp = &Branch{first.Branch, first.Head}, &FollowUp{Round: 2, Head: first.Head}
		w.stages(first.Head, ordinary.with(tree{"one": {"100644", "1\n"}, "two": {"100644", "2\n"}, "run": {"100755", "x\n"}}))
		w.inTwo(ordinary.with(tree{"one": {"100644", "1\n"}, "two": {"100644", "2\n"}}))
		w.req.Staged.Base = base // as a follow-up has it: the page is of the whole
		second, err := Publish(t.Context(), w.deps, w.req)
		must(t, err)
		w.shows(second)
		if second.PR.GetNumber() != first.PR.GetNumber() {
			t.Errorf("API %v: pull request #%d, want #%d", api, second.PR.GetNumber(), first.PR.GetNumber())
		}
		at, _, err := w.deps.GitHub.Git.GetCommit(t.Context(), "octavia", "calc", second.Head)
		must(t, err)
		for range w.req.Staged.Steps[1:] {
			at, _, err = w.deps.GitHub.Git.GetCommit(t.Context(), "octavia", "calc", at.Parents[0].GetSHA())
			must(t, err)
		}
		if len(at.Parents) != 1 || at.Parents[0].GetSHA() != first.Head {
			t.Errorf("API %v: the round stands on %v, want %s", api, at.Parents, first.Head)
		}
		again, err := Publish(t.Context(), w.deps, w.req)
		must(t, err)
		if again.Head != second.Head {
			t.Errorf("API %v: published twice is %s and %s", api, second.Head, again.Head)
		}
	}
}

func TestTransportRefusesWhatTheAPICannotTake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.req.API = true
	w.offers(1, ordinary, ordinary.with(tree{"byte\xff": {"100644", "x\n"}}))
	var refused *ErrRefused
	if _, err := Publish(t.Context(), w.deps, w.req); !errors.As(err, &refused) || len(refused.Paths) != 1 {
		t.Errorf("got %v, want a refusal that names the path", err)
	}
	if got := w.branches(); len(got) != 0 {
		t.Errorf("branches %v", got)
	}
	w.req.API = false
	res, err := Publish(t.Context(), w.deps, w.req)
	must(t, err)
	w.shows(res)
}

// TestCase14BranchMovedBetweenDecisionAndWrite: a person's commit on the bot's branch is left alone, by both transports.
func TestCase14BranchMovedBetweenDecisionAndWrite(t *testing.T) {
	t.Parallel()
	for _, change := range []tree{{"new": {"100644", "x\n"}}, {"new": {"100755", "x\n"}}} {
		for _, api := range []bool{false, true} {
			w := newWorld(t)
			w.req.API = api
			w.offers(1, ordinary, ordinary.with(change))
			first, err := Publish(t.Context(), w.deps, w.req)
			must(t, err)
			w.req.Previous = &Branch{first.Branch, first.Head}
			w.stages(w.req.Staged.Base, ordinary.with(change).with(tree{"more": change["new"]}))
			w.deps.Repository = &late{Repository: w.repo, branch: first.Branch, push: func() {
				moved, err := w.made.git("a person's", []string{"GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@y.z", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@y.z"}, "commit-tree", w.req.Staged.Tree, "-p", first.Head)
				must(t, err)
				must(t, w.repo.Push(t.Context(), moved, first.Branch, first.Head))
			}, w: w}
			if _, err := Publish(t.Context(), w.deps, w.req); !errors.Is(err, ErrBranchMoved) {
				t.Errorf("API %v: got %v, want ErrBranchMoved", api, err)
			}
		}
	}
}

// late has somebody else push right after the branches were listed.
type late struct {
	Repository
	w      *world
	branch string
	push   func()
}

func (l *late) LsRemote(ctx context.Context, patterns ...string) (map[string]string, error) {
	refs, err := l.Repository.LsRemote(ctx, patterns...)
	if l.push != nil {
		_, err := l.w.repo.Tip(ctx, l.branch) // its objects
		must(l.w.t, err)
		l.push()
		l.push = nil
	}
	return refs, err
}

// randomTree is a small tree of odd files.
func randomTree(r *rand.Rand, from tree) tree {
	names := []string{"a", "a.b", "a b", "d/a", "d/e/f", "d/ä", "x/\"y\"", "z", "z/z", ".hidden", "d/-", "日/本"}
	modes := []string{"100644", "100644", "100755", "120000", "160000", ""}
	out := maps.Clone(from)
	if out == nil {
		out = tree{}
	}
	for range 1 + r.IntN(6) {
		name := names[r.IntN(len(names))]
		f := file{mode: modes[r.IntN(len(modes))]}
		switch f.mode {
		case "160000":
			f.text = fmt.Sprintf("%040x", r.Uint64()|1)
		case "120000":
			f.text = names[r.IntN(len(names))]
		default:
			b := make([]byte, r.IntN(40))
			for i := range b {
				b[i] = byte(r.IntN(256))
			}
			f.text = string(b)
		}
		for there := range maps.Clone(out) { // a file and a directory of one name cannot both be
			if strings.HasPrefix(there, name+"/") || strings.HasPrefix(name, there+"/") || there == name {
				delete(out, there)
			}
		}
		if f.mode != "" {
			out[name] = f
		}
	}
	out["keep"] = file{"100644", "so that there is a tree\n"}
	return out
}

// sameOnRandomTrees publishes one random change by both transports.
func (w *world) sameOnRandomTrees(n int, seed uint64) {
	w.t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	base := randomTree(r, nil)
	ours := randomTree(r, base)
	mid := randomTree(r, base)
	ours["keep"], mid["keep"] = file{"100644", fmt.Sprintf("%d\n", seed)}, file{"100644", fmt.Sprintf("half of %d\n", seed)}
	for i, api := range []bool{false, true} {
		w.req.API = api
		w.offers(2*n+i, base, ours)
		if seed%2 == 1 {
			w.inTwo(mid)
		}
		res, err := Publish(w.t.Context(), w.deps, w.req)
		if err != nil {
			w.t.Fatalf("seed %d, API %v: %v\n%v\n%v", seed, api, err, slices.Sorted(maps.Keys(base)), slices.Sorted(maps.Keys(ours)))
		}
		w.shows(res)
	}
}

var (
	randomFor  = flag.Duration("random", 0, "how long both transports are held to random trees, instead of a few of them")
	randomFrom = flag.Uint64("seed", 0, "of the first random tree")
)

func TestTransportsOnRandomTrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := time.Now()
	n := 1
	for seed := *randomFrom; n <= 8 || time.Since(began) < *randomFor; seed++ {
		if n%100 == 0 { // the double slows down with what it holds
			w = newWorld(t)
		}
		w.sameOnRandomTrees(n, seed)
		n++
	}
	t.Logf("%d random trees", n-1)
}
