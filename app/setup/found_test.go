package setup

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
	"github.com/sandpiper-bot/sandpiper/fixtures/postgres"
)

var postgresServer postgres.Server

func TestMain(m *testing.M) {
	code := m.Run()
	postgresServer.Stop()
	os.Exit(code)
}

// TestWhatIsWrongAtGitHub has the double set to what goes wrong with Apps, one thing after the other.
func TestWhatIsWrongAtGitHub(t *testing.T) {
	t.Parallel()
	bot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(bot.Close)
	label := func(double *github.Server) error {
		if _, err := double.AddRepo("octo/calc", github.RepoOptions{}); err != nil {
			return err
		}
		return double.AddLabel("octo/calc", "sandpiper", "ededed")
	}
	ruled := func(rules string) func(*github.Server) error {
		return func(d *github.Server) error {
			if _, err := d.AddRepo("octo/calc", github.RepoOptions{}); err != nil {
				return err
			}
			token, err := d.PersonalToken("octo")
			if err != nil {
				return err
			}
			body := `{"name": "main", "target": "branch", "enforcement": "active", "conditions": {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}}, "rules": [` + rules + `]}`
			request, err := http.NewRequest(http.MethodPost, d.URL()+"/repos/octo/calc/rulesets", strings.NewReader(body))
			if err != nil {
				return err
			}
			request.Header.Set("Authorization", "Bearer "+token)
			answer, err := bot.Client().Do(request)
			if err != nil {
				return err
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusCreated {
				return errors.New(answer.Status)
			}
			return nil
		}
	}
	check := func(source string) string {
		return `{"type": "required_status_checks", "parameters": {"strict_required_status_checks_policy": false, "required_status_checks": [{"context": "sandpiper / review"` + source + `}]}}`
	}
	const review = `{"type": "pull_request", "parameters": {"required_approving_review_count": 1, "dismiss_stale_reviews_on_push": false, "require_code_owner_review": false,
		"require_last_push_approval": false, "required_review_thread_resolution": false}}`
	for name, tt := range map[string]struct {
		prepare func(*github.Server) error // after the App was made
		events  []string
		check   string
		status  Status
		says    string
	}{
		"no delivery ever": {func(d *github.Server) error { return d.SetHook("sandpiper", "http://127.0.0.1:1/webhook", secret) }, nil, "deliveries", Warn, "delivered nothing"},
		"wrong secret": {func(d *github.Server) error {
			return d.SetHook("sandpiper", bot.URL+"/webhook", "another secret altogether")
		}, nil, "deliveries", Fail, "none of SANDPIPER_WEBHOOK_SECRETS"},
		"missing event": {nil, []string{"issues"}, "installation octo", Warn, "issue_comment"},
		"suspended": {func(d *github.Server) error {
			i, err := d.Install("sandpiper", "octo")
			if err != nil {
				return err
			}
			return d.Suspend(i.ID)
		}, nil, "installation octo", Warn, "an owner of the account can lift that"},
		"label is missing":                    {func(d *github.Server) error { _, err := d.AddRepo("octo/calc", github.RepoOptions{}); return err }, nil, "label", Warn, "octo/calc"},
		"label is there":                      {label, nil, "label", OK, "1 repositories"},
		"nothing keeps it from merging":       {label, nil, "merging", Warn, "octo/calc"},
		"a review keeps it from merging":      {ruled(review), nil, "merging", OK, "1 repositories"},
		"a check of any source does not":      {ruled(check("")), nil, "merging", Warn, "this App as its only source"},
		"a check of another App does not":     {ruled(check(`, "integration_id": 999999`)), nil, "merging", Warn, "octo/calc"},
		"a rule on deletions says nothing":    {ruled(`{"type": "deletion"}`), nil, "merging", Warn, "octo/calc"},
		"only those who bypass may change it": {ruled(`{"type": "update"}`), nil, "merging", OK, "1 repositories"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			o := manifest(t)
			if tt.events != nil {
				o.Events = tt.events
			}
			if name == "no delivery ever" {
				o.HookURL = "" // making an App with one sends a ping
			}
			double, settings := newApp(t, o)
			if tt.prepare != nil {
				must(t, tt.prepare(double))
			}
			if name != "no delivery ever" && name != "suspended" { // installing delivers an event
				_, err := double.Install("sandpiper", "octo")
				must(t, err)
				must(t, double.Flush(t.Context()))
			}
			r := examine(t, settings...)
			for _, c := range r.Checks {
				if c.Name == tt.check {
					if text := c.Detail + " " + c.Fix; c.Status != tt.status || !strings.Contains(text, tt.says) {
						t.Errorf("got %+v, want %s and %q", c, tt.status, tt.says)
					}
					return
				}
			}
			t.Errorf("nothing is said of %s: %+v", tt.check, r.Checks)
		})
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	address := postgresServer.Database(t)
	if got := database(t.Context(), address); got.Status != OK || !strings.Contains(got.Detail, "PostgreSQL") {
		t.Errorf("one that runs: %+v", got)
	}
	for _, bad := range []string{"postgres://somebody:hunter2@127.0.0.1:1/none", strings.Replace(address, "test@", "nobody:hunter2@", 1)} {
		if got := database(t.Context(), bad); got.Status != Fail || strings.Contains(got.Detail+got.Fix, "hunter2") {
			t.Errorf("one that cannot be used: %+v", got)
		}
	}
}

// TestUnsuitedFileSystem needs a tmpfs, which /dev/shm is nearly everywhere.
func TestUnsuitedFileSystem(t *testing.T) {
	t.Parallel()
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("no tmpfs at /dev/shm")
	}
	got := stateDir(filepath.Join("/dev/shm", "sandpiper-state"))[0]
	if got.Status != Warn && got.Status != Fail || got.Fix == "" {
		t.Errorf("got %+v, want a warning", got)
	}
}

// TestWhatKeepsASandboxFrom finds out why nothing can be confined.
func TestWhatKeepsASandboxFrom(t *testing.T) {
	none := func(string) string { return "" }
	t.Run("NoBubblewrap", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if got := obstacle(errors.New("none"), none); !strings.Contains(got, "install bubblewrap") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("NoUserNamespaces", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\n"), 0o755))
		t.Setenv("PATH", dir)
		off := func(name string) string { return map[string]string{"user/max_user_namespaces": "0"}[name] }
		if got := obstacle(errors.New("none"), off); !strings.Contains(got, "max_user_namespaces") {
			t.Errorf("got %q", got)
		}
	})
}

// TestCheckOfThisAppHoldsTheBranch where it is the only source that counts.
func TestCheckOfThisAppHoldsTheBranch(t *testing.T) {
	t.Parallel()
	var rule baseRule
	must(t, json.Unmarshal([]byte(`{"type": "required_status_checks", "parameters": {"required_status_checks": [{"context": "ci"}, {"context": "sandpiper / review", "integration_id": 7}]}}`), &rule))
	if !rule.holds(7) || rule.holds(8) {
		t.Errorf("%+v", rule)
	}
}
