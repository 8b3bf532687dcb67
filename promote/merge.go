package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// merge is what came of a merge: a tree, and the paths that conflict. Their files have marks around the sides in it.
type merge struct {
	tree      string
	conflicts []string
}

// errNoMerge says that this git cannot merge without a working tree: git merge-tree --write-tree came with 2.38.
var errNoMerge = errors.New("this git cannot merge without a working tree")

// nobody signs commits that only help in a merge and that no ref ever names.
var nobody = sandbox.CommitSpec{
	Author:    sandbox.Signature{Name: "sandpiper", Email: "sandpiper@localhost", When: time.Unix(0, 0).UTC()},
	Committer: sandbox.Signature{Name: "sandpiper", Email: "sandpiper@localhost", When: time.Unix(0, 0).UTC()},
}

// merge brings what changed from base to ours together with what changed from base to theirs. The base is the one that is
// given, also when theirs was rewritten and does not descend from it any more: theirs' tree is put on it as one commit.
// Nothing of a repository's configuration or attributes takes part (custom drivers are configuration, and the store has none).
func (r Stored) merge(ctx context.Context, base, theirs, ours string) (merge, error) {
	tree, err := r.treeOf(ctx, theirs)
	if err != nil {
		return merge{}, err
	}
	helper, err := r.commit(ctx, tree, nobody, base)
	if err != nil {
		return merge{}, err
	}
	out, err := r.Stores.Run(ctx, r.Remote.Key, git.Call{
		Args:   []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", helper, ours},
		Config: []string{"merge.renames=true", "merge.directoryRenames=false", "merge.conflictStyle=diff3"},
	})
	fields := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	var failed *git.Error
	switch {
	case err == nil:
		return merge{tree: fields[0]}, nil
	case errors.As(err, &failed) && failed.Exit == 1 && len(fields) > 1:
		slices.Sort(fields[1:])
		return merge{tree: fields[0], conflicts: slices.Compact(fields[1:])}, nil
	case errors.As(err, &failed) && failed.Exit == 129:
		return merge{}, errNoMerge
	}
	return merge{}, err
}

func (r Stored) treeOf(ctx context.Context, commit string) (string, error) {
	out, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"rev-parse", "--verify", commit + "^{tree}"}})
	return strings.TrimSpace(string(out)), err
}

// commit makes a commit of a tree. The same input gives the same commit.
func (r Stored) commit(ctx context.Context, tree string, spec sandbox.CommitSpec, parents ...string) (string, error) {
	args := []string{"commit-tree"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	env := []string{}
	for role, s := range map[string]sandbox.Signature{"AUTHOR": spec.Author, "COMMITTER": spec.Committer} {
		env = append(env, "GIT_"+role+"_NAME="+s.Name, "GIT_"+role+"_EMAIL="+s.Email, fmt.Sprintf("GIT_%s_DATE=@%d %s", role, s.When.Unix(), s.When.Format("-0700")))
	}
	out, err := r.Stores.Run(ctx, r.Remote.Key, git.Call{Args: append(args, tree), Env: env, Stdin: strings.NewReader(spec.Message)})
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// keep moves a ref of ours to a commit, wherever it was.
func (r Stored) keep(ctx context.Context, ref, commit string) error {
	old, err := r.Stores.Ref(ctx, r.Remote.Key, ref)
	if err != nil {
		return err
	}
	return r.Stores.SetRef(ctx, r.Remote.Key, ref, commit, old)
}

// Tip fetches a branch and gives its commit. ErrBaseGone when there is no such branch.
func (r Stored) Tip(ctx context.Context, branch string) (string, error) {
	into := "refs/sandpiper/fetch/heads/" + branch
	err := r.Stores.Fetch(ctx, r.Remote, "+refs/heads/"+branch+":"+into)
	if errors.Is(err, git.ErrNoRef) || errors.Is(err, git.ErrEmpty) {
		return "", fmt.Errorf("branch %s: %w", branch, ErrBaseGone)
	}
	if err != nil {
		return "", err
	}
	return r.Stores.Resolve(ctx, r.Remote.Key, into)
}
