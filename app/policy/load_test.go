package policy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"
)

const commit = "4f1c2ab04f1c2ab04f1c2ab04f1c2ab04f1c2ab0"

// contents answers as https://docs.github.com/rest/repos/contents does, for the paths that it has.
func contents(t *testing.T, files map[string]any, status int, message string) *github.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(r.URL.Path, "/repos/acme/calc/contents/")
		if !ok || r.URL.Query().Get("ref") != commit {
			t.Errorf("unexpected request %s", r.URL)
		}
		answer, ok := files[path]
		if !ok {
			w.WriteHeader(status)
			answer = map[string]string{"message": message}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	c := github.NewClient(srv.Client())
	u, err := url.Parse(srv.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	c.BaseURL = u
	return c
}

func file(text string) map[string]any {
	return map[string]any{"type": "file", "sha": "b10b", "size": len(text), "encoding": "base64", "content": base64.StdEncoding.EncodeToString([]byte(text))}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		files  map[string]any
		source Source
		agent  string
	}{
		"OK":            {map[string]any{Path: file("agent: claude\n")}, Source{Path, "b10b", commit}, "claude"},
		"OKOtherEnding": {map[string]any{AltPath: file("agent: pi\n")}, Source{AltPath, "b10b", commit}, "pi"},
		"OKFirstWins":   {map[string]any{Path: file("agent: claude\n"), AltPath: file("agent: pi\n")}, Source{Path, "b10b", commit}, "claude"},
		"OKNone":        {nil, Source{Commit: commit}, ""},
		"OKEmpty":       {map[string]any{Path: file("")}, Source{Path, "b10b", commit}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, source, err := Load(context.Background(), contents(t, tc.files, 404, "Not Found"), "acme", "calc", commit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.source, source); diff != "" {
				t.Error(diff)
			}
			if p.Agent.String() != tc.agent {
				t.Errorf("agent %q, want %q", p.Agent, tc.agent)
			}
		})
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		answer any
		want   string
	}{
		"ErrDirectory": {[]any{file("")}, "this is a directory"},
		"ErrSubmodule": {map[string]any{"type": "submodule", "sha": "c0"}, "this is a submodule"},
		"ErrSymlink":   {map[string]any{"type": "symlink", "target": "../x"}, "this is a symbolic link"},
		"ErrHuge":      {map[string]any{"type": "file", "size": 2_000_000, "encoding": "none", "content": ""}, "the file has 2000000 bytes; at most 32768 are read"},
		"ErrTypo":      {file("agnet: claude\n"), Path + `:1:1: unknown key "agnet" (did you mean "agent"?)`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Load(context.Background(), contents(t, map[string]any{Path: tc.answer}, 404, "Not Found"), "acme", "calc", commit)
			var inv *Invalid
			if !errors.As(err, &inv) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an *Invalid with %q", err, tc.want)
			}
		})
	}
}

func TestLoadTellsFailureFromAbsence(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		status  int
		message string
	}{
		"ErrNoCommit":    {404, "No commit found for the ref " + commit},
		"ErrForbidden":   {403, "Resource not accessible by integration"},
		"ErrServer":      {500, "oops"},
		"ErrUnsupported": {501, "not implemented"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, err := Load(context.Background(), contents(t, nil, tc.status, tc.message), "acme", "calc", commit)
			var inv *Invalid
			var answer *github.ErrorResponse
			if err == nil || p != nil || errors.As(err, &inv) || !errors.As(err, &answer) {
				t.Errorf("got %v %v", p, err)
			}
		})
	}
}

// A name such as main, _release/v1 or fix/#12+a@b can move between two reads.
func TestCase32LoadTakesNoBranchName(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"", "main", "trunk", "_release/v1", "fix/#12+a@b", "4f1c2ab"} {
		if _, _, err := Load(context.Background(), github.NewClient(nil), "acme", "calc", ref); err == nil {
			t.Errorf("%q was taken", ref)
		}
	}
}
