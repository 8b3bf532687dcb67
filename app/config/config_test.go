package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

const (
	someKey    = "-----BEGIN RSA PRIVATE KEY-----\nMAA=\n-----END RSA PRIVATE KEY-----\n"
	someSecret = "0123456789abcdef"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		environ []string
		uid     int
		state   string
	}{
		{"Root", []string{"HOME=/root", "XDG_STATE_HOME=/x"}, 0, "/var/lib/sandpiper"},
		{"XDG", []string{"HOME=/home/o", "XDG_STATE_HOME=/x"}, 1000, "/x/sandpiper"},
		{"XDGMustBeAbsolute", []string{"HOME=/home/o", "XDG_STATE_HOME=x"}, 1000, "/home/o/.local/state/sandpiper"},
		{"Home", []string{"HOME=/home/o"}, 1000, "/home/o/.local/state/sandpiper"},
		{"Set", []string{"SANDPIPER_STATE_DIR=/srv/s"}, 0, "/srv/s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := load(tt.environ, tt.uid)
			if err != nil {
				t.Fatal(err)
			}
			got := []any{c.StateDir, c.Database(), c.Label, c.Workers, c.Retention, c.WritePace, c.Limits()}
			want := []any{tt.state, tt.state + "/sandpiper.db", "sandpiper", 4, 168 * time.Hour, time.Second, sandbox.Limits{
				Procs: 1024, Memory: 4 << 30, Disk: 4 << 30, Output: 64 << 20, Files: 200_000, Wall: time.Hour,
			}}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAddressesOfGitHub(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, web, api, wantWeb, wantAPI string }{
		{"None", "", "", "https://github.com", "https://api.github.com"},
		{"GitHub", "https://github.com/", "", "https://github.com", "https://api.github.com"},
		{"EnterpriseServer", "https://git.acme.example", "", "https://git.acme.example", "https://git.acme.example/api/v3"},
		{"EnterpriseServerByAPI", "", "https://git.acme.example/api/v3/", "https://git.acme.example", "https://git.acme.example/api/v3"},
		{"DataResidency", "https://acme.ghe.com", "", "https://acme.ghe.com", "https://api.acme.ghe.com"},
		{"DataResidencyByAPI", "", "https://api.acme.ghe.com", "https://acme.ghe.com", "https://api.acme.ghe.com"},
		{"APIAtTheRoot", "http://127.0.0.1:7080", "http://127.0.0.1:7080", "http://127.0.0.1:7080", "http://127.0.0.1:7080"},
		{"APIAtTheRootAlone", "", "http://127.0.0.1:7080/", "http://127.0.0.1:7080", "http://127.0.0.1:7080"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := load([]string{"HOME=/h", "SANDPIPER_GITHUB_URL=" + tt.web, "SANDPIPER_GITHUB_API_URL=" + tt.api}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{tt.wantWeb, tt.wantAPI}, []string{c.GitHubURL, c.GitHubAPIURL}); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	c, err := load([]string{
		"SANDPIPER_APP_ID=twelve",
		"SANDPIPER_STATE_DIR=state",
		"SANDPIPER_LISTEN=7081",
		"SANDPIPER_GITHUB_URL=http://git.acme.example",
		"SANDPIPER_PUBLIC_URL=https://u:hunter2@bot.example",
		"SANDPIPER_PRIVATE_KEY=hunter2",
		"SANDPIPER_WEBHOOK_SECRETS=" + someSecret + ",,hunter2",
		"SANDPIPER_RETENTION=a week",
		"SANDPIPER_WRITE_PACE=-1s",
		"SANDPIPER_LIMIT_MEMORY=4GB",
		"SANDPIPER_LOG_LEVEL=loud",
		"SANDPIPER_LOG_FORMAT=xml",
		"SANDPIPER_WORKERS=0",
		"SANDPIPER_SYSTEM_PATHS=opt,/",
		"DATABASE_URL=mysql://u:hunter2@db/x",
	}, 1)
	var bad *Error
	if !errors.As(err, &bad) || c == nil {
		t.Fatalf("got %v, %v", c, err)
	}
	var got []string
	for _, p := range bad.Problems {
		got = append(got, p.Name)
		if p.What == "" || p.How == "" {
			t.Errorf("%s does not say what is wrong and what to do: %+v", p.Name, p)
		}
	}
	want := []string{
		"SANDPIPER_APP_ID", "SANDPIPER_RETENTION", "SANDPIPER_LIMIT_MEMORY", "SANDPIPER_LOG_LEVEL", "SANDPIPER_STATE_DIR",
		"DATABASE_URL", "SANDPIPER_LISTEN", "SANDPIPER_GITHUB_URL", "SANDPIPER_GITHUB_API_URL", "SANDPIPER_PUBLIC_URL",
		"SANDPIPER_PRIVATE_KEY", "SANDPIPER_WEBHOOK_SECRETS", "SANDPIPER_WEBHOOK_SECRETS", "SANDPIPER_LOG_FORMAT",
		"SANDPIPER_SYSTEM_PATHS", "SANDPIPER_SYSTEM_PATHS", "SANDPIPER_WORKERS", "SANDPIPER_WRITE_PACE",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error shows a secret: %v", err)
	}
}

func TestNeedGitHub(t *testing.T) {
	t.Parallel()
	c, err := load([]string{"HOME=/h", "SANDPIPER_WEBHOOK_SECRETS="}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var missing *Error
	if err := c.NeedGitHub(); !errors.As(err, &missing) || len(missing.Problems) != 3 {
		t.Errorf("got %v, want three problems", err)
	}
	c, err = load([]string{"HOME=/h", "SANDPIPER_APP_ID=7", "SANDPIPER_PRIVATE_KEY=" + someKey, "SANDPIPER_WEBHOOK_SECRETS=" + someSecret}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.NeedGitHub(); err != nil {
		t.Error(err)
	}
}

func TestPrivateKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte(someKey), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, variable, value, want string }{
		{"InOneLine", "SANDPIPER_PRIVATE_KEY", strings.ReplaceAll(someKey, "\n", `\n`), strings.TrimSpace(someKey)},
		{"File", "SANDPIPER_PRIVATE_KEY_FILE", file, someKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := load([]string{"HOME=/h", tt.variable + "=" + tt.value}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.TrimSpace(tt.want), strings.TrimSpace(c.PrivateKey.Reveal())); d != "" {
				t.Error(d)
			}
		})
	}
	for _, environ := range [][]string{
		{"SANDPIPER_PRIVATE_KEY_FILE=/nowhere/key.pem"},
		{"SANDPIPER_PRIVATE_KEY_FILE=" + file, "SANDPIPER_PRIVATE_KEY=" + someKey},
	} {
		if _, err := load(append(environ, "HOME=/h"), 1); err == nil || !strings.Contains(err.Error(), "SANDPIPER_PRIVATE_KEY_FILE") {
			t.Errorf("%s: got %v", environ[0], err)
		}
	}
}

func TestDescribeNeverShowsASecret(t *testing.T) {
	t.Parallel()
	c, err := load([]string{
		"HOME=/h", "SANDPIPER_PRIVATE_KEY=" + someKey, "SANDPIPER_WEBHOOK_SECRETS=" + someSecret + "," + someSecret,
		"SANDPIPER_LIMIT_MEMORY=2048MiB", "SANDPIPER_WRITE_PACE=0", "SANDPIPER_GITHUB_URL=https://git.acme.example",
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, s := range c.Describe() {
		got[s.Name] = s.Value + " (" + s.Origin + ")"
		if s.Description == "" {
			t.Errorf("%s has no description", s.Name)
		}
	}
	for name, want := range map[string]string{
		"SANDPIPER_PRIVATE_KEY":     "[secret] (environment)",
		"SANDPIPER_WEBHOOK_SECRETS": "[secret],[secret] (environment)",
		"SANDPIPER_LIMIT_MEMORY":    "2GiB (environment)",
		"SANDPIPER_WRITE_PACE":      "0s (environment)",
		"SANDPIPER_LIMIT_WALL":      "1h0m0s (default)",
		"SANDPIPER_LOG_LEVEL":       "INFO (default)",
		"SANDPIPER_APP_ID":          " (default)",
		"SANDPIPER_GITHUB_API_URL":  "https://git.acme.example/api/v3 (from SANDPIPER_GITHUB_URL)",
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	if all := fmt.Sprintf("%v %+v", c.Describe(), c); strings.Contains(all, someSecret) || strings.Contains(all, "MAA=") {
		t.Errorf("a secret is shown: %s", all)
	}
}

// TestPasswordsOfADatabase: wherever an address holds one, it is in no description and no error, and the redactor knows it.
func TestPasswordsOfADatabase(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://bot:hunter2@db/s":                       "postgres://bot:xxxxx@db/s",
		"postgres://db/s?user=bot&password=hunter2":         "postgres://db/s?password=xxxxx&user=bot",
		"postgres://bot@db/s?sslkey=k&sslpassword=hunter2":  "postgres://bot@db/s?sslkey=k&sslpassword=xxxxx",
		"postgres://bot:%hunter2@db/s":                      "[not readable]",
		"postgres://bot@db/s?sslmode=require&search_path=x": "postgres://bot@db/s?sslmode=require&search_path=x",
	} {
		c, err := load([]string{"HOME=/h", "DATABASE_URL=" + address}, 1)
		if (err != nil) != (want == "[not readable]") || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
		for _, s := range c.Describe() {
			if s.Name == "DATABASE_URL" && s.Value != want {
				t.Errorf("%s is shown as %s, want %s", address, s.Value, want)
			}
		}
		known := slices.ContainsFunc(c.Secrets(), func(s redact.Secret) bool { return s.Reveal() == "hunter2" })
		if strings.Contains(address, "hunter2") && err == nil && !known {
			t.Errorf("%s: the redactor does not know the password", address)
		}
	}
	if _, err := load([]string{"HOME=/h", "SANDPIPER_GITHUB_URL=https://bot:%hunter2@github.example.com"}, 1); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an address of GitHub that cannot be read: %v", err)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	c, err := load([]string{"HOME=/h", "SANDPIPER_WEBHOOK_SECRET=" + someSecret, "SANDPIPER_XYZ=1"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []Problem{
		{"SANDPIPER_WEBHOOK_SECRET", "there is no such setting", "did you mean SANDPIPER_WEBHOOK_SECRETS?"},
		{"SANDPIPER_XYZ", "there is no such setting", "unset it"},
	}
	if d := cmp.Diff(want, c.Warnings()); d != "" {
		t.Error(d)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want string // empty: refused
	}{
		{"0", "0B"}, {"12", "12B"}, {"1024", "1KiB"}, {"4GiB", "4GiB"}, {"4 GiB", "4GiB"}, {"1536MiB", "1536MiB"},
		{"8388608TiB", ""}, {"4GB", ""}, {"-1MiB", ""}, {"MiB", ""}, {"1.5GiB", ""},
	} {
		var s Size
		err := s.UnmarshalText([]byte(tt.text))
		if got := s.String(); (err == nil) != (tt.want != "") || (err == nil && got != tt.want) {
			t.Errorf("%q: got %v, %v, want %q", tt.text, s, err, tt.want)
		}
	}
}
