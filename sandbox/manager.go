package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// Config of a Manager.
type Config struct {
	StateDir string
	Backends []Backend
	Default  string // name of the backend for Options without one, or Auto; empty: the first of Backends
	Stores   *gitstore.Stores
	Limits   Limits // where Options have none

	// Supervisor is the command line that supervises a detached command, without its last three arguments: the state
	// directory, the id of the sandbox, the name of the command. Nil: this executable with the argument "supervise".
	Supervisor []string
	// SupervisorEnv is the whole environment of supervisors. Nil: PATH. It must not hold a secret.
	SupervisorEnv []string
	// HandOver are further settings for supervisors, as NAME=value, secrets among them. They travel through an inherited pipe:
	// the environment of a process can be read by others of its user, and also after the process has changed it. HandedOver
	// reads them.
	HandOver []string

	Record func(Event) // told what happens, for the audit record; nil: nobody. It must not call the manager.
	Log    *slog.Logger
	Now    func() time.Time
}

// Event is something that happened to a sandbox.
type Event struct {
	Run      ID
	Time     time.Time
	Kind     string // created, started, stopped, collected, verified, promoted, discarded, kept
	Detail   string
	Findings []Finding
}

// Manager keeps sandboxes: their states, records and locks. It is safe for concurrent use, also by several processes on one
// state directory: whatever it knows is on disk, and each method can run again after kill -9 at any instruction.
//
//	<state>/runs/<id>/run.json     the record, written before anything else is made
//	<state>/runs/<id>/lock         flock: held while the record changes
//	<state>/runs/<id>/busy         flock: held shared by each command that lives in the sandbox
//	<state>/runs/<id>/exec/<name>/ command.json, began.json, stop, lock, log, exit.json, egress.jsonl of one command
//	<state>/runs/<id>/egress.jsonl what commands in the foreground asked of the network
//	<state>/archive/<id>/          what stays of a discarded one: record, logs, discard.json
type Manager struct {
	cfg      Config
	backends map[string]Backend

	mu       sync.Mutex
	children map[string]int // process ids of supervisors that this process started, by directory: to be waited for
}

// Open checks the configuration and makes the directories.
func Open(cfg Config) (*Manager, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Record == nil {
		cfg.Record = func(Event) {}
	}
	if cfg.Stores == nil || len(cfg.Backends) == 0 {
		return nil, errors.New("sandbox manager: stores and at least one backend are needed")
	}
	m := &Manager{backends: map[string]Backend{}, children: map[string]int{}}
	for _, b := range cfg.Backends {
		m.backends[b.Name()] = b
	}
	if cfg.Default == "" {
		cfg.Default = cfg.Backends[0].Name()
	}
	if m.backends[cfg.Default] == nil && cfg.Default != Auto {
		return nil, fmt.Errorf("sandbox manager: no backend %q", cfg.Default)
	}
	var err error
	if cfg.StateDir, err = filepath.Abs(cfg.StateDir); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	m.cfg = cfg
	for _, d := range []string{cfg.StateDir, m.runs(), m.archive()} {
		// 0700: a set-user-id file that a sandbox leaves behind must not be in the reach of others.
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
	}
	return m, nil
}

func (m *Manager) runs() string          { return filepath.Join(m.cfg.StateDir, "runs") }
func (m *Manager) archive() string       { return filepath.Join(m.cfg.StateDir, "archive") }
func (m *Manager) dir(id ID) string      { return filepath.Join(m.runs(), string(id)) }
func (m *Manager) archived(id ID) string { return filepath.Join(m.archive(), string(id)) }

// Stores are the stores that the sandboxes read.
func (m *Manager) Stores() *gitstore.Stores { return m.cfg.Stores }

var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// run is a sandbox whose lock is held.
type run struct {
	id      ID
	dir     string
	rec     Record
	lock    *flock.Lock
	backend Backend
}

// acquire takes the lock of a sandbox and reads its record. ErrUnknown when there is none; *ErrState when it was discarded, or
// half discarded, which only Discard can go on with.
func (m *Manager) acquire(ctx context.Context, id ID) (*run, error) {
	r, err := m.take(ctx, id)
	if err == nil && exists(filepath.Join(r.dir, "discard.json")) {
		r.release()
		return nil, &ErrState{ID: id, Is: Discarded}
	}
	return r, err
}

