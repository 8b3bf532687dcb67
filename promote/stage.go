package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Staged is exactly what a promotion would push: the selected changes, on the newest commit of the base branch where they go
// together with it, else on the commit that the run started from. Checks and gates look at this, and Publish pushes this and
// nothing else.
type Staged struct {
	Run       sandbox.ID        `json:"run"`
	Selection sandbox.Selection `json:"selection"`
	MergeBase string            `json:"merge_base"` // the commit that the run started from
	Base      string            `json:"base"`       // the parent of Commit
	Tip       string            `json:"tip"`        // of the base branch when this was staged; Base is the same but after a conflict
	Commit    string            `json:"commit"`
	Tree      string            `json:"tree"`
	Changes   []sandbox.Change  `json:"changes"` // from Base to Commit
	LeftOut   []sandbox.Change  `json:"left_out,omitempty"`
	Conflicts []string          `json:"conflicts,omitempty"` // paths that cannot be merged; then Base is MergeBase
	Lost      []Lost            `json:"lost,omitempty"`      // lines that are newer than the run and that the change takes away
	Note      string            `json:"note,omitempty"`      // for people, why it was not merged although nothing conflicts
	Steps     []Step            `json:"steps,omitempty"`     // several commits that lead from Base to Commit; empty: it is one
	LFS       []LFSObject       `json:"lfs,omitempty"`       // files of Git LFS whose objects are there, or are uploaded by Publish
}

// OwnersAt is the commit whose CODEOWNERS counts: where the change goes to. Base need not be that, and is a commit of the pull request
// itself where its base branch was rewritten.
func (s Staged) OwnersAt() string { return cmp.Or(s.Tip, s.Base) }

// Merged says whether the base branch has moved since the run started, and the change stands on its newest commit.
func (s Staged) Merged() bool { return s.Base != s.MergeBase }

// Workshop makes commits in the store. Everything can be done again and gives the same.
type Workshop interface {
	// Select makes a commit of the selected changes of a run on its base.
	Select(ctx context.Context, id sandbox.ID, sel sandbox.Selection, spec sandbox.CommitSpec) (sandbox.Promotion, error)
	// Between lists what differs from one commit to another, with renames.
	Between(ctx context.Context, key, from, to string) ([]sandbox.Change, error)
}

var _ Workshop = (*sandbox.Manager)(nil)

// Stage selects the changes of a run and merges them onto the newest commit of the base branch. Nothing leaves the machine.
// ErrNothing when the selection leaves nothing, or when the base branch has the same change already.
func Stage(ctx context.Context, w Workshop, repo Stored, redact func(string) string, req Request) (Staged, error) {
	if redact == nil {
		redact = func(s string) string { return s }
	}
	s, err := stage(ctx, w, repo, redact, req)
	if err == nil && req.Onto != "" {
		err = repo.join(ctx, &s, redact, req)
	} else if err == nil && req.Keep && !req.Suggest {
		err = repo.keepCommits(ctx, w, &s, redact, req)
	}
	if err == nil {
		err = repo.findObjects(ctx, &s)
	}
	return s, err
}

func stage(ctx context.Context, w Workshop, repo Stored, redact func(string) string, req Request) (Staged, error) {
	spec := req.commitSpec(redact)
	made, err := w.Select(ctx, req.Run, req.Selection, spec)
	if err != nil {
		return Staged{}, err
	}
	s := Staged{
		Run: req.Run, Selection: req.Selection, MergeBase: made.Base, Base: made.Base, Commit: made.Commit, Tree: made.Tree,
		Changes: made.Changes, LeftOut: made.LeftOut,
	}
	if err := repo.toPointers(ctx, w, &s, spec); err != nil {
		return s, err
	}
	if req.Suggest {
		return s, nil // on the very head that it is suggested on
	}
	if req.FollowUp != nil {
		return repo.stageOn(ctx, w, s, req.Base)
	}
	if s.Tip, err = repo.Tip(ctx, req.Base); err != nil {
		return s, err
	}
	if s.Tip == s.MergeBase {
		return s, nil
	}
	m, err := repo.merge(ctx, s.MergeBase, s.Tip, s.Commit)
	switch {
	case errors.Is(err, errNoMerge):
		s.Note = "The base branch has moved since the run started. The git of the bot is too old to merge (2.38 is needed), so this stands on the commit that the run started from."
		return s, nil
	case err != nil:
		return s, fmt.Errorf("merge onto %s: %w", req.Base, err)
	case len(m.conflicts) > 0:
		s.Conflicts = m.conflicts
		return s, nil
	}
	return s, repo.onto(ctx, w, &s, m.tree, spec)
}

// onto makes the commit of a merged tree on the tip, and looks what became of the lines there.
func (r Stored) onto(ctx context.Context, w Workshop, s *Staged, tree string, spec sandbox.CommitSpec) error {
	selected := s.Commit
	spec.Message += "Sandpiper-Merge-Base: " + s.MergeBase + "\n" // as trailers has it
	commit, err := r.commit(ctx, tree, spec, s.Tip)
	if err != nil {
		return fmt.Errorf("commit the merge: %w", err)
	}
	if err := r.keep(ctx, mergedRef(s.Run), commit); err != nil {
		return err
	}
	s.Base, s.Commit, s.Tree = s.Tip, commit, tree
	if s.Changes, err = w.Between(ctx, r.Remote.Key, s.Base, s.Commit); err != nil {
		return err
	}
	if len(s.Changes) == 0 {
		return fmt.Errorf("the base branch has the same change already: %w", ErrNothing)
	}
	s.Lost, err = r.lost(ctx, *s, selected)
	return err
}

func mergedRef(run sandbox.ID) string { return "refs/sandpiper/" + string(run) + "/merged" }

// message is that of the commit of what was staged, the last one if there are several.
func (r Request) message(redact func(string) string) string {
	if n := len(r.Staged.Steps); n > 0 {
		return r.Staged.Steps[n-1].Message
	}
	return CommitMessage(r, redact)
}

func (p *publication) message() string { return p.req.message(p.Redact) }
