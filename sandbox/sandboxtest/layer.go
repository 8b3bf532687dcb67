package sandboxtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// A layer holds what one sandbox has made and git ignores, and its home. Others get copies that they can change, with nothing of it in
// their changes; what leads out of it leads nowhere for us.
func testLayer(t *testing.T, f Fixture) {
	r := small(t)
	r.Write(".gitignore", "deps/\n")
	r.Commit()
	src := f.Source(t, r)
	create := func() sandbox.ID {
		id, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(canary, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	from := create()
	f.Sh(t, from, `mkdir -p deps/sub ~/.cache; echo lib >deps/sub/lib; chmod 4755 deps/sub/lib; mkfifo deps/pipe; ln -s `+canary+` deps/out; ln -s sub deps/dir
		git init -q deps/nested; echo warm >~/.cache/c; echo stray >stray; touch $(seq -f stray-%g 30); echo more >>a.txt; ln -s `+filepath.Dir(canary)+` ~/outside`)
	l, err := f.Manager.SaveLayer(t.Context(), from, "k-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"modified a.txt", "added stray", "added stray-1"}, paths(l.Strays)[:3]); diff != "" || len(l.Strays) != 32 {
		t.Errorf("%d strays (-want +got):\n%s", len(l.Strays), diff)
	}
	rec, err := f.Manager.Record(from)
	if err != nil || !hasFinding(rec.Findings, "setup.stray") || rec.Findings[len(rec.Findings)-1].Evidence != "and 12 more" {
		t.Errorf("findings: %+v (%v)", rec.Findings, err)
	}
	for i := range 2 { // the second one finds what the first has left of the layer as it was
		id := create()
		for range 2 {
			if err := f.Manager.ApplyLayer(t.Context(), id, "k-1"); err != nil {
				t.Fatal(err)
			}
		}
		got := f.Sh(t, id, `cat deps/sub/lib ~/.cache/c deps/dir/lib; [ ! -u deps/sub/lib ]; [ -x deps/sub/lib ]; [ ! -e deps/pipe ]; [ ! -e stray ]; git status --porcelain
			readlink deps/out; echo changed >deps/sub/lib; echo cold >~/.cache/c; [ ! -e deps/nested/.git ]`)
		if want := "lib\nwarm\nlib\n" + canary + "\n"; got != want {
			t.Errorf("sandbox %d with the layer says %q, want %q", i, got, want)
		}
		if got := summary(t, f, id); len(got) > 0 {
			t.Errorf("changes: %q", got)
		}
		if _, err := f.Manager.Discard(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if data, err := os.ReadFile(canary); err != nil || string(data) != "mine" {
		t.Errorf("the canary is %q (%v)", data, err)
	}
	testTrimLayers(t, f, from)
}

func testTrimLayers(t *testing.T, f Fixture, from sandbox.ID) {
	t.Helper()
	var state *sandbox.ErrState
	if err := f.Manager.ApplyLayer(t.Context(), from, "k-1"); !errors.As(err, &state) {
		t.Errorf("ApplyLayer where commands have run: %v", err)
	}
	if removed, err := f.Manager.TrimLayers(time.Now().Add(-time.Hour)); err != nil || len(removed) > 0 {
		t.Errorf("trimmed what is in use: %q (%v)", removed, err)
	}
	if removed, err := f.Manager.TrimLayers(time.Now().Add(time.Hour)); err != nil || len(removed) != 1 {
		t.Errorf("trimmed %q (%v)", removed, err)
	}
	if _, err := f.Manager.Layer("k-1"); !errors.Is(err, sandbox.ErrUnknown) {
		t.Errorf("the layer is still there: %v", err)
	}
}
