package gitstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

func open(t *testing.T) *gitstore.Stores {
	t.Helper()
	return openAt(t, t.TempDir())
}

func openAt(t *testing.T, dir string) *gitstore.Stores {
	t.Helper()
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := gitstore.Open(dir, g)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs git as the owner of a repository.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repo is a repository with one commit on main.
func repo(t *testing.T) (dir, head string) {
	t.Helper()
	dir = t.TempDir()
	run(t, dir, "init", "-q", "-b", "main")
	return dir, commit(t, dir, "one")
}

func commit(t *testing.T, dir, text string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-q", "-m", text)
	return run(t, dir, "rev-parse", "HEAD")
}

func TestFetchErrors(t *testing.T) {
	t.Parallel()
	s := open(t)
	empty := t.TempDir()
	run(t, empty, "init", "-q")
	dir, _ := repo(t)
	spec := "+refs/heads/main:refs/sandpiper/fetch/x"
	for _, c := range []struct {
		url, spec string
		want      error
	}{
		{empty, spec, git.ErrEmpty},
		{dir, "+refs/heads/gone:refs/sandpiper/fetch/x", git.ErrNoRef},
		{filepath.Join(dir, "nothing"), spec, git.ErrNotFound},
		{t.TempDir(), spec, git.ErrNotFound},
		{"http://127.0.0.1:1/x.git", spec, git.ErrNetwork},
	} {
		if err := s.Fetch(t.Context(), gitstore.Remote{Key: "local-1", URL: c.url}, c.spec); !errors.Is(err, c.want) {
			t.Errorf("%s %s: %v, want %v", c.url, c.spec, err, c.want)
		}
	}
	for _, url := range []string{"ext::sh -c true", "relative", "ssh://h/x", "https://user:secret@example.com/x", ""} {
		if err := s.Fetch(t.Context(), gitstore.Remote{Key: "local-1", URL: url}, spec); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want a refusal without the secret", url, err)
		}
	}
	for _, key := range []string{"", "../x", "A", "a/b", ".hidden"} {
		if err := s.Fetch(t.Context(), gitstore.Remote{Key: key, URL: dir}, spec); err == nil {
			t.Errorf("key %q: no error", key)
		}
	}
	for _, spec := range []string{"main", "main:x", "-x:refs/x", ":refs/x"} {
		if err := s.Fetch(t.Context(), gitstore.Remote{Key: "local-1", URL: dir}, spec); err == nil {
			t.Errorf("refspec %q: no error", spec)
		}
	}
}

