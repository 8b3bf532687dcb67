package gitstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// TestShareRef: refs of one commit are names of one file, and each can be moved and deleted without the others; what a power cut has
// left of the shared one is put right.
func TestShareRef(t *testing.T) {
	t.Parallel()
	dir, one := repo(t)
	two := commit(t, dir, "two")
	s := open(t)
	if _, _, err := s.FetchCommit(t.Context(), gitstore.Remote{Key: "k", URL: dir}, "main"); err != nil {
		t.Fatal(err)
	}
	const shared, first, second = "refs/sandpiper/bases/x", "refs/sandpiper/r-1/base", "refs/sandpiper/r-2/base"
	share := func(ref, object string, want error) {
		t.Helper()
		if err := s.ShareRef(t.Context(), "k", ref, object, shared); !errors.Is(err, want) {
			t.Errorf("share %s at %s: %v, want %v", ref, object, err, want)
		}
	}
	want := func(refs map[string]string) {
		t.Helper()
		got, err := s.Refs(t.Context(), "k", "refs/sandpiper")
		for ref := range got {
			if strings.HasPrefix(ref, "refs/sandpiper/fetch/") {
				delete(got, ref)
			}
		}
		if diff := cmp.Diff(refs, got); diff != "" || err != nil {
			t.Errorf("refs (%v, -want +got):\n%s", err, diff)
		}
		run(t, s.Dir("k"), "fsck", "--connectivity-only")
	}
	names := func(ref string) uint64 {
		info, err := os.Stat(filepath.Join(s.Dir("k"), ref))
		if err != nil {
			t.Fatal(err)
		}
		return uint64(info.Sys().(*syscall.Stat_t).Nlink)
	}
	file := filepath.Join(s.Dir("k"), shared)
	share(first, one, nil)
	share(first, one, nil)
	share(second, one, nil)
	share(first, two, git.ErrStale)
	want(map[string]string{shared: one, first: one, second: one})
	if n := names(first); n != 3 {
		t.Errorf("the file has %d names, want 3", n)
	}
	if err := errors.Join(s.PutRef(t.Context(), "k", first, two, one), s.DeleteRef(t.Context(), "k", shared, one)); err != nil {
		t.Error(err)
	}
	want(map[string]string{first: two, second: one})
	if err := errors.Join(s.DeleteRef(t.Context(), "k", first, two), os.MkdirAll(filepath.Dir(file), 0o755),
		os.WriteFile(file, nil, 0o644)); err != nil {
		t.Error(err)
	}
	share(first, one, nil)
	want(map[string]string{shared: one, first: one, second: one})
	if err := errors.Join(s.PutRef(t.Context(), "k", shared, two, one), s.DeleteRef(t.Context(), "k", first, one)); err != nil {
		t.Error(err)
	}
	share(first, one, nil) // the shared one is elsewhere, as it never should be
	want(map[string]string{shared: two, first: one, second: one})
	run(t, s.Dir("k"), "pack-refs", "--all")
	share(first, one, nil)
	share(first, two, git.ErrStale)
	share("refs/../../x", one, git.ErrFailed)
	want(map[string]string{shared: two, first: one, second: one})
}
