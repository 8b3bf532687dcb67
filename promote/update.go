package promote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// An update brings an open pull request up to the newest commit of its base branch, where git alone cannot. The run starts from
// that commit, is given both sides, and its result is a merge: the branch keeps all that it had, and what people have said of it.

// Sides is what is needed to bring a change together with a branch.
type Sides struct {
	Patch []byte            // of the change
	Files map[string][]byte // those that conflict, as the merge has them: with marks around the branch, what both came from, and the change
}

// sidesMost bounds what is given of one file, and of the patch.
const sidesMost = 1 << 20

// Sides gives what is on the branch since it was left, and does not go together with theirs. Both commits are in the store.
func (r Stored) Sides(ctx context.Context, theirs, ours string) (Sides, error) {
	out, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"merge-base", theirs, ours}})
	if err != nil {
		return Sides{}, fmt.Errorf("where %.7s leaves %.7s: %w", ours, theirs, err)
	}
	base := strings.TrimSpace(string(out))
	s := Sides{Files: map[string][]byte{}}
	patch := &git.Head{Most: sidesMost}
	if _, err = r.Stores.Read(ctx, r.Remote.Key, git.Call{Stdout: patch,
		Args: []string{"diff-tree", "-r", "-p", "--binary", "-M", "--no-ext-diff", "--no-textconv", "--no-color", base, ours}}); err != nil {
		return s, fmt.Errorf("change of %.7s: %w", ours, err)
	}
	if s.Patch = patch.Text; patch.Cut() {
		s.Patch = fmt.Appendf(s.Patch, "\n\nThis patch is cut off here: it has %d bytes.\n", patch.Size)
	}
	m, err := r.merge(ctx, base, theirs, ours)
	if errors.Is(err, errNoMerge) || err == nil && len(m.conflicts) == 0 {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("merge with %.7s: %w", theirs, err)
	}
	ids, err := r.blobIDs(ctx, m.tree, m.conflicts)
	if err != nil {
		return s, err
	}
	for path, id := range ids {
		text, err := r.Blobs(ctx, []string{id}, sidesMost)
		if err != nil {
			return s, err
		}
		s.Files[path] = text[id]
	}
	return s, nil
}

// join makes what was staged a commit on the bot's branch, with the base as its other parent.
func (r Stored) join(ctx context.Context, s *Staged, redact func(string) string, req Request) error {
	parents, err := r.parents(ctx, req.Onto, s.Base)
	if err != nil {
		return err
	}
	req.Staged = *s
	spec := req.commitSpec(redact)
	spec.Message = req.message(redact)
	if s.Commit, err = r.commit(ctx, s.Tree, spec, parents...); err != nil {
		return fmt.Errorf("commit on %.7s: %w", req.Onto, err)
	}
	return r.keep(ctx, mergedRef(s.Run), s.Commit)
}

// parents are those of a commit that goes on at head with a tree that was made on base: also base, unless head has it already.
func (r Stored) parents(ctx context.Context, head, base string) ([]string, error) {
	_, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"merge-base", "--is-ancestor", base, head}})
	var failed *git.Error
	if errors.As(err, &failed) && failed.Exit == 1 {
		return []string{head, base}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("whether %.7s has %.7s: %w", head, base, err)
	}
	return []string{head}, nil
}
