package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/fastimport"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// Promote makes one commit of the selected changes on the base, keeps it under refs/sandpiper/<id>/promoted and hands it to
// publish. The sandbox is promoted once publish has returned nil, which may be called again after a crash: the same input gives
// the same commit. ErrNothing when the selection leaves nothing; ErrBusy while a command runs.
func (m *Manager) Promote(ctx context.Context, id ID, sel Selection, spec CommitSpec, publish func(context.Context, Promotion) error) (Promotion, error) {
	if err := sel.Check(); err != nil {
		return Promotion{}, err
	}
	r, err := m.acquire(ctx, id)
	if err != nil {
		return Promotion{}, err
	}
	defer r.release()
	if busy, err := m.quiet(ctx, r); err != nil {
		return Promotion{}, err
	} else {
		busy.Unlock() // no command can begin while the lock of the sandbox is held
	}
	p, err := m.build(ctx, r, sel, spec)
	if err != nil {
		return Promotion{}, fmt.Errorf("promote sandbox %s: %w", id, err)
	}
	if err := m.moveRef(ctx, r.rec.Source.Key, Ref(id, "promoted"), p.Commit); err != nil {
		return p, fmt.Errorf("promote sandbox %s: %w", id, err)
	}
	if publish != nil {
		if err := publish(ctx, p); err != nil {
			return p, err
		}
	}
	r.rec.State = Promoted
	if err := m.save(r); err != nil {
		return p, err
	}
	m.tell(id, "promoted", p.Commit, nil)
	return p, nil
}

// build makes the commit and says what is in it and what is not.
func (m *Manager) build(ctx context.Context, r *run, sel Selection, spec CommitSpec) (Promotion, error) {
	result, err := m.result(ctx, r)
	if err != nil {
		return Promotion{}, err
	}
	src := r.rec.Source
	// Without renames: each path is selected for itself, so that a rename cannot carry a deletion past the selection.
	all, err := m.between(ctx, src.Key, src.Base, result, false)
	if err != nil {
		return Promotion{}, err
	}
	var taken []Change
	for _, c := range all {
		if sel.Takes(c.Path) {
			taken = append(taken, c)
		}
	}
	if len(taken) == 0 {
		return Promotion{}, ErrNothing
	}
	commit, err := fastimport.Run(ctx, m.inStore(src.Key), fastimport.Commit{Parent: src.Base, Message: spec.Message,
		Author: fastimport.Ident(spec.Author), Committer: fastimport.Ident(spec.Committer)}, func(s *fastimport.Stream) error {
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
	p := Promotion{Run: r.id, Base: src.Base, Commit: commit}
	var errs [3]error
	p.Tree, errs[0] = m.tree(ctx, src.Key, commit)
	p.Changes, errs[1] = m.between(ctx, src.Key, src.Base, commit, true)
	p.LeftOut, errs[2] = m.between(ctx, src.Key, commit, result, false)
	return p, errors.Join(errs[:]...)
}

// inStore runs git in a store, under its lock.
func (m *Manager) inStore(key string) fastimport.Runner {
	return func(ctx context.Context, c git.Call) ([]byte, error) { return m.cfg.Stores.Run(ctx, key, c) }
}

func (m *Manager) tree(ctx context.Context, key, commit string) (string, error) {
	out, err := m.cfg.Stores.Read(ctx, key, git.Call{Args: []string{"rev-parse", "--verify", commit + "^{tree}"}})
	return strings.TrimSpace(string(out)), err
}
