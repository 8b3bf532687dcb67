package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// Select makes one commit of the selected changes on the base and keeps it under refs/sandpiper/<id>/promoted, where the next
// Select replaces it. The same input gives the same commit. It can be done again and again, with other selections too, also
// after Discard: what was collected is in the store. ErrNothing when the selection leaves nothing; ErrBusy while a command runs.
func (m *Manager) Select(ctx context.Context, id ID, sel Selection, spec CommitSpec) (Promotion, error) {
	if err := sel.Check(); err != nil {
		return Promotion{}, err
	}
	key, base, result, err := m.settled(ctx, id)
	if err != nil {
		return Promotion{}, err
	}
	p, err := m.build(ctx, key, base, result, sel, spec)
	if err != nil {
		return Promotion{}, fmt.Errorf("select from sandbox %s: %w", id, err)
	}
	p.Run = id
	if err := m.moveRef(ctx, key, Ref(id, "promoted"), p.Commit); err != nil {
		return p, fmt.Errorf("select from sandbox %s: %w", id, err)
	}
	return p, nil
}

// Selectable says whether a selection can be made and takes something; if not, the error is that of Select. Nothing is changed.
func (m *Manager) Selectable(ctx context.Context, id ID, sel Selection) error {
	if err := sel.Check(); err != nil {
		return err
	}
	key, base, result, err := m.settled(ctx, id)
	if err != nil {
		return err
	}
	all, err := m.between(ctx, key, base, result, false)
	if err != nil {
		return err
	}
	taken, err := m.selected(ctx, key, base, result, all, sel)
	if err == nil && len(taken) == 0 {
		err = ErrNothing
	}
	return err
}

// Promoted says that somebody outside has taken what was selected. A sandbox that is discarded stays so.
func (m *Manager) Promoted(ctx context.Context, id ID) error {
	r, err := m.acquire(ctx, id)
	var gone *ErrState
	if errors.As(err, &gone) && gone.Is == Discarded {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.release()
	if r.rec.Result == "" || r.rec.State == Running {
		return &ErrState{ID: id, Is: r.rec.State, Want: "collected, with no command since"}
	}
	r.rec.State = Promoted
	if err := m.save(r); err != nil {
		return err
	}
	m.tell(id, "promoted", r.rec.Result, nil)
	return nil
}

// Promote is Select, publish and Promoted: the sandbox is promoted once publish has returned nil, which may be called again
// after a crash.
func (m *Manager) Promote(ctx context.Context, id ID, sel Selection, spec CommitSpec, publish func(context.Context, Promotion) error) (Promotion, error) {
	if _, err := m.Record(id); err != nil {
		return Promotion{}, err
	}
	p, err := m.Select(ctx, id, sel, spec)
	if err != nil {
		return p, err
	}
	if publish != nil {
		if err := publish(ctx, p); err != nil {
			return p, err
		}
	}
	return p, m.Promoted(ctx, id)
}

// build makes the commit and says what is in it and what is not.
func (m *Manager) build(ctx context.Context, key, base, result string, sel Selection, spec CommitSpec) (Promotion, error) {
	// Without renames: each path is selected for itself, so that a rename cannot carry a deletion past the selection.
	all, err := m.between(ctx, key, base, result, false)
	if err != nil {
		return Promotion{}, err
	}
	taken, err := m.selected(ctx, key, base, result, all, sel)
	if err != nil {
		return Promotion{}, err
	}
	if len(taken) == 0 {
		return Promotion{}, ErrNothing
	}
	commit, tree, err := objects.Build(ctx, m.cfg.Stores.At(key), objects.Spec{Parent: base, Message: spec.Message,
		Author: objects.Ident(spec.Author), Committer: objects.Ident(spec.Committer)}, func(s *objects.Edit) error {
		for _, c := range taken {
			if c.Kind == Deleted {
				s.Delete(c.Path)
			}
		}
		for _, c := range taken {
			if c.Kind != Deleted {
				s.Object(c.Path, c.NewMode, c.NewID)
			}
		}
		return nil
	})
	if err != nil {
		return Promotion{}, err
	}
	p := Promotion{Base: base, Commit: commit, Tree: tree}
	var errs [2]error
	p.Changes, errs[0] = m.between(ctx, key, base, commit, true)
	p.LeftOut, errs[1] = m.between(ctx, key, commit, result, false)
	return p, errors.Join(errs[:]...)
}

// Between lists what differs from one commit of a store to another, with renames.
func (m *Manager) Between(ctx context.Context, key, from, to string) ([]Change, error) {
	return m.between(ctx, key, from, to, true)
}
