package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runPolicy runs a policy command as a person would, without the process.
func runPolicy(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := newPolicyCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(newRoot().FlagErrorFunc())
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	var exit exitError
	switch {
	case errors.As(err, &exit):
		code = exit.code
	case err != nil:
		code = 1
	}
	return out.String(), errs.String(), code
}

func policyFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sandpiper.yml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	good, bad := policyFile(t, "agent: claude\n"), policyFile(t, "agnet: claude\nchecks: 5\n")
	if out, _, code := runPolicy(t, "", "check", good); code != 0 || !strings.Contains(out, ": good, sha256:") {
		t.Errorf("good file: %d %q", code, out)
	}
	out, errs, code := runPolicy(t, "", "check", bad)
	want := bad + ":1:1: unknown key \"agnet\" (did you mean \"agent\"?)\n" + bad + ":2:9: checks must be a list, such as [a, b]\n"
	if code != 1 || out != "" || errs != want {
		t.Errorf("bad file: %d, stdout %q, stderr\n%s\nwant\n%s", code, out, errs, want)
	}
	if _, errs, code := runPolicy(t, "agnet: x\n", "check", "-"); code != 1 || !strings.HasPrefix(errs, "-:1:1:") {
		t.Errorf("standard input: %d %q", code, errs)
	}
}

func TestPolicyCheckJSON(t *testing.T) {
	t.Parallel()
	out, _, code := runPolicy(t, "", "check", "--json", policyFile(t, "budget: {time: 40}\n"))
	var report struct {
		OK       bool
		Problems []struct {
			Line, Column  int
			Message, Hint string
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if code != 1 || report.OK || len(report.Problems) != 1 || report.Problems[0].Line != 1 || report.Problems[0].Column != 16 {
		t.Errorf("%d %s", code, out)
	}
}

func TestPolicyUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check"}, {"check", "a", "b"}, {"check", "--nope"}, {"check", "/nonexistent/file"}, {"explain", "/nonexistent/file"}, {"nonsense"}} {
		if _, _, code := runPolicy(t, "", args...); code != 2 {
			t.Errorf("%v: status %d, want 2", args, code)
		}
	}
}

func TestPolicyExplainAndSchema(t *testing.T) {
	t.Parallel()
	out, _, code := runPolicy(t, "", "explain", policyFile(t, "budget: {time: 10m}\n"))
	if code != 0 || !strings.Contains(out, "sandpiper.yml:1") || !strings.Contains(out, "default") {
		t.Errorf("%d %s", code, out)
	}
	if out, _, code := runPolicy(t, "", "explain"); code != 0 || !strings.Contains(out, "budget.time") {
		t.Errorf("%d %s", code, out)
	}
	if out, _, code := runPolicy(t, "", "schema"); code != 0 || !json.Valid([]byte(out)) {
		t.Errorf("schema: %d", code)
	}
}

// TestPolicyOfTheWorkingDirectory is explained when no file is named, and a long value moves no column.
func TestPolicyOfTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(".github", 0o755); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("long-", 40)
	if err := os.WriteFile(".github/sandpiper.yml", []byte("budget: {time: 11m}\nprotect: ["+long+"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, said, code := runPolicy(t, "", "explain")
	if code != 0 || !strings.Contains(out, "11m") {
		t.Fatalf("%d %s %s", code, out, said)
	}
	for line := range strings.Lines(out) {
		if len(line) > 100 && !strings.Contains(line, long) {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
}
