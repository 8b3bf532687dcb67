package setup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

const secret = "a-secret-that-nobody-may-see"

// examine runs the doctor with settings on top of a state directory of the test's own, and without a sandbox.
func examine(t *testing.T, settings ...string) *Report {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	c, err := config.Load(append([]string{"SANDPIPER_STATE_DIR=" + state}, settings...))
	d := &Doctor{Config: c, Problems: err, Manifest: sandpiper.AppManifest, Sandbox: nothing}
	r := d.Examine(t.Context())
	if _, err := os.Stat(state); err == nil {
		t.Error("the doctor made the state directory")
	}
	var b bytes.Buffer
	if err := errors.Join(r.WriteText(&b, true), r.WriteJSON(&b)); err != nil || strings.Contains(b.String(), secret) {
		t.Errorf("the report cannot be written, or shows a secret: %v\n%s", err, b.String())
	}
	return r
}

// nothing is the examination of a sandbox that is not made.
func nothing(context.Context) []Check { return []Check{{Name: "sandbox", Status: Skip}} }

// status gives the status of each check, without those of the machine that runs the test.
func status(r *Report) map[string]Status {
	got := make(map[string]Status)
	for _, c := range r.Checks {
		switch c.Name {
		case "git", "sandbox", "state directory", "free space", "database":
		default:
			got[c.Name] = c.Status
		}
	}
	return got
}

func detail(r *Report, name string) string {
	for _, c := range r.Checks {
		if c.Name == name {
			return c.Detail + " -> " + c.Fix
		}
	}
	return ""
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newApp registers an App at a double and gives the settings for it.
func newApp(t *testing.T, o github.AppOptions) (*github.Server, []string) {
	t.Helper()
	double, err := github.New(github.Options{})
	must(t, err)
	t.Cleanup(func() { _ = double.Close() })
	must(t, double.Start("127.0.0.1:0"))
	_, err = double.AddUser("octo")
	must(t, err)
	o.Owner, o.Name = "octo", "sandpiper"
	app, err := double.AddApp(o)
	must(t, err)
	key := filepath.Join(t.TempDir(), "key.pem")
	must(t, os.WriteFile(key, app.PrivateKeyPEM(), 0o600))
	return double, []string{
		"SANDPIPER_GITHUB_URL=" + double.URL(), "SANDPIPER_GITHUB_API_URL=" + double.URL(), "SANDPIPER_WEBHOOK_SECRETS=" + secret,
		"SANDPIPER_APP_ID=" + gh.Stringify(app.ID), "SANDPIPER_PRIVATE_KEY_FILE=" + key,
	}
}

// manifest is app.yml as an App.
func manifest(t *testing.T) github.AppOptions {
	t.Helper()
	m, err := ParseManifest(sandpiper.AppManifest)
	must(t, err)
	return github.AppOptions{Permissions: m.Permissions, Events: m.Events, HookURL: "http://127.0.0.1:1/webhook"}
}

func TestWithoutGitHubOnlyTheSandboxIsExamined(t *testing.T) {
	t.Parallel()
	r := examine(t)
	if d := cmp.Diff(map[string]Status{"settings": OK, "github": Skip}, status(r)); d != "" {
		t.Error(d)
	}
}

func TestHalfOfTheGitHubSettings(t *testing.T) {
	t.Parallel()
	r := examine(t, "SANDPIPER_APP_ID=7", "SANDPIPER_WEBHOOK_SECRET="+secret)
	want := map[string]Status{"SANDPIPER_PRIVATE_KEY_FILE": Fail, "SANDPIPER_WEBHOOK_SECRETS": Fail, "SANDPIPER_WEBHOOK_SECRET": Warn}
	if d := cmp.Diff(want, status(r)); d != "" {
		t.Error(d)
	}
	if r.OK() {
		t.Error("the report is good")
	}
}

func TestSettingsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := examine(t, "SANDPIPER_APP_ID=seven", "SANDPIPER_LISTEN=here")
	if d := cmp.Diff(map[string]Status{"SANDPIPER_APP_ID": Fail, "SANDPIPER_LISTEN": Fail, "github": Skip}, status(r)); d != "" {
		t.Error(d)
	}
}

