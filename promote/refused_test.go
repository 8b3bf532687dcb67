package promote

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	double "github.com/sandpiper-bot/sandpiper/fixtures/github"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

func TestPublishRefusesBeforeThePush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.made.files = nil
	if _, err := w.publish(); !errors.Is(err, ErrNothing) {
		t.Errorf("got %v, want %v", err, ErrNothing)
	}
	w.made.files = map[string]string{"sum.go": "x"}
	w.req.Base = "gone"
	if _, err := w.publish(); !errors.Is(err, ErrBaseGone) {
		t.Errorf("got %v, want %v", err, ErrBaseGone)
	}
	if b := w.branches(); len(b) != 0 {
		t.Errorf("pushed %v", b)
	}
}

func TestCase09WorkflowsWithoutPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.made.files[".github/workflows/ci.yml"] = "on: pull_request\n"
	for _, known := range []bool{true, false} { // found before the push, or said by GitHub in it
		w.req.Workflows = !known
		_, err := w.publish()
		var refused *ErrRefused
		if !errors.As(err, &refused) {
			t.Fatalf("got %v, want ErrRefused", err)
		}
		if diff := cmp.Diff([]string{".github/workflows/ci.yml"}, refused.Paths); diff != "" || refused.Missing != "workflows: write" {
			t.Errorf("missing %q (-want +got)\n%s", refused.Missing, diff)
		}
		if b := w.branches(); len(b) != 0 {
			t.Errorf("pushed %v", b)
		}
		if before := strings.Contains(err.Error(), "it changes workflow files"); before != known {
			t.Errorf("known %v: %v", known, err)
		}
	}
	delete(w.made.files, ".github/workflows/ci.yml") // as a selection without it
	w.made.left = []sandbox.Change{{Path: ".github/workflows/ci.yml", Kind: sandbox.Modified}}
	w.req.Workflows = false
	res, err := w.publish()
	must(t, err)
	if !strings.Contains(res.PR.GetBody(), "left out of this pull request:\n\n- `.github/workflows/ci.yml` (modified)") {
		t.Errorf("does not say what is left out:\n%s", res.PR.GetBody())
	}
}

func TestRefusedByRules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rule func(*world)
		want string
	}{
		"protected branch": {func(w *world) {
			must(t, w.server.ProtectBranch("octavia/calc", branch, double.Protection{Signatures: true, EnforceAdmins: true}))
		}, "branch protection: Commits must have verified signatures"},
		"ruleset": {func(w *world) {
			must(t, w.server.AddRuleset("octavia/calc", "signed", []string{"~ALL"}, "required_signatures"))
		}, "repository rules: Commits must have verified signatures"},
		"archived": {func(w *world) { must(t, w.server.ArchiveRepo("octavia/calc", true)) }, "archived"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.rule(w)
			_, err := w.publish()
			var refused *ErrRefused
			if !errors.As(err, &refused) || !strings.Contains(refused.Reason, tt.want) {
				t.Errorf("got %v, want a refusal with %q", err, tt.want)
			}
			if n := len(w.pulls()); n != 0 {
				t.Errorf("%d pull requests", n)
			}
		})
	}
}

func TestPullRequestRefused(t *testing.T) {
	t.Parallel()
	t.Run("no drafts", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.req.Draft = true
		must(t, w.server.AddFault(double.Fault{Method: http.MethodPost, Path: "/pulls$", Status: 422, Message: "Draft pull requests are not supported in this repository."}))
		res, err := w.publish()
		must(t, err)
		if res.PR.GetDraft() || len(res.Notes) != 1 || !strings.Contains(res.PR.GetBody(), "does not allow draft pull requests") {
			t.Errorf("draft %v, notes %q:\n%s", res.PR.GetDraft(), res.Notes, res.PR.GetBody())
		}
	})
	t.Run("no permission", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		must(t, w.server.AddFault(double.Fault{Method: http.MethodPost, Path: "/pulls$", Status: 403, Message: "Resource not accessible by integration"}))
		_, err := w.publish()
		var refused *ErrRefused
		if !errors.As(err, &refused) || refused.Missing != "pull_requests: write" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("base deleted meanwhile", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		must(t, w.server.AddFault(double.Fault{Method: http.MethodPost, Path: "/pulls$", Status: 422, Body: `{"message":"Validation Failed","errors":[{"resource":"PullRequest","field":"base","code":"invalid"}]}`}))
		if _, err := w.publish(); !errors.Is(err, ErrBaseGone) {
			t.Errorf("got %v, want %v", err, ErrBaseGone)
		}
	})
	t.Run("nothing between", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		must(t, w.server.AddFault(double.Fault{Method: http.MethodPost, Path: "/pulls$", Status: 422, Body: `{"message":"Validation Failed","errors":[{"resource":"PullRequest","code":"custom","message":"No commits between main and x"}]}`}))
		if _, err := w.publish(); !errors.Is(err, ErrNothing) {
			t.Errorf("got %v, want %v", err, ErrNothing)
		}
	})
}
