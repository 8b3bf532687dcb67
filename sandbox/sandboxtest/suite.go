package sandboxtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Run runs all cases on the backend that open gives.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Fixture)
	}{
		{"Life", testLife},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, New(t, open))
		})
	}
}

func testLife(t *testing.T, f Fixture) {
	r := NewRepo(t)
	r.Write("a.txt", "one\n")
	r.Write("dir/b.txt", "two\n")
	base := r.Commit()
	id := f.Create(t, r)
	state := func(want sandbox.State) {
		t.Helper()
		got, err := f.Manager.Status(id)
		if err != nil || got != want {
			t.Fatalf("state is %s, %v; want %s", got, err, want)
		}
	}
	state(sandbox.Created)
	f.Sh(t, id, "git status --porcelain; git log --oneline; ls -la; id")
	state(sandbox.Created)
	f.Sh(t, id, "echo three >>a.txt; git add a.txt; git commit -qm mine; echo new >new.txt; rm dir/b.txt")
	state(sandbox.Dirty)
	commit, err := f.Manager.CollectDiff(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := f.Manager.ListChanges(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, string(c.Kind)+" "+c.Path)
	}
	if diff := cmp.Diff([]string{"modified a.txt", "deleted dir/b.txt", "added new.txt"}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if parent := f.Store(t, "rev-parse", commit+"^"); parent != base {
		t.Errorf("parent of the result is %s, want the base %s", parent, base)
	}
	if err := f.Manager.Verified(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	state(sandbox.Verified)
	d, err := f.Manager.Discard(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", d)
	state(sandbox.Discarded)
}