func TestAppThatIsSetUpWell(t *testing.T) {
	t.Parallel()
	double, settings := newApp(t, manifest(t))
	_, err := double.Install("sandpiper", "octo")
	must(t, err)
	r := examine(t, append(settings, "SANDPIPER_PUBLIC_URL=http://127.0.0.1:1")...)
	got := status(r)
	delete(got, "deliveries") // nobody listens; another test has that
	want := map[string]Status{"settings": OK, "github": OK, "app key": OK, "clock": OK, "installation octo": OK, "webhook": OK}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n%+v", d, r.Checks)
	}
}

func TestWhatAnInstallationLacks(t *testing.T) {
	t.Parallel()
	o := manifest(t)
	delete(o.Permissions, "issues")
	o.Permissions["checks"] = "read"
	double, settings := newApp(t, o)
	_, err := double.Install("sandpiper", "octo")
	must(t, err)
	r := examine(t, settings...)
	if got := detail(r, "installation octo"); !strings.Contains(got, "checks: write, issues: write") || r.OK() {
		t.Errorf("got %q", got)
	}
}

func TestAppThatIsInstalledNowhere(t *testing.T) {
	t.Parallel()
	_, settings := newApp(t, manifest(t))
	if got := detail(examine(t, settings...), "installations"); !strings.Contains(got, "/installations/new") {
		t.Errorf("got %q", got)
	}
}

func TestKeyOfAnotherApp(t *testing.T) {
	t.Parallel()
	_, settings := newApp(t, manifest(t))
	_, other := newApp(t, manifest(t))
	settings[len(settings)-1] = other[len(other)-1]
	r := examine(t, settings...)
	if d := cmp.Diff(map[string]Status{"settings": OK, "github": OK, "app key": Fail}, status(r)); d != "" {
		t.Errorf("%s\n%+v", d, r.Checks)
	}
}

func TestWrongClock(t *testing.T) {
	t.Parallel()
	double, settings := newApp(t, manifest(t))
	double.SetClockSkew(10 * time.Minute)
	if got := detail(examine(t, settings...), "app key"); !strings.Contains(got, "the clock of this machine is") || !strings.Contains(got, "behind GitHub's") {
		t.Errorf("got %q", got)
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	double, settings := newApp(t, manifest(t))
	must(t, double.Close())
	r := examine(t, settings...)
	if d := cmp.Diff(map[string]Status{"settings": OK, "github": Fail}, status(r)); d != "" {
		t.Error(d)
	}
}

func TestStateDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		name, path string
		want       Status
	}{
		{"Missing", filepath.Join(dir, "a", "b"), OK},
		{"File", file, Fail},
		{"BelowAFile", filepath.Join(file, "x"), Fail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := stateDir(tt.path)[0]
			if got.Status != tt.want && got.Status != Warn { // a test machine may have its temporary files on tmpfs
				t.Errorf("got %+v, want %s", got, tt.want)
			}
			if got.Status == Fail && got.Fix == "" {
				t.Error("it does not say what to do")
			}
		})
	}
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.db")
	must(t, os.WriteFile(broken, bytes.Repeat([]byte("not a database "), 100), 0o600))
	if got := database(t.Context(), broken); got.Status != Fail {
		t.Errorf("a broken one: got %+v", got)
	}
	if got := database(t.Context(), filepath.Join(dir, "none.db")); got.Status != OK {
		t.Errorf("none yet: got %+v", got)
	}
}

func TestBoundaryOfThisMachine(t *testing.T) {
	t.Parallel()
	checks := boundary(t.Context())
	if len(checks) == 0 {
		t.Fatal("nothing was tried")
	}
	for _, c := range checks {
		if c.Status == Fail && c.Fix == "" {
			t.Errorf("it does not say what to do: %+v", c)
		}
	}
}

func TestFixedGit(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"2.39.5": false, "2.43.0": false, "2.43.7": true, "2.47.2": false, "2.47.3": true, "2.50.1": true, "2.51.0": true, "3.0.0": true, "": false,
	} {
		if got := fixed(version); got != want {
			t.Errorf("%q: got %v, want %v", version, got, want)
		}
	}
}
