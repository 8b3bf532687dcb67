package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Where things are in a sandbox, beside Inside.
const (
	home   = "/home/agent"
	agents = "/agents" // an agent that is a program of the host
)

// Profile is how one agent's command line is called, and how its output is read.
type Profile struct {
	Name         string
	Version      string // of the command line that this was tried with; empty for a plain command
	NeedsNetwork bool   // it works through an API of a model

	argv   func(prompt string) []string
	env    []string
	files  map[string]string // laid into the home directory, by their path in it
	host   string            // a program of the host, for Script
	stdin  bool              // the prompt goes to the standard input
	parser func() Parser
}

// ErrNeedsNetwork is the error of an agent that works through a network where the policy opens none.
type ErrNeedsNetwork struct{ Agent string }

func (e *ErrNeedsNetwork) Error() string {
	return fmt.Sprintf("the agent %s works through the API of its model, and the policy opens no network. "+
		"An agent that needs no network works as it is: write a command, such as agent: ./agent.sh", e.Agent)
}

// Lookup finds the profile of an agent as a policy or a setting names it.
func Lookup(a policy.Agent) (Profile, error) {
	switch {
	case a.Profile != "":
		for _, p := range profiles() {
			if p.Name == a.Profile {
				return p, nil
			}
		}
		return Profile{}, fmt.Errorf("agent %q is not known; known: %s", a.Profile, strings.Join(policy.Profiles(), ", "))
	case len(a.Command) > 0:
		return Profile{
			Name: a.String(), stdin: true, parser: newPlain,
			argv: func(string) []string { return slices.Clone(a.Command) },
		}, nil
	}
	return Profile{}, errors.New("no agent is named")
}

// Script is the profile of a program on the host, named by whoever runs the bot and never by a policy. It is seen in the
// sandbox as /agents/<its name>.
func Script(file string) (Profile, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return Profile{}, fmt.Errorf("agent %s: %w", file, err)
	}
	abs, err = filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return Profile{}, fmt.Errorf("agent %s: there is no such file", file)
	}
	if err != nil {
		return Profile{}, fmt.Errorf("agent %s: %w", file, err)
	}
	info, err := os.Stat(abs)
	switch {
	case err != nil:
		return Profile{}, fmt.Errorf("agent %s: %w", file, err)
	case !info.Mode().IsRegular():
		return Profile{}, fmt.Errorf("agent %s: it is no regular file", file)
	case info.Mode()&0o111 == 0:
		return Profile{}, fmt.Errorf("agent %s: it is not executable (chmod +x)", file)
	}
	inside := path.Join(agents, filepath.Base(abs))
	return Profile{
		Name: filepath.Base(abs), host: abs, stdin: true, parser: newPlain,
		argv: func(string) []string { return []string{inside} },
	}, nil
}

// Launch is what a command for a sandbox is made from.
type Launch struct {
	Dir     string        // that Hydrate wrote; files for the agent's home are laid into it
	Timeout time.Duration // 0: the limit of the sandbox
	Output  int64         // bytes; 0: the limit of the sandbox
	Network []string      // groups and hosts that the policy opens
}

// Command is the command to run. It may be called again for the same Launch.
func (p Profile) Command(l Launch) (sandbox.Command, error) {
	if p.NeedsNetwork && len(l.Network) == 0 {
		return sandbox.Command{}, &ErrNeedsNetwork{Agent: p.Name}
	}
	text, err := os.ReadFile(filepath.Join(l.Dir, "prompt.md"))
	if err != nil {
		return sandbox.Command{}, fmt.Errorf("prompt: %w", err)
	}
	c := sandbox.Command{
		Argv: p.argv(string(text)),
		Env: append([]string{
			"SANDPIPER_PROMPT_FILE=" + path.Join(Inside, "prompt.md"),
			"SANDPIPER_TASK_FILE=" + path.Join(Inside, "task.md"),
		}, p.env...),
		Binds:   []sandbox.Bind{{Host: l.Dir, Inside: Inside}},
		Timeout: l.Timeout,
		Output:  l.Output,
		Network: l.Network,
	}
	if p.stdin {
		c.Stdin = string(text)
	}
	if p.host != "" {
		c.Binds = append(c.Binds, sandbox.Bind{Host: p.host, Inside: c.Argv[0]})
	}
	binds, err := p.layHome(l.Dir)
	if err != nil {
		return sandbox.Command{}, err
	}
	c.Binds = append(c.Binds, binds...)
	return c, nil
}

// layHome writes the files of the home directory beside what the agent is given, and binds each to its place.
func (p Profile) layHome(dir string) ([]sandbox.Bind, error) {
	var binds []sandbox.Bind
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		file := filepath.Join(dir, "home", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, fmt.Errorf("home of %s: %w", p.Name, err)
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("home of %s: %w", p.Name, err)
		}
		if err := os.WriteFile(file, []byte(p.files[name]), 0o444); err != nil {
			return nil, fmt.Errorf("home of %s: %w", p.Name, err)
		}
		binds = append(binds, sandbox.Bind{Host: file, Inside: path.Join(home, name)})
	}
	return binds, nil
}

// Parser reads the output of one run.
func (p Profile) Parser() Parser { return p.parser() }
