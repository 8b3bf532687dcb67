package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

func hydrated(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := Hydrate(dir, exampleTask(), tree{}, policy.Default()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPlainCommandIsLaunched(t *testing.T) {
	t.Parallel()
	dir := hydrated(t)
	a, err := policy.ParseAgent("./agent.sh --fast")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Lookup(a)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Command(Launch{Dir: dir, Timeout: time.Minute, Output: 5})
	if err != nil {
		t.Fatal(err)
	}
	want := sandbox.Command{
		Argv:    []string{"sh", "-c", "./agent.sh --fast"},
		Env:     []string{"SANDPIPER_PROMPT_FILE=/sandpiper/prompt.md", "SANDPIPER_TASK_FILE=/sandpiper/task.md"},
		Stdin:   read(t, dir, "prompt.md"),
		Binds:   []sandbox.Bind{{Host: dir, Inside: "/sandpiper"}},
		Timeout: time.Minute, Output: 5,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.NeedsNetwork || p.Version != "" {
		t.Errorf("%+v", p)
	}
}

func TestNamedAgentsWaitForTheNetwork(t *testing.T) {
	t.Parallel()
	dir := hydrated(t)
	for _, name := range policy.Profiles() {
		p, err := Lookup(policy.Agent{Profile: name})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Command(Launch{Dir: dir})
		var needs *ErrNeedsNetwork
		if !errors.As(err, &needs) || needs.Agent != name || !strings.Contains(err.Error(), "./agent.sh") {
			t.Errorf("%s: got %v", name, err)
		}
		c, err := p.Command(Launch{Dir: dir, Network: []string{"npm"}})
		if err != nil {
			t.Fatal(err)
		}
		if c.Argv[0] != name || !slices.Contains(c.Argv, read(t, dir, "prompt.md")) || len(c.Network) != 1 || p.Version == "" || c.Stdin != "" {
			t.Errorf("%s: %+v", name, c)
		}
		for _, b := range c.Binds[1:] {
			info, err := os.Stat(b.Host)
			if err != nil || info.Mode().Perm() != 0o444 || !strings.HasPrefix(b.Inside, "/home/agent/.") {
				t.Errorf("%s: %+v %v", name, b, err)
			}
		}
		if _, err := p.Command(Launch{Dir: dir, Network: []string{"npm"}}); err != nil {
			t.Errorf("%s, a second time: %v", name, err)
		}
	}
}

func TestLookupErrors(t *testing.T) {
	t.Parallel()
	for _, a := range []policy.Agent{{}, {Profile: "nobody"}} {
		if _, err := Lookup(a); err == nil {
			t.Errorf("%+v was found", a)
		}
	}
	p, err := Lookup(policy.Agent{Command: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Command(Launch{Dir: t.TempDir()}); err == nil {
		t.Error("a directory that was not hydrated was taken")
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, plainFile := filepath.Join(dir, "good"), filepath.Join(dir, "plain")
	for file, mode := range map[string]os.FileMode{good: 0o755, plainFile: 0o644} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{good, link} {
		p, err := Script(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Command(Launch{Dir: hydrated(t)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sandbox.Bind{Host: p.host, Inside: "/agents/good"}, c.Binds[1]); diff != "" || c.Argv[0] != "/agents/good" {
			t.Errorf("%s: %v %s", file, c.Argv, diff)
		}
	}
	for file, want := range map[string]string{plainFile: "not executable", dir: "no regular file", filepath.Join(dir, "none"): "no such file"} {
		if _, err := Script(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
}
