package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTryNamesWhatIsWrongWithTheAgent refuses a path that leads nowhere before a GitHub and a bot are started for it.
func TestTryNamesWhatIsWrongWithTheAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte("#!/bin/sh\n"), mode))
		return file
	}
	good, plain := write("good.sh", 0o755), write("plain.sh", 0o644)
	write("inside.sh", 0o755)
	for _, args := range [][]string{{"init", "-q"}, {"add", "inside.sh"}, {"-c", "user.name=n", "-c", "user.email=n@example.com", "commit", "-qm", "start"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	tried := &trial{o: tryOptions{out: t.TempDir()}, repo: dir}
	must(t, tried.open(t.Context()))
	relative := func(file string) string {
		here := must1(os.Getwd())(t)
		return must1(filepath.Rel(here, file))(t)
	}
	for _, c := range []struct{ name, want, wrong string }{
		{"claude", "", ""},
		{good, good, ""},
		{relative(good), good, ""},
		{"./inside.sh", "", ""}, // of the repository, not of this directory
		{"./nowhere.sh --fast", "", ""},
		{"/workspace/inside.sh", "", ""},
		{relative(plain), "", "chmod +x"},
		{"./nowhere.sh", "", "no such file"},
	} {
		got, err := tried.program(t.Context(), c.name)
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: got %q, %v; want %q, %q", c.name, got, err, c.want, c.wrong)
		}
	}
	if tried.uncommitted(t.Context()) {
		t.Error("untracked files are uncommitted changes")
	}
	must(t, os.WriteFile(filepath.Join(dir, "inside.sh"), []byte("changed\n"), 0o755))
	if !tried.uncommitted(t.Context()) {
		t.Error("a changed file is no uncommitted change")
	}
}

func TestTryHandsTheSettingsOfAgentsOn(t *testing.T) {
	t.Parallel()
	got := ofAgents([]string{"HOME=/x", "SANDPIPER_MODEL_OPENAI_KEY_FILE=/k", "SANDPIPER_STATE_DIR=/s", "SANDPIPER_SYSTEM_PATHS=/opt/agents"})
	if diff := cmp.Diff([]string{"SANDPIPER_MODEL_OPENAI_KEY_FILE=/k", "SANDPIPER_SYSTEM_PATHS=/opt/agents"}, got); diff != "" {
		t.Error(diff)
	}
}