// TestHostileDirectory fetches from a repository that belongs to somebody else and is set up to run commands.
func TestHostileDirectory(t *testing.T) {
	t.Parallel()
	dir, head := repo(t)
	pwn := filepath.Join(t.TempDir(), "pwn")
	c := filepath.Join(dir, ".git/config")
	bad := fmt.Sprintf(`
[core]
	fsmonitor = touch %[1]s-monitor
	sshCommand = touch %[1]s-ssh
	alternateRefsCommand = touch %[1]s-alternate
	hooksPath = hooks
	pager = touch %[1]s-pager
[uploadpack]
	packObjectsHook = touch %[1]s-pack
[pager]
	upload-pack = touch %[1]s-pager
[remote "origin"]
	url = ext::sh -c touch%%20%[1]s-ext
	promisor = true
	partialclonefilter = blob:none
[extensions]
	partialClone = origin
[protocol]
	allow = always
[alias]
	upload-pack = !touch %[1]s-alias
`, pwn)
	if err := appendFile(c, bad); err != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{"post-upload-pack", "reference-transaction", "post-checkout", "pre-receive"} {
		path := filepath.Join(dir, ".git/hooks", hook)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\ntouch "+pwn+"-hook\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// An object is missing, which makes upload-pack want to fetch it from the planted remote.
	blob := run(t, dir, "rev-parse", head+":file")
	if err := os.Remove(filepath.Join(dir, ".git/objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := exec.Command("chown", "-R", "12345:12345", dir).Run(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t)
	r := gitstore.Remote{Key: "local-1", URL: dir}
	if refs, err := s.LsRemote(t.Context(), r); err != nil || refs["refs/heads/main"] != head {
		t.Errorf("refs %v, %v", refs, err)
	}
	if _, _, err := s.FetchCommit(t.Context(), r, "main"); err == nil {
		t.Error("fetched from a repository that lacks an object")
	}
	if left, _ := filepath.Glob(pwn + "*"); len(left) > 0 {
		t.Errorf("commands were run: %q", left)
	}
}

func appendFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestFetchAtOnce(t *testing.T) {
	t.Parallel()
	dir, head := repo(t)
	stores := openAt(t, t.TempDir())
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() {
			got, _, err := stores.FetchCommit(t.Context(), gitstore.Remote{Key: "local-1", URL: dir}, "main")
			if err == nil && got != head {
				err = fmt.Errorf("got %s", got)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

func TestRefs(t *testing.T) {
	t.Parallel()
	dir, one := repo(t)
	two := commit(t, dir, "two")
	s := open(t)
	if _, _, err := s.FetchCommit(t.Context(), gitstore.Remote{Key: "k", URL: dir}, "main"); err != nil {
		t.Fatal(err)
	}
	ctx, ref := t.Context(), "refs/sandpiper/r-1/result"
	step := func(name string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	pack := func() { run(t, s.Dir("k"), "pack-refs", "--all") }
	for how, set := range map[string]func(ctx context.Context, key, ref, new, old string) error{"SetRef": s.SetRef, "PutRef": s.PutRef} {
		for _, between := range []func(){func() {}, pack} {
			step(how+" make", set(ctx, "k", ref, one, ""), nil)
			between()
			step(how+" make again", set(ctx, "k", ref, one, ""), nil)
			step(how+" make another", set(ctx, "k", ref, two, ""), git.ErrStale)
			step(how+" move from elsewhere", set(ctx, "k", ref, two, two), git.ErrStale)
			step(how+" move", set(ctx, "k", ref, two, one), nil)
			step(how+" move again", set(ctx, "k", ref, two, one), nil)
			between()
			step(how+" make below", set(ctx, "k", ref+"/x", two, ""), git.ErrStale)
			if got, err := s.Ref(ctx, "k", ref); err != nil || got != two || run(t, s.Dir("k"), "rev-parse", ref) != two {
				t.Errorf("ref is at %s, %v", got, err)
			}
			refs, err := s.Refs(ctx, "k", "refs/sandpiper/r-1/")
			if diff := cmp.Diff(map[string]string{ref: two}, refs); diff != "" || err != nil {
				t.Errorf("refs (%v, -want +got):\n%s", err, diff)
			}
			step(how+" delete from elsewhere", s.DeleteRef(ctx, "k", ref, one), git.ErrStale)
			step(how+" delete", s.DeleteRef(ctx, "k", ref, two), nil)
			step(how+" delete again", s.DeleteRef(ctx, "k", ref, two), nil)
			if got, err := s.Ref(ctx, "k", ref); err != nil || got != "" || run(t, s.Dir("k"), "for-each-ref", ref) != "" {
				t.Errorf("deleted ref is at %q, %v", got, err)
			}
		}
	}
	step("make at nothing", s.SetRef(ctx, "k", ref, strings.Repeat("1", 40), ""), git.ErrFailed)
	step("a name that leads out", s.PutRef(ctx, "k", "refs/../../x", one, ""), git.ErrFailed)
	step("make for the last time", s.PutRef(ctx, "k", ref, one, ""), nil)
	step("delete for the last time", s.DeleteRef(ctx, "k", ref, one), nil)
	if left, err := os.ReadDir(filepath.Join(s.Dir("k"), "refs", "sandpiper", "r-1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory of the refs: %v, %v", left, err)
	}
	for _, rev := range []string{"", "refs/none", "--all", strings.Repeat("1", 40), "main:file"} {
		_, err := s.Resolve(ctx, "k", rev)
		step("resolve "+rev, err, git.ErrNoRef)
	}
	_, err := s.Resolve(ctx, "none", one)
	step("a store that is not there", err, git.ErrNotFound)
}

// TestKilledGit leaves every lock file that a killed git can leave, and then half of a pack.
func TestKilledGit(t *testing.T) {
	t.Parallel()
	dir, one := repo(t)
	s := open(t)
	r := gitstore.Remote{Key: "k", URL: dir}
	if _, _, err := s.FetchCommit(t.Context(), r, "main"); err != nil {
		t.Fatal(err)
	}
	ref := "refs/sandpiper/r-1/base"
	if err := s.SetRef(t.Context(), "k", ref, one, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"packed-refs.lock", ref + ".lock", "config.lock", "shallow.lock", "HEAD.lock", "refs/sandpiper/r-2.lock"} {
		if err := os.WriteFile(filepath.Join(s.Dir("k"), name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	two := commit(t, dir, "two")
	fetched, _, err := s.FetchCommit(t.Context(), r, "main")
	if err != nil || fetched != two {
		t.Errorf("fetch: %s, %v", fetched, err)
	}
	if err := s.SetRef(t.Context(), "k", ref, two, one); err != nil {
		t.Error(err)
	}
	if err := s.DeleteRef(t.Context(), "k", ref, two); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir("k"), "objects/pack/tmp_pack_x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	removed, err := s.Sweep(t.Context(), "k", time.Now().Add(time.Hour))
	if err != nil || !strings.Contains(strings.Join(removed, " "), "tmp_pack_x") {
		t.Errorf("swept %q, %v", removed, err)
	}
}

// TestLockHeldByGit sees that a store is locked while a git writes to it.
func TestLockHeldByGit(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error, 1)
	in := &slow{begun: begun, until: ctx.Done()}
	go func() {
		_, err := s.Run(t.Context(), "k", git.Call{Args: []string{"hash-object", "--stdin"}, Stdin: in})
		ended <- err
	}()
	<-begun
	if _, err := s.Sweep(t.Context(), "k", time.Now()); !errors.Is(err, git.ErrLocked) {
		t.Errorf("Sweep while git runs: %v, want ErrLocked", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := s.Sweep(t.Context(), "k", time.Now()); err != nil {
		t.Error(err)
	}
}

// slow is an input that does not end until it may.
type slow struct {
	once  sync.Once
	begun chan struct{}
	until <-chan struct{}
}

func (s *slow) Read([]byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.until
	return 0, io.EOF
}

// TestOpenWithoutPermission says which setting to look at.
func TestOpenWithoutPermission(t *testing.T) {
	t.Parallel()
	_, err := gitstore.Open("/sys/sandpiper-stores", nil) // where not even root can make one
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "SANDPIPER_STATE_DIR") {
		t.Errorf("Open: %v", err)
	}
}
