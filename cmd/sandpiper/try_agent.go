package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// program is the file of this machine that the command line names as the agent; "" when it is a command for the sandbox. A path
// that leads nowhere is refused here: the sandbox would say the same later, and less clearly.
func (t *trial) program(ctx context.Context, name string) (string, error) {
	if !strings.Contains(name, "/") {
		return "", nil
	}
	file, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return file, nil
	}
	if strings.ContainsAny(name, " \t\n") || filepath.IsAbs(name) || t.committed(ctx, name) {
		return "", nil // a command with arguments, or of the system or the repository
	}
	if err == nil && info.Mode().IsRegular() {
		return "", fmt.Errorf("agent %s: it is not executable; chmod +x %s", name, name)
	}
	return "", fmt.Errorf("agent %s: there is no such file, here or in the commit", name)
}

func (t *trial) committed(ctx context.Context, name string) bool {
	_, err := t.stores.Read(ctx, trialKey, git.Call{Args: []string{"cat-file", "-e", t.head + ":" + path.Clean(name)}})
	return err == nil
}

// uncommitted says whether the checkout has changes of tracked files, which a trial leaves out. It is a courtesy: where git
// does not tell, nothing is said.
func (t *trial) uncommitted(ctx context.Context) bool {
	gitDir, err := gitDirOf(t.repo)
	if err != nil || gitDir == t.repo {
		return false
	}
	out, err := t.git.Run(ctx, git.Call{GitDir: gitDir, WorkTree: t.repo, Dir: t.repo,
		Env: []string{"GIT_OPTIONAL_LOCKS=0"}, Args: []string{"status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"}})
	return err == nil && len(out) > 0
}

// ofAgents are the settings that known agents need: the APIs of models with their keys, and where the agents lie.
func ofAgents(environ []string) []string {
	var env []string
	for _, kv := range environ {
		if strings.HasPrefix(kv, "SANDPIPER_MODEL_") || strings.HasPrefix(kv, "SANDPIPER_SYSTEM_PATHS=") {
			env = append(env, kv)
		}
	}
	return env
}
