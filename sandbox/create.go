package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/removal"
)

var commitForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Ref is the name of a ref of a run in the store: base, result, promoted, discarded, or what a caller adds.
func Ref(id ID, name string) string { return "refs/sandpiper/" + string(id) + "/" + name }

// Create makes a sandbox at Source.Base, which must be in the store already. With Options.ID it finds the sandbox that an
// earlier call made, or finishes what that call began; another base for the same ID is an error.
func (m *Manager) Create(ctx context.Context, mission string, src Source, o Options) (ID, error) {
	if o.ID == "" {
		o.ID = ID("r-" + strings.ToLower(rand.Text()[:8]) + "-1")
	}
	if !idForm.MatchString(string(o.ID)) {
		return "", fmt.Errorf("sandbox id %q: not of the form %s", o.ID, idForm)
	}
	if !commitForm.MatchString(src.Base) {
		return "", fmt.Errorf("base %q: not a commit id", src.Base)
	}
	r, err := m.begin(ctx, mission, src, o)
	if err != nil {
		return "", fmt.Errorf("create sandbox %s: %w", o.ID, err)
	}
	defer r.release()
	if r.rec.Made {
		return r.id, nil
	}
	if err := m.make(ctx, r); err != nil {
		if ctx.Err() == nil { // nothing was run in it, so nothing can be lost; after a cancelled call the next one goes on
			err = errors.Join(err, m.unmake(ctx, r))
		}
		return "", fmt.Errorf("create sandbox %s: %w", o.ID, err)
	}
	m.tell(r.id, "created", fmt.Sprintf("%s at %s by %s", src.Key, src.Base, r.rec.Backend), nil)
	return r.id, nil
}

// begin makes the directory and the record, or finds them, and holds the lock.
func (m *Manager) begin(ctx context.Context, mission string, src Source, o Options) (*run, error) {
	if m.gone(o.ID) {
		return nil, &ErrState{ID: o.ID, Is: Discarded, Want: "new"}
	}
	name := o.Backend
	if name == "" {
		name = m.cfg.Default
	}
	backend, why, err := m.choose(ctx, name)
	if err != nil {
		return nil, err
	}
	dir := m.dir(o.ID)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	lock, err := flock.Wait(ctx, filepath.Join(dir, "lock"), flock.Exclusive)
	if errors.Is(err, fs.ErrNotExist) { // whoever had it before has removed it since
		return m.begin(ctx, mission, src, o)
	}
	if err != nil {
		return nil, err
	}
	r := &run{id: o.ID, dir: dir, lock: lock, backend: backend}
	err = durable.ReadJSON(filepath.Join(dir, "run.json"), &r.rec)
	switch {
	case exists(filepath.Join(dir, "discard.json")):
		err = &ErrState{ID: o.ID, Is: Discarded, Want: "new"}
	case err == nil && (r.rec.Source.Base != src.Base || r.rec.Source.Key != src.Key):
		err = fmt.Errorf("it exists with another base, %s of %s", r.rec.Source.Base, r.rec.Source.Key)
	case err == nil:
		if r.backend = m.backends[r.rec.Backend]; r.backend == nil {
			err = &ErrUnavailable{Backend: r.rec.Backend, Reason: "not configured"}
		}
	case errors.Is(err, fs.ErrNotExist) && m.gone(o.ID): // since we looked
		err = errors.Join(&ErrState{ID: o.ID, Is: Discarded, Want: "new"}, removal.All(dir))
	case errors.Is(err, fs.ErrNotExist):
		r.rec = Record{ID: o.ID, Mission: mission, Parent: o.Parent, Backend: backend.Name(), Why: why, Source: src, Limits: o.Limits.or(m.cfg.Limits),
			State: Created, Created: m.cfg.Now().UTC()}
		err = m.saveBy(durable.ReplaceJSON, r)
	}
	if err != nil {
		lock.Unlock()
		return nil, err
	}
	return r, nil
}

// gone says whether there was such a sandbox, and it was discarded.
func (m *Manager) gone(id ID) bool {
	rec, err := m.Record(id)
	return err == nil && rec.State == Discarded
}

// make makes what the record tells of, and waits for the disk nowhere. The record becomes lasting before the first command begins, and
// what was made before it is so then in file systems that keep an order: until then a power cut takes nothing but an empty sandbox,
// which its caller makes again by its id, and what it leaves is found as that of a run without a record.
func (m *Manager) make(ctx context.Context, r *run) error {
	if err := m.keepBase(ctx, r); err != nil {
		return err
	}
	if err := r.backend.Make(ctx, m.workspace(r)); err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	r.rec.Made = true
	return m.saveBy(durable.ReplaceJSON, r)
}

// Knower is implemented by backends that keep bases beyond single runs.
type Knower interface {
	// Knows says at once whether the base is a commit of the store that all of is there.
	Knows(w Workspace) bool
	// BaseRef is the ref that keeps the base in the store for as long as the backend has it.
	BaseRef(w Workspace) string
}

// keepBase makes sure that the base is there and stays.
func (m *Manager) keepBase(ctx context.Context, r *run) error {
	src, ref := r.rec.Source, Ref(r.id, "base")
	k, ok := r.backend.(Knower)
	if !ok || !k.Knows(m.workspace(r)) {
		commit, err := m.cfg.Stores.Resolve(ctx, src.Key, src.Base)
		if err == nil && commit != src.Base {
			err = fmt.Errorf("%s is not a commit: %w", src.Base, git.ErrNoRef)
		}
		if err != nil {
			return fmt.Errorf("base: %w", err)
		}
	}
	var err error
	if ok {
		err = m.cfg.Stores.ShareRef(ctx, src.Key, ref, src.Base, k.BaseRef(m.workspace(r)))
	} else {
		err = m.cfg.Stores.PutRef(ctx, src.Key, ref, src.Base, "")
	}
	if err != nil {
		return fmt.Errorf("keep the base: %w", err)
	}
	return nil
}

// unmake takes back what make has made of a sandbox that nobody has seen.
func (m *Manager) unmake(ctx context.Context, r *run) error {
	if err := r.backend.Remove(ctx, m.workspace(r)); err != nil {
		return err
	}
	if err := m.dropRef(ctx, r.rec.Source.Key, Ref(r.id, "base")); err != nil && !errors.Is(err, git.ErrNotFound) {
		return err
	}
	return os.RemoveAll(r.dir)
}

// dropRef deletes a ref wherever it is.
func (m *Manager) dropRef(ctx context.Context, key, ref string) error {
	at, err := m.cfg.Stores.Ref(ctx, key, ref)
	if err != nil || at == "" {
		return err
	}
	return m.cfg.Stores.DeleteRef(ctx, key, ref, at)
}

// moveRef sets a ref, wherever it is, to a commit that was just made in the store.
func (m *Manager) moveRef(ctx context.Context, key, ref, to string) error {
	at, err := m.cfg.Stores.Ref(ctx, key, ref)
	if err != nil {
		return err
	}
	return m.cfg.Stores.PutRef(ctx, key, ref, to, at)
}

// or takes from d what l leaves open.
func (l Limits) or(d Limits) Limits {
	if l.Procs == 0 {
		l.Procs = d.Procs
	}
	if l.Memory == 0 {
		l.Memory = d.Memory
	}
	if l.Disk == 0 {
		l.Disk = d.Disk
	}
	if l.Output == 0 {
		l.Output = d.Output
	}
	if l.Files == 0 {
		l.Files = d.Files
	}
	if l.Wall == 0 {
		l.Wall = d.Wall
	}
	return l
}