func (m *Manager) take(ctx context.Context, id ID) (*run, error) {
	if !idForm.MatchString(string(id)) {
		return nil, fmt.Errorf("sandbox %q: %w", id, ErrUnknown)
	}
	lock, err := flock.Wait(ctx, filepath.Join(m.dir(id), "lock"), flock.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		rec, err := m.Record(id)
		if err == nil {
			err = &ErrState{ID: id, Is: rec.State}
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", id, err)
	}
	r := &run{id: id, dir: m.dir(id), lock: lock}
	if err := durable.ReadJSON(filepath.Join(r.dir, "run.json"), &r.rec); err != nil {
		lock.Unlock()
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrUnknown
		}
		return nil, fmt.Errorf("sandbox %s: %w", id, err)
	}
	if r.rec.ID != id { // not made by us, or moved: what is removed later would be somebody else's
		lock.Unlock()
		return nil, fmt.Errorf("sandbox %s: its record is that of %q: %w", id, r.rec.ID, ErrUnrecorded)
	}
	if r.backend = m.backends[r.rec.Backend]; r.backend == nil {
		lock.Unlock()
		return nil, fmt.Errorf("sandbox %s: %w", id, &ErrUnavailable{Backend: r.rec.Backend, Reason: "not configured"})
	}
	return r, nil
}

func (r *run) release() { r.lock.Unlock() }

// save writes the record.
func (m *Manager) save(r *run) error { return m.saveBy(durable.WriteJSON, r) }

// saveBy does so without waiting for the disk, by durable.ReplaceJSON, where nothing is lost if it comes to what was saved before.
func (m *Manager) saveBy(write func(path string, v any) error, r *run) error {
	r.rec.Changed = m.cfg.Now().UTC()
	if err := write(filepath.Join(r.dir, "run.json"), r.rec); err != nil {
		return fmt.Errorf("record of sandbox %s: %w", r.id, err)
	}
	return nil
}

func (m *Manager) workspace(r *run) Workspace { return m.workspaceOf(r.rec) }

func (m *Manager) workspaceOf(rec Record) Workspace {
	return Workspace{ID: rec.ID, Dir: m.dir(rec.ID), Store: m.cfg.Stores.Dir(rec.Source.Key), Base: rec.Source.Base, Limits: rec.Limits}
}

func (m *Manager) tell(id ID, kind, detail string, findings []Finding) {
	m.cfg.Log.Info("sandbox "+kind, "run", id, "detail", detail, "findings", len(findings))
	m.cfg.Record(Event{Run: id, Time: m.cfg.Now().UTC(), Kind: kind, Detail: detail, Findings: findings})
}

// Record gives what is known of a sandbox, discarded ones included.
func (m *Manager) Record(id ID) (Record, error) {
	var rec Record
	if !idForm.MatchString(string(id)) {
		return rec, fmt.Errorf("sandbox %q: %w", id, ErrUnknown)
	}
	for _, dir := range []string{m.runs(), m.archive()} {
		rec, err := m.read(dir, string(id))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return rec, err
		}
	}
	return rec, fmt.Errorf("sandbox %s: %w", id, ErrUnknown)
}

// read gives one record. One that lies in the archive is discarded, even if nobody came to write so.
func (m *Manager) read(dir, id string) (Record, error) {
	var rec Record
	err := durable.ReadJSON(filepath.Join(dir, id, "run.json"), &rec)
	if dir == m.archive() {
		rec.State = Discarded
	}
	return rec, err
}

// List gives the records of all sandboxes that have not been discarded, oldest first.
func (m *Manager) List() ([]Record, error) { return m.list(m.runs()) }

// Discarded gives the records of discarded sandboxes, oldest first.
func (m *Manager) Discarded() ([]Record, error) { return m.list(m.archive()) }

