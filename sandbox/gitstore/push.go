package gitstore

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// Push sets a branch of the remote to a commit, if the branch is at expect; an empty expect means that it must not exist. A
// branch that is at the commit already is as it should be. Errors: git.ErrStale (it is somewhere else), git.ErrRefused (see
// git.Error.Reason), git.ErrAuth, git.ErrNotFound, git.ErrNetwork (it may have happened or not: ask again).
func (s *Stores) Push(ctx context.Context, r Remote, commit, branch, expect string) error {
	if !commitForm.MatchString(commit) || expect != "" && !commitForm.MatchString(expect) {
		return fmt.Errorf("push %s: %q or %q is not a commit id", branch, commit, expect)
	}
	if branch == "" || strings.HasPrefix(branch, "refs/") || strings.ContainsAny(branch, ": \x00\n") {
		return fmt.Errorf("push: %q is not a branch name", branch)
	}
	if filepath.IsAbs(r.URL) {
		// receive-pack runs the hooks of the repository that it writes to, as whoever we are.
		return fmt.Errorf("push to %s: only to http(s) addresses", r.URL)
	}
	ref := "refs/heads/" + branch
	call, err := remoteCall(r, []string{"--porcelain", "--no-verify", "--no-follow-tags", "--no-progress",
		"--force-with-lease=" + ref + ":" + expect, "push"}, commit+":"+ref)
	if err != nil {
		return err
	}
	call.GitDir = s.Dir(r.Key)
	if _, err := s.git.Run(ctx, call); err != nil {
		return fmt.Errorf("push %s to %s: %w", branch, r.URL, err)
	}
	return nil
}
