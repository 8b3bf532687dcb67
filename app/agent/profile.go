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
	Name    string
	Version string // of the command line that this was tried with; empty for a plain command
	Model   string // the endpoint of the broker that it works through; empty for a plain command, which may use any

	argv   func(prompt string) []string
	env    func(base string) []string          // base is the address of the endpoint inside
	files  func(base string) map[string]string // laid into the home directory, by their path in it
	host   string                              // a program of the host, for Script
	stdin  bool                                // the prompt goes to the standard input
	parser func() Parser
}

// ErrNeedsModel is the error of an agent whose model the broker does not offer.
type ErrNeedsModel struct{ Agent, Model string }

func (e *ErrNeedsModel) Error() string {
	return fmt.Sprintf("the agent %s works through the model endpoint %q, and this bot has no key for it: whoever runs the bot sets "+
		"SANDPIPER_MODEL_%s_KEY_FILE. An agent that needs no model works without: write a command, such as agent: ./agent.sh",
		e.Agent, e.Model, strings.ToUpper(e.Model))
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

	// Models are the endpoints that the broker offers: their base addresses inside, by name.
	Models map[string]string
	// Grant is what the command may use of the broker; its Models are set by the profile. Nil: there is no broker.
	Grant *sandbox.Grant
}

// Command is the command to run. It may be called again for the same Launch.
func (p Profile) Command(l Launch) (sandbox.Command, error) {
	base, ok := l.Models[p.Model]
	if p.Model != "" && (!ok || l.Grant == nil) {
		return sandbox.Command{}, &ErrNeedsModel{Agent: p.Name, Model: p.Model}
	}
	text, err := os.ReadFile(filepath.Join(l.Dir, "prompt.md"))
	if err != nil {
		return sandbox.Command{}, fmt.Errorf("prompt: %w", err)
	}
	c := sandbox.Command{
		Argv: p.argv(string(text)),
		Env: []string{
			"SANDPIPER_PROMPT_FILE=" + path.Join(Inside, "prompt.md"),
			"SANDPIPER_TASK_FILE=" + path.Join(Inside, "task.md"),
		},
		Binds:   []sandbox.Bind{{Host: l.Dir, Inside: Inside}},
		Timeout: l.Timeout,
		Output:  l.Output,
		Network: l.Network,
	}
	p.grant(&c, l, base)
	if p.stdin {
		c.Stdin = string(text)
	}
	if p.host != "" {
		c.Binds = append(c.Binds, sandbox.Bind{Host: p.host, Inside: c.Argv[0]})
	}
	binds, err := p.layHome(l.Dir, base)
	if err != nil {
		return sandbox.Command{}, err
	}
	c.Binds = append(c.Binds, binds...)
	return c, nil
}

// grant says what the command may ask of the broker, and tells it where. A plain command is told of all models: it knows itself
// which one it speaks to.
func (p Profile) grant(c *sandbox.Command, l Launch, base string) {
	if p.env != nil {
		c.Env = append(c.Env, p.env(base)...)
	}
	if l.Grant == nil {
		return
	}
	grant := *l.Grant
	grant.Models = []string{p.Model}
	if p.Model == "" {
		grant.Models = slices.Sorted(maps.Keys(l.Models))
		for _, name := range grant.Models {
			c.Env = append(c.Env, "SANDPIPER_MODEL_"+strings.ToUpper(name)+"_URL="+l.Models[name])
		}
	}
	c.Broker = &grant
}

// layHome writes the files of the home directory beside what the agent is given, and binds each to its place.
func (p Profile) layHome(dir, base string) ([]sandbox.Bind, error) {
	if p.files == nil {
		return nil, nil
	}
	var binds []sandbox.Bind
	files := p.files(base)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, "home", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, fmt.Errorf("home of %s: %w", p.Name, err)
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("home of %s: %w", p.Name, err)
		}
		if err := os.WriteFile(file, []byte(files[name]), 0o444); err != nil {
			return nil, fmt.Errorf("home of %s: %w", p.Name, err)
		}
		binds = append(binds, sandbox.Bind{Host: file, Inside: path.Join(home, name)})
	}
	return binds, nil
}

// Parser reads the output of one run.
func (p Profile) Parser() Parser { return p.parser() }