func (m *Manager) list(dir string) ([]Record, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	var recs []Record
	for _, e := range entries {
		rec, err := m.read(dir, e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	slices.SortFunc(recs, func(a, b Record) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return recs, nil
}

// Path is where a person can look at the files.
func (m *Manager) Path(id ID) (string, error) { return m.place(id, Backend.Path) }

// Delta is where new and changed files lie on the host.
func (m *Manager) Delta(id ID) (string, error) { return m.place(id, Backend.Delta) }

func (m *Manager) place(id ID, of func(Backend, Workspace) string) (string, error) {
	rec, err := m.Record(id)
	if err != nil {
		return "", err
	}
	if rec.State == Discarded {
		return "", &ErrState{ID: id, Is: rec.State}
	}
	b := m.backends[rec.Backend]
	if b == nil {
		return "", &ErrUnavailable{Backend: rec.Backend, Reason: "not configured"}
	}
	return of(b, m.workspaceOf(rec)), nil
}

// Status gives the state. A sandbox whose last command has ended without a word (its supervisor was killed) is looked at again.
func (m *Manager) Status(id ID) (State, error) {
	ctx := context.Background()
	rec, err := m.Record(id)
	if err != nil || rec.State != Running {
		return rec.State, err
	}
	if held, err := flock.Held(filepath.Join(m.dir(id), "busy"), flock.Exclusive); err != nil || held {
		return rec.State, err
	}
	r, err := m.acquire(ctx, id)
	if err != nil {
		return rec.State, err
	}
	defer r.release()
	err = m.settle(ctx, r)
	return r.rec.State, err
}

// Available is implemented by backends that do not work on every machine. It says by *ErrUnavailable why not, and is asked each
// time: the answer must not cost much.
type Available interface {
	Available(ctx context.Context) error
}

// Auto stands for the first of the configured backends that works on this machine.
const Auto = "auto"

// choose gives the backend of a name, and for Auto why it is not an earlier one.
func (m *Manager) choose(ctx context.Context, name string) (b Backend, why string, err error) {
	if name != Auto {
		b := m.backends[name]
		if b == nil {
			return nil, "", &ErrUnavailable{Backend: name, Reason: "not configured"}
		}
		if a, ok := b.(Available); ok {
			err = a.Available(ctx)
		}
		return b, "", err
	}
	var reasons []string
	for _, b := range m.cfg.Backends {
		a, ok := b.(Available)
		if !ok {
			return b, strings.Join(reasons, "; "), nil
		}
		var not *ErrUnavailable
		err := a.Available(ctx)
		if err == nil {
			return b, strings.Join(reasons, "; "), nil
		}
		if !errors.As(err, &not) {
			return nil, "", err
		}
		reasons = append(reasons, not.Error())
	}
	return nil, "", &ErrUnavailable{Backend: Auto, Reason: strings.Join(reasons, "; ")}
}

// Keeper is implemented by backends that keep something beyond single runs. Upkeep is called now and then, also by several
// processes at once, and says what it removed.
type Keeper interface {
	Upkeep(ctx context.Context, exists func(ID) bool) (removed []string, err error)
}

// Upkeep lets the backends look after what they keep.
func (m *Manager) Upkeep(ctx context.Context) (removed []string, err error) {
	for _, b := range m.cfg.Backends {
		if k, ok := b.(Keeper); ok {
			gone, kerr := k.Upkeep(ctx, m.Exists)
			removed, err = append(removed, gone...), errors.Join(err, kerr)
		}
	}
	return removed, err
}

// Differ is implemented by backends that can say without reading files whether anything may differ from the base.
type Differ interface {
	Differs(ctx context.Context, w Workspace) (bool, error)
}

// settle gives a sandbox in which nothing runs any more its state.
func (m *Manager) settle(ctx context.Context, r *run) error {
	if r.rec.State != Running {
		return nil
	}
	busy, err := flock.Try(filepath.Join(r.dir, "busy"), flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer busy.Unlock()
	r.rec.State = Dirty
	if d, ok := r.backend.(Differ); ok {
		differs, err := d.Differs(ctx, m.workspace(r))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && !differs { // a workspace that cannot even be walked is surely dirty
			r.rec.State = Created
		}
	}
	return m.saveBy(durable.ReplaceJSON, r) // after a power cut the sandbox is found running, and this is done again
}
