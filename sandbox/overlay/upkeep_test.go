package overlay_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
)

// TestRefsOfBases: the ref of a run is one more name of that of its base. One that is gone or was left empty by a power cut is made
// again, and the runs have theirs whatever becomes of it.
func TestRefsOfBases(t *testing.T) {
	needsOverlay(t)
	f := sandboxtest.New(t, open)
	r := sandboxtest.NewRepo(t)
	r.Write("a", "1\n")
	r.Commit()
	src := f.Source(t, r)
	shared := "refs/sandpiper/bases/" + src.Base
	file := filepath.Join(f.Stores.Dir(src.Key), shared)
	want := map[string]string{shared: src.Base}
	for _, before := range []func() error{
		func() error { return nil },
		func() error { return os.Remove(file) },
		func() error { // as a new file: content that others have a name of was waited for
			return errors.Join(os.Remove(file), os.WriteFile(file, nil, 0o644))
		},
		func() error {
			err := os.Remove(file)
			if _, uerr := f.Manager.Upkeep(t.Context()); uerr != nil {
				return uerr
			}
			_, serr := os.Stat(file)
			return errors.Join(err, serr)
		},
	} {
		if err := before(); err != nil {
			t.Fatal(err)
		}
		id, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want[sandbox.Ref(id, "base")] = src.Base
		got, err := f.Stores.Refs(t.Context(), src.Key, "refs/sandpiper")
		for ref := range got {
			if want[ref] == "" {
				delete(got, ref) // of the fetch
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("refs (%v, -want +got):\n%s", err, diff)
		}
		f.Store(t, "fsck", "--connectivity-only")
	}
}
