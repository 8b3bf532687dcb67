package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/removal"
)

// Discard stops what lives in a sandbox, records everything in its workspace under refs/sandpiper/<id>/discarded (also ignored
// files, up to a cap that a finding tells; and the private git directory, where commits may lie), and then takes the
// workspace away. What cannot be recorded is not removed: ErrUnrecorded. There is no way to insist. A second call
// finishes the first one, or says what it did. The home of the sandbox holds caches, and is not recorded.
func (m *Manager) Discard(ctx context.Context, id ID) (Discard, error) {
	r, err := m.take(ctx, id)
	var gone *ErrState
	if errors.As(err, &gone) {
		var d Discard
		err := durable.ReadJSON(filepath.Join(m.archived(id), "discard.json"), &d)
		return d, err
	}
	if err != nil {
		return Discard{}, err
	}
	defer r.release()
	if err := m.stopAll(ctx, r); err != nil {
		return Discard{}, fmt.Errorf("discard sandbox %s: %w", id, err)
	}
	busy, err := m.quiet(ctx, r)
	if err != nil {
		return Discard{}, err
	}
	defer busy.Unlock()
	d, err := m.record(ctx, r)
	if err != nil {
		return Discard{}, fmt.Errorf("discard sandbox %s: %w", id, err)
	}
	if err := m.remove(ctx, r, d); err != nil {
		return Discard{}, fmt.Errorf("discard sandbox %s: %w", id, err)
	}
	m.tell(id, "discarded", fmt.Sprint(d.Kept), nil)
	return d, nil
}

// stopAll ends every command, those of other processes too.
func (m *Manager) stopAll(ctx context.Context, r *run) error {
	entries, err := os.ReadDir(filepath.Join(r.dir, "exec"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		j := job(filepath.Join(r.dir, "exec", e.Name()))
		if held, err := flock.Held(j.file("lock"), flock.Shared); err != nil || !held {
			continue // its directory went away: it has ended
		}
		if err := m.stop(ctx, j); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("stop %s: %w", e.Name(), err)
		}
	}
	return nil
}

// record keeps everything. It is done once: what a Discard that was killed has recorded may be half removed by now.
func (m *Manager) record(ctx context.Context, r *run) (Discard, error) {
	file := filepath.Join(r.dir, "discard.json")
	d := Discard{Run: r.id}
	if err := durable.ReadJSON(file, &d); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return d, err
	}
	src := r.rec.Source
	if r.rec.Made { // else no command was ever run in it
		commit, findings, err := r.backend.Collect(ctx, m.workspace(r), true)
		if err != nil {
			return d, err
		}
		if commit != src.Base {
			if err := m.moveRef(ctx, src.Key, Ref(r.id, "discarded"), commit); err != nil {
				return d, err
			}
		}
		if len(findings) > 0 {
			r.note(findings)
			if err := m.save(r); err != nil {
				return d, err
			}
		}
	}
	refs, err := m.cfg.Stores.Refs(ctx, src.Key, Ref(r.id, ""))
	if err != nil {
		return d, err
	}
	for _, name := range []string{"agent/head", "base", "discarded", "manifest", "merged", "promoted", "result"} {
		ref := Ref(r.id, name)
		switch at := refs[ref]; {
		case at == "":
		case name == "base", at == src.Base:
			d.Removed = append(d.Removed, ref)
		default:
			d.Kept = append(d.Kept, ref)
		}
	}
	d.Kept = append(d.Kept, m.archived(r.id))
	d.Removed = append(d.Removed, r.backend.Path(m.workspace(r)), r.dir)
	return d, durable.WriteJSON(file, d)
}

// remove takes the workspace away and puts what stays into the archive, by one rename at the end.
func (m *Manager) remove(ctx context.Context, r *run, d Discard) error {
	if err := r.backend.Remove(ctx, m.workspace(r)); err != nil {
		return fmt.Errorf("remove the workspace: %w", err)
	}
	for _, ref := range d.Removed {
		if filepath.IsAbs(ref) {
			continue
		}
		if err := m.dropRef(ctx, r.rec.Source.Key, ref); err != nil {
			return err
		}
	}
	if err := os.Rename(r.dir, m.archived(r.id)); err != nil {
		return err
	}
	r.dir, r.rec.State = m.archived(r.id), Discarded
	if err := m.save(r); err != nil {
		return err
	}
	for _, name := range []string{"lock", "busy"} {
		os.Remove(filepath.Join(r.dir, name))
	}
	return nil // the disk need not have the rename: a second call finds discard.json, and does it again
}

// Forget removes what was kept of a discarded sandbox: its refs and its archive. For the end of the time that it is kept.
func (m *Manager) Forget(ctx context.Context, id ID) error {
	rec, err := m.Record(id)
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	if rec.State != Discarded {
		return &ErrState{ID: id, Is: rec.State, Want: string(Discarded)}
	}
	if err := m.DropRefs(ctx, rec.Source.Key, id); err != nil {
		return fmt.Errorf("forget sandbox %s: %w", id, err)
	}
	return removal.All(m.archived(id))
}

// DropRefs removes all refs of a run that has no directory (any more) from a store.
func (m *Manager) DropRefs(ctx context.Context, key string, id ID) error {
	if _, err := os.Lstat(m.dir(id)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("refs of %s: it has a directory", id)
	}
	refs, err := m.cfg.Stores.Refs(ctx, key, Ref(id, ""))
	if err != nil {
		return err
	}
	for ref, at := range refs {
		if err := m.cfg.Stores.DeleteRef(ctx, key, ref, at); err != nil {
			return err
		}
	}
	return nil
}

// Exists says whether a run has a directory, with or without a record in it.
func (m *Manager) Exists(id ID) bool { return idForm.MatchString(string(id)) && exists(m.dir(id)) }

// Unborn lists directories in which no record was written, because their maker was killed at once or the power cut, and which are
// older than a time. Nothing was ever made in them.
func (m *Manager) Unborn(before time.Time) ([]ID, error) {
	entries, err := os.ReadDir(m.runs())
	if err != nil {
		return nil, err
	}
	var ids []ID
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !idForm.MatchString(e.Name()) || info.ModTime().After(before) {
			continue
		}
		if !m.born(ID(e.Name())) {
			ids = append(ids, ID(e.Name()))
		}
	}
	return ids, nil
}

// born says whether a run has a record: not an empty one, which a power cut may leave of one that was not waited for.
func (m *Manager) born(id ID) bool {
	info, err := os.Stat(filepath.Join(m.dir(id), "run.json"))
	return err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// RemoveUnborn removes such a directory, if it still is one.
func (m *Manager) RemoveUnborn(id ID) error {
	lock, err := flock.Try(filepath.Join(m.dir(id), "lock"), flock.Exclusive)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, flock.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if m.born(id) {
		return nil
	}
	return removal.All(m.dir(id))
}
