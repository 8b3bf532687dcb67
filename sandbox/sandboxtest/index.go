package sandboxtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// A submodule that is moved in the index alone, as git add does of a submodule in which something was committed, is moved.
func testSubmoduleByIndex(t *testing.T, f Fixture) {
	r := small(t)
	for _, name := range []string{"sub", "stays", "gone"} {
		r.Git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+","+name)
	}
	r.Write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n")
	r.Git("add", ".gitmodules")
	r.Git("commit", "-qm", "submodules")
	id := f.Create(t, r)
	two := strings.Repeat("2", 40)
	f.Sh(t, id, "for s in sub gone new; do git update-index --add --cacheinfo 160000,"+two+",$s; done; rmdir gone")
	list, err := f.Manager.ListChanges(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list {
		got = append(got, string(c.Kind)+" "+c.Path+" "+c.NewID)
	}
	if diff := cmp.Diff([]string{"deleted gone ", "modified sub " + two}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	want := []string{"git.submodule new is new in the index only, and not taken", "git.submodule sub is moved to commit " + two + " by the index"}
	if diff := cmp.Diff(want, findings(t, f, id)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// What a sparse checkout takes away is not deleted, as it is not by git add: only what is deleted beside it.
func testSparse(t *testing.T, f Fixture) {
	for _, mode := range []string{"--no-sparse-index", "--sparse-index"} {
		r := small(t)
		for _, p := range []string{"in/a", "in/b", "out/a", "out/deep/b", "away/c"} {
			r.Write(p, p+"\n")
		}
		r.Git("add", "-A")
		r.Git("commit", "-qm", "more")
		id := f.Create(t, r)
		f.Sh(t, id, "git sparse-checkout init --cone "+mode+" && git sparse-checkout set in && test ! -e out && rm in/a && echo more >>in/b")
		if diff := cmp.Diff([]string{"deleted in/a", "modified in/b"}, summary(t, f, id)); diff != "" {
			t.Errorf("%s: changes (-want +got):\n%s", mode, diff)
		}
		if diff := cmp.Diff([]string{"git.sparse 4 files are not there because of a sparse checkout: they are left as they are in the base"}, findings(t, f, id)); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", mode, diff)
		}
	}
	id := f.Create(t, small(t))
	f.Sh(t, id, "mkdir -p $(git rev-parse --git-dir)/info; echo x >$(git rev-parse --git-dir)/info/sparse-checkout; echo junk >$(git rev-parse --git-dir)/index; rm -r *")
	if _, err := f.Manager.ListChanges(t.Context(), id); !errors.Is(err, sandbox.ErrUnrecorded) {
		t.Errorf("an index that is none beside a sparse checkout: %v", err)
	}
}
