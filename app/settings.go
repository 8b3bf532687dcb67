package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// CheckSettings reads what settings name, so that a mistake ends the start and not each mission. The error is a *config.Error.
func CheckSettings(c *config.Config) error {
	var problems []config.Problem
	check := func(name, how string, err error) {
		if err != nil {
			problems = append(problems, config.Problem{Name: name, What: err.Error(), How: how})
		}
	}
	backends := []string{"overlay", "worktree", "container"}
	check("SANDPIPER_BACKEND", "set it to auto, or unset it", oneOf(c.Backend, append(backends, sandbox.Auto)))
	check("SANDPIPER_BACKEND_OUTSIDER", "set it to container, or unset it", oneOf(c.BackendOutsider, backends))
	check("SANDPIPER_AGENT", "give a profile, a command with its arguments, or the absolute path of an executable file", checkAgent(c.Agent))
	check("SANDPIPER_POLICY_FILE", "'sandpiper policy check FILE' says the same", checkPolicy(c.PolicyFile))
	_, err := promote.LoadSigner(c.SigningKeyFile)
	check("SANDPIPER_SIGNING_KEY_FILE", "make one with openssl genpkey -algorithm ed25519, readable by the bot's user", err)
	if len(problems) > 0 {
		return &config.Error{Problems: problems}
	}
	return nil
}

func oneOf(value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("there is no backend %q (known: %s)", value, strings.Join(known, ", "))
}

func checkAgent(agent string) error {
	words := strings.Fields(agent)
	switch {
	case len(words) == 0:
		return nil
	case !filepath.IsAbs(agent):
		_, err := policy.ParseAgent(agent)
		return err
	}
	_, err := os.Stat(agent)
	if err != nil && len(words) > 1 { // a command with arguments
		_, err = os.Stat(words[0])
	}
	return err
}

func checkPolicy(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if _, err = policy.Parse(file, text); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	return nil
}
