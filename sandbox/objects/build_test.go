package objects_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// repo is a repository of a test.
type repo string

func (r repo) Dir() string { return string(r) }

func (r repo) Hold(ctx context.Context) (func(), error) { return func() {}, ctx.Err() }

// run runs git in it.
func (r repo) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = string(r)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + string(r), "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + string(r)}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// store makes a repository with one commit.
func store(t *testing.T) (r repo, base string) {
	t.Helper()
	r = repo(t.TempDir())
	r.run(t, "", "init", "-q", "--bare")
	r.run(t, "commit refs/heads/main\ncommitter a <a@example.com> 1 +0000\ndata 1\nx\nM 100644 inline a\ndata 2\na\n\nM 100644 inline d/b\ndata 2\nb\n\n", "fast-import", "--quiet")
	return r, r.run(t, "", "rev-parse", "main")
}

func spec(base string) objects.Spec {
	who := objects.Ident{Name: "A <b>\n", Email: "a@example.com", When: time.Unix(1700000000, 0).In(time.FixedZone("", 3600))}
	return objects.Spec{Parent: base, Author: who, Committer: who, Message: "subject\n\ndone\nM 100644 inline x\n"}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	r, base := store(t)
	id := r.run(t, "", "rev-parse", "main:a")
	name := "odd \"\\\n\t\x01\xff name "
	fill := func(e *objects.Edit) error {
		e.Delete("d/b")
		e.Object("d", "100755", id)
		return errors.Join(e.Blob(name, "100644", 5, strings.NewReader("done\n")), e.Blob("empty", "100644", 0, strings.NewReader("")),
			e.Blob("empty too", "100644", 0, strings.NewReader("")), e.Blob("link", "120000", 1, strings.NewReader("a")))
	}
	first, tree, err := objects.Build(t.Context(), r, spec(base), fill)
	if err != nil {
		t.Fatal(err)
	}
	if want := r.run(t, "", "rev-parse", first+"^{tree}"); tree != want {
		t.Errorf("tree %s, want %s", tree, want)
	}
	want := "100644 blob " + id + "\ta\x00100755 blob " + id + "\td\x00100644 blob e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\tempty\x00" +
		"100644 blob e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\tempty too\x00120000 blob 2e65efe2a145dda7ee51d1741299f848e5bf752e\tlink\x00" +
		"100644 blob 19f86f493ab110b8dc8279a024880e44203968d8\t" + name + "\x00"
	if diff := cmp.Diff(want, r.run(t, "", "ls-tree", "-r", "-z", first)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	wantHead := "parent " + base + "\nauthor A b <a@example.com> 1700000000 +0100\ncommitter A b <a@example.com> 1700000000 +0100\n\nsubject\n\ndone\nM 100644 inline x"
	_, head, _ := strings.Cut(r.run(t, "", "cat-file", "commit", first), "\n")
	if diff := cmp.Diff(wantHead, head); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	volatile := spec(base)
	volatile.Volatile = true
	if second, _, err := objects.Build(t.Context(), r, volatile, fill); err != nil || second != first {
		t.Errorf("the same again is %s, %v; want %s", second, err, first)
	}
	clean(t, r, 1)
}

// TestNothing: the tree of the parent needs no commit of its own, whatever was done to come to it.
func TestNothing(t *testing.T) {
	t.Parallel()
	r, base := store(t)
	commit, _, err := objects.Build(t.Context(), r, spec(base), func(e *objects.Edit) error {
		e.Delete("not/there")
		e.Delete("a/b") // a is a file
		e.Delete("d")
		return e.Blob("d/b", "100644", 2, strings.NewReader("b\n"))
	})
	if err != nil || commit != base {
		t.Errorf("commit %s, %v; want the parent %s", commit, err, base)
	}
	clean(t, r, 0)
	commit, tree, err := objects.Build(t.Context(), r, spec(base), func(e *objects.Edit) error { e.Delete("a"); e.Delete("d/b"); return nil })
	if err != nil || tree != "4b825dc642cb6eb9a060e54bf8d69288fbee4904" || r.run(t, "", "ls-tree", commit) != "" {
		t.Errorf("without all files: commit %s, tree %s, %v", commit, tree, err)
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	r, base := store(t)
	broken := errors.New("cannot be read")
	for name, fill := range map[string]func(*objects.Edit) error{
		"error":  func(e *objects.Edit) error { e.Delete("a"); return broken },
		"short":  func(e *objects.Edit) error { return e.Blob("x", "100644", 10, strings.NewReader("short")) },
		"long":   func(e *objects.Edit) error { return e.Blob("x", "100644", 2, strings.NewReader("long")) },
		"unread": func(e *objects.Edit) error { e.Blob("x", "100644", 2, strings.NewReader("")); return nil },
		"path":   func(e *objects.Edit) error { e.Delete("x//y"); return nil },
		"object": func(e *objects.Edit) error { e.Object("x", "100644", strings.Repeat("1", 40)); return nil },
		"large": func(e *objects.Edit) error {
			return e.Blob("x", "100644", 3<<20, strings.NewReader(strings.Repeat("x", 2<<20)))
		},
	} {
		if id, _, err := objects.Build(t.Context(), r, spec(base), fill); err == nil || name == "error" && !errors.Is(err, broken) {
			t.Errorf("%s: commit %s, %v", name, id, err)
		}
	}
	nothing := func(*objects.Edit) error { return nil }
	if _, _, err := objects.Build(t.Context(), r, spec(strings.Repeat("1", 40)), nothing); !errors.Is(err, git.ErrCorrupt) {
		t.Errorf("a parent that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := objects.Build(ctx, r, spec(base), nothing); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	clean(t, r, 0)
}

// TestLarge: contents that do not go through memory, one of them twice.
func TestLarge(t *testing.T) {
	t.Parallel()
	r, base := store(t)
	noise := make([]byte, 5<<20)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	commit, _, err := objects.Build(t.Context(), r, spec(base), func(e *objects.Edit) error {
		put := func(path string, content []byte) error {
			return e.Blob(path, "100644", int64(len(content)), strings.NewReader(string(content)))
		}
		return errors.Join(put("noise", noise), put("again", noise), put("less", noise[:3<<20]), put("small", noise[:100]))
	})
	if err != nil {
		t.Fatal(err)
	}
	clean(t, r, 1)
	for name, want := range map[string]int{"noise": len(noise), "again": len(noise), "less": 3 << 20, "small": 100} {
		id := r.run(t, "", "rev-parse", commit+":"+name)
		in := objects.Open(string(r))
		got, err := in.Expect(id, objects.Blob)
		size, serr := in.Size(id)
		in.Close()
		if err != nil || serr != nil || string(got) != string(noise[:want]) || size != int64(want) {
			t.Errorf("%s: %d bytes, size %d, %v, %v", name, len(got), size, err, serr)
		}
	}
}

// clean checks that the repository is whole, and has nothing that was not meant to stay.
func clean(t *testing.T, r repo, packs int) {
	t.Helper()
	if refs := r.run(t, "", "for-each-ref", "--format=%(refname)"); refs != "refs/heads/main" {
		t.Errorf("refs: %s", refs)
	}
	found, _ := filepath.Glob(filepath.Join(string(r), "objects/pack/*"))
	count := map[string]int{}
	for _, f := range found {
		count[filepath.Ext(f)]++
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o444 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
		if filepath.Ext(f) == ".pack" {
			r.run(t, "", "index-pack", "--strict", "--fsck-objects", "-o", filepath.Join(t.TempDir(), "idx"), f)
			r.run(t, "", "verify-pack", f)
		}
	}
	want := map[string]int{".pack": packs, ".idx": packs}
	if packs == 0 {
		want = map[string]int{}
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("packs (-want +got):\n%s", diff)
	}
	if out := r.run(t, "", "fsck", "--strict", "--full"); strings.Contains(out, "error") {
		t.Errorf("fsck: %s", out)
	}
}
