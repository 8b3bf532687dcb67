package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// branchTaken is the exit status of a promotion whose branch exists and is somewhere else.
const branchTaken = 4

// landIn makes a branch in a repository on this machine at a commit that the ref of a store leads to. The repository fetches:
// a push would run its hooks, and this must touch neither its checkout nor a branch that exists.
func landIn(ctx context.Context, g *git.Git, dir, store, ref, commit, branch string) error {
	gitDir, err := gitDirOf(dir)
	if err != nil {
		return err
	}
	// Also what git branch would not make: HEAD, and a name that programs take for an option. To @ git says yes, and means HEAD by it.
	if _, err := g.Run(ctx, git.Call{Args: []string{"check-ref-format", "--branch", branch}}); err != nil || branch == "@" {
		return usageError(fmt.Errorf("%s is not a name for a branch", name(branch)))
	}
	full := "refs/heads/" + branch
	at, err := g.Run(ctx, git.Call{GitDir: gitDir, Args: []string{"for-each-ref", "--format=%(objectname)", full}})
	if err != nil {
		return fmt.Errorf("branch %s of %s: %w", branch, dir, err)
	}
	switch strings.TrimSpace(string(at)) {
	case "":
	case commit:
		return nil // an earlier call got this far
	default:
		return exitError{branchTaken, fmt.Errorf("branch %s exists in %s and is somewhere else; choose another by --branch", branch, dir)}
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", store, ref}
	if _, err := g.Run(ctx, git.Call{GitDir: gitDir, Transport: git.Local, Args: fetch}); err != nil {
		return fmt.Errorf("bring %s into %s: %w", commit, dir, err)
	}
	// The value that it must have before, all zeros, makes this fail if somebody else makes the branch meanwhile.
	create := []string{"update-ref", "-m", "sandpiper sandbox promote", full, commit, strings.Repeat("0", len(commit))}
	if _, err := g.Run(ctx, git.Call{GitDir: gitDir, Args: create}); err != nil {
		return fmt.Errorf("branch %s of %s: %w", branch, dir, err)
	}
	return nil
}

// gitDirOf finds the git directory of a checkout, of a linked worktree, or of a bare repository.
func gitDirOf(dir string) (string, error) {
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("the repository: %w", err)
	}
	dotGit := filepath.Join(dir, ".git")
	info, err := os.Stat(dotGit)
	if os.IsNotExist(err) {
		return dir, nil
	}
	if err != nil || info.IsDir() {
		return dotGit, err
	}
	text, err := os.ReadFile(dotGit)
	if err != nil {
		return "", err
	}
	where, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%s does not say where the git directory is", dotGit)
	}
	if !filepath.IsAbs(where) {
		where = filepath.Join(dir, where)
	}
	return where, nil
}
