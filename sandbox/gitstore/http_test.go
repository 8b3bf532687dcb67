package gitstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// serve offers the repositories below root by git's own smart HTTP server, to those who give the token.
func serve(t *testing.T, root, token string) string {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Stderr: io.Discard, Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != token {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir, one := repo(t)
	run(t, root, "clone", "-q", "--bare", dir, "x.git")
	run(t, filepath.Join(root, "x.git"), "config", "http.receivepack", "true")
	token := "ghs_" + strings.Repeat("t", 100)
	url := serve(t, root, token)
	with := func(token string) gitstore.Remote {
		return gitstore.Remote{Key: "gh-1", URL: url + "/x.git", Credentials: func(context.Context) (string, redact.Secret, error) {
			return "x-access-token", redact.NewSecret(token), nil
		}}
	}
	s, ctx, good := open(t), t.Context(), with(token)
	if got, _, err := s.FetchCommit(ctx, good, "HEAD"); err != nil || got != one {
		t.Fatalf("fetch: %s, %v", got, err)
	}
	refs, err := s.LsRemote(ctx, good)
	if diff := cmp.Diff(map[string]string{"HEAD": one, "refs/heads/main": one, gitstore.Symref: "refs/heads/main"}, refs); diff != "" || err != nil {
		t.Errorf("refs (%v, -want +got):\n%s", err, diff)
	}
	step := func(name string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s: the token is in the error: %v", name, err)
		}
	}
	_, _, err = s.FetchCommit(ctx, with("wrong"), "HEAD")
	step("wrong token", err, git.ErrAuth)
	_, _, err = s.FetchCommit(ctx, gitstore.Remote{Key: "gh-1", URL: url + "/x.git"}, "HEAD")
	step("no token", err, git.ErrAuth)
	missing := good
	missing.URL = url + "/y.git"
	_, _, err = s.FetchCommit(ctx, missing, "HEAD")
	step("no such repository", err, git.ErrNotFound)

	two := commit(t, dir, "two")
	if _, _, err := s.FetchCommit(ctx, gitstore.Remote{Key: "gh-1", URL: dir}, "main"); err != nil {
		t.Fatal(err)
	}
	step("push a new branch", s.Push(ctx, good, two, "sandpiper/1-x-1", ""), nil)
	step("push it again", s.Push(ctx, good, two, "sandpiper/1-x-1", ""), nil)
	step("push another to it as new", s.Push(ctx, good, one, "sandpiper/1-x-1", ""), git.ErrStale)
	step("push another with the wrong lease", s.Push(ctx, good, one, "sandpiper/1-x-1", one), git.ErrStale)
	step("push another with the right lease", s.Push(ctx, good, one, "sandpiper/1-x-1", two), nil)
	step("push with the wrong token", s.Push(ctx, with("wrong"), two, "b", ""), git.ErrAuth)
	hook := filepath.Join(root, "x.git/hooks/pre-receive")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho protected >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	err = s.Push(ctx, good, two, "b", "")
	step("push that is refused", err, git.ErrRefused)
	var failed *git.Error
	if !errors.As(err, &failed) || !strings.Contains(failed.Reason(), "protected") {
		t.Errorf("reason of the refusal: %v", err)
	}
	if err := s.Push(ctx, gitstore.Remote{Key: "gh-1", URL: dir}, two, "b", ""); err == nil {
		t.Error("push to a directory: no error")
	}
	left := grep(t, filepath.Dir(s.Dir("gh-1")), token)
	if len(left) > 0 {
		t.Errorf("the token is in %q", left)
	}
}

func grep(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, rerr := os.ReadFile(path)
			if rerr == nil && bytes.Contains(data, []byte(text)) {
				found = append(found, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
