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
	if p.Model != "" || p.Version != "" {
		t.Errorf("%+v", p)
	}
}

// offered are endpoints as the broker would offer them.
var offered = map[string]string{"anthropic": "http://broker/model/anthropic", "openai": "http://broker/model/openai", "gemini": "http://broker/model/gemini"}

func TestNamedAgentsNeedTheirModel(t *testing.T) {
	t.Parallel()
	dir := hydrated(t)
	for _, name := range policy.Profiles() {
		p, err := Lookup(policy.Agent{Profile: name})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []Launch{{Dir: dir, Network: []string{"npm"}}, {Dir: dir, Models: offered}, {Dir: dir, Grant: &sandbox.Grant{}}} {
			var needs *ErrNeedsModel
			_, err = p.Command(l)
			if !errors.As(err, &needs) || needs.Agent != name || !strings.Contains(err.Error(), "./agent.sh") || !strings.Contains(err.Error(), "_KEY_FILE") {
				t.Errorf("%s: got %v", name, err)
			}
		}
		l := Launch{Dir: dir, Models: offered, Grant: &sandbox.Grant{Git: true, Money: 7}}
		c, err := p.Command(l)
		if err != nil {
			t.Fatal(err)
		}
		if c.Argv[0] != name || !slices.Contains(c.Argv, read(t, dir, "prompt.md")) || p.Version == "" || c.Stdin != "" {
			t.Errorf("%s: %+v", name, c)
		}
		if diff := cmp.Diff(&sandbox.Grant{Models: []string{p.Model}, Git: true, Money: 7}, c.Broker); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		told := strings.Join(c.Env, "\n")
		for _, b := range c.Binds[1:] {
			info, err := os.Stat(b.Host)
			if err != nil || info.Mode().Perm() != 0o444 || !strings.HasPrefix(b.Inside, "/home/agent/.") {
				t.Errorf("%s: %+v %v", name, b, err)
			}
			data, err := os.ReadFile(b.Host)
			if err != nil {
				t.Error(err)
			}
			told += string(data)
		}
		if !strings.Contains(told, offered[p.Model]) || strings.Contains(told, "https://") {
			t.Errorf("%s is told of %s", name, told)
		}
		again, err := p.Command(l)
		if diff := cmp.Diff(c, again); err != nil || diff != "" {
			t.Errorf("%s, a second time: %v %s", name, err, diff)
		}
	}
}

func TestPlainCommandIsToldOfModels(t *testing.T) {
	t.Parallel()
	p, err := Lookup(policy.Agent{Command: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Command(Launch{Dir: hydrated(t), Models: map[string]string{"openai": offered["openai"]}, Grant: &sandbox.Grant{Git: true}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Env, "SANDPIPER_MODEL_OPENAI_URL=http://broker/model/openai") || !slices.Equal(c.Broker.Models, []string{"openai"}) || !c.Broker.Git {
		t.Errorf("%+v %+v", c.Env, c.Broker)
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
