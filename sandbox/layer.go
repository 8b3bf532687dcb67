package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/gitname"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/treecopy"
)

// Layered is implemented by backends into whose workspaces a layer can be laid.
type Layered interface {
	// Home is the home directory of a sandbox on the host.
	Home(w Workspace) string
	// Laid is called after files were put there and at Delta: they are not what commands have written.
	Laid(w Workspace) error
}

// Layer is what setup commands have made: ignored files, and the home with its caches. It is never changed; each sandbox gets
// a copy of its own, with shared blocks where the file system can, as a file that one of them changes is another's too if it is the same
// inode.
type Layer struct {
	Key  string         `json:"key"`
	Made time.Time      `json:"made"`
	From ID             `json:"from"` // the sandbox in which it was made
	Size treecopy.Stats `json:"size"`
	// Strays are what the commands changed and git does not ignore. They are not in the layer: they would become part of every diff.
	Strays []Change `json:"strays,omitempty"`
}

// Bounds of a layer. A sandbox that makes one has limits of its own; these are for what all later ones copy.
const (
	layerBytes = 4 << 30
	layerFiles = 400_000
)

var layerForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,127}$`)

func (m *Manager) layer(key string) string { return filepath.Join(m.cfg.StateDir, "layers", key) }

// Layer gives a layer; ErrUnknown when there is none.
func (m *Manager) Layer(key string) (Layer, error) {
	var l Layer
	if !layerForm.MatchString(key) {
		return l, fmt.Errorf("layer %q: not of the form %s", key, layerForm)
	}
	err := durable.ReadJSON(filepath.Join(m.layer(key), "layer.json"), &l)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("layer %s: %w", key, ErrUnknown)
	}
	return l, err
}

// SaveLayer makes a layer of what the commands in a sandbox have left. One that is there already stays as it is.
func (m *Manager) SaveLayer(ctx context.Context, id ID, key string) (Layer, error) {
	if l, err := m.Layer(key); !errors.Is(err, ErrUnknown) {
		return l, err
	}
	r, err := m.acquire(ctx, id)
	if err != nil {
		return Layer{}, err
	}
	defer r.release()
	l, err := m.saveLayer(ctx, r, key)
	if err != nil {
		return l, fmt.Errorf("layer of sandbox %s: %w", id, err)
	}
	m.tell(id, "layered", fmt.Sprintf("%s: %d files, %d bytes", key, l.Size.Files, l.Size.Bytes), nil)
	return l, nil
}

func (m *Manager) saveLayer(ctx context.Context, r *run, key string) (Layer, error) {
	l := Layer{Key: key, Made: m.cfg.Now().UTC(), From: r.id}
	b, ok := r.backend.(Layered)
	if !ok {
		return l, &ErrUnavailable{Backend: r.rec.Backend, Reason: "it has no layers"}
	}
	result, err := m.collect(ctx, r)
	if err != nil {
		return l, err
	}
	busy, err := m.quiet(ctx, r)
	if err != nil {
		return l, err
	}
	defer busy.Unlock()
	if l.Strays, err = m.between(ctx, r.rec.Source.Key, r.rec.Source.Base, result, false); err != nil {
		return l, err
	}
	ignored, err := m.ignored(ctx, r, l.Strays)
	if err != nil {
		return l, err
	}
	r.note(strays(r.id, l))
	if err := m.save(r); err != nil {
		return l, err
	}
	err = m.writeLayer(ctx, r, &l, b.Home(m.workspace(r)), ignored)
	return l, err
}

// strays are findings of what is left out: the first ones by name, as a package can have a hundred thousand files.
func strays(id ID, l Layer) (out []Finding) {
	const named = 20
	add := func(evidence string) {
		out = append(out, Finding{Run: id, Time: l.Made, Kind: "setup.stray", Severity: "low", Observer: "host", Evidence: evidence, Outcome: "contained"})
	}
	for _, s := range l.Strays[:min(len(l.Strays), named)] {
		add(fmt.Sprintf("%s %q: not ignored, so not kept", s.Kind, s.Path))
	}
	if more := len(l.Strays) - named; more > 0 {
		add(fmt.Sprintf("and %d more", more))
	}
	return out
}

// writeLayer copies what is taken beside the place of the layer, and moves it there when it is whole.
func (m *Manager) writeLayer(ctx context.Context, r *run, l *Layer, home string, ignored func(string, bool) bool) error {
	key := l.Key
	if err := os.MkdirAll(filepath.Dir(m.layer(key)), 0o700); err != nil {
		return err
	}
	// With the name of the sandbox, under whose lock this is: what a killed call has left is found again.
	fresh := filepath.Join(filepath.Dir(m.layer(key)), ".new-"+string(r.id))
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for name, from := range map[string]string{"files": r.backend.Delta(m.workspace(r)), "home": home} {
		to, take := filepath.Join(fresh, name), ignored
		if name == "home" {
			take = nil
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		size, err := treecopy.Copy(ctx, from, to, treecopy.Options{Take: take, UID: -1, Bytes: layerBytes, Files: layerFiles})
		if errors.Is(err, treecopy.ErrTooLarge) {
			err = fmt.Errorf("%w: %w", ErrUnrecorded, err)
		}
		if err != nil {
			return err
		}
		l.Size.Files, l.Size.Bytes = l.Size.Files+size.Files, l.Size.Bytes+size.Bytes
	}
	if err := durable.WriteJSON(filepath.Join(fresh, "layer.json"), *l); err != nil {
		return err
	}
	if err := os.Rename(fresh, m.layer(key)); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return durable.SyncDir(filepath.Dir(m.layer(key)))
}

// ignored says which files of a workspace are neither in the base nor in the result: those that git ignores.
func (m *Manager) ignored(ctx context.Context, r *run, changes []Change) (func(string, bool) bool, error) {
	out, err := m.cfg.Stores.Read(ctx, r.rec.Source.Key, git.Call{Args: []string{"ls-tree", "-r", "-z", "--name-only", "--full-tree", r.rec.Source.Base}})
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		known[name] = true
	}
	for _, c := range changes {
		known[c.Path] = true
	}
	return func(p string, _ bool) bool { return !known[p] && !gitname.Forbidden(filepath.Base(p)) }, nil
}

// ApplyLayer lays a layer into a sandbox in which no command has run. It can be called again.
func (m *Manager) ApplyLayer(ctx context.Context, id ID, key string) error {
	if _, err := m.Layer(key); err != nil {
		return err
	}
	r, err := m.acquire(ctx, id)
	if err != nil {
		return err
	}
	defer r.release()
	if r.rec.Layer == key {
		return nil
	}
	if err := m.applyLayer(ctx, r, key); err != nil {
		return fmt.Errorf("layer %s in sandbox %s: %w", key, id, err)
	}
	r.rec.Layer = key
	return m.save(r)
}

func (m *Manager) applyLayer(ctx context.Context, r *run, key string) error {
	b, ok := r.backend.(Layered)
	if !ok {
		return &ErrUnavailable{Backend: r.rec.Backend, Reason: "it has no layers"}
	}
	// Nothing in it can be a trap as long as nobody but us has written there.
	if jobs, err := os.ReadDir(filepath.Join(r.dir, "exec")); len(jobs) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) || r.rec.State != Created || !r.rec.Made {
		return &ErrState{ID: r.id, Is: r.rec.State, Want: "fresh"}
	}
	w := m.workspace(r)
	for name, to := range map[string]string{"files": r.backend.Delta(w), "home": b.Home(w)} {
		uid := -1
		var own syscall.Stat_t
		if err := syscall.Stat(to, &own); err != nil {
			return err
		}
		if os.Geteuid() == 0 {
			uid = int(own.Uid)
		}
		if _, err := treecopy.Copy(ctx, filepath.Join(m.layer(key), name), to, treecopy.Options{UID: uid}); err != nil {
			return err
		}
	}
	now := m.cfg.Now()
	if err := os.Chtimes(m.layer(key), now, now); err != nil { // used
		return err
	}
	return b.Laid(w)
}

// TrimLayers removes layers that nobody has used since a time.
func (m *Manager) TrimLayers(before time.Time) (removed []string, err error) {
	dir := filepath.Join(m.cfg.StateDir, "layers")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr != nil || info.ModTime().After(before) {
			continue
		}
		// By another name first: half a layer must not be taken for one. One that is being copied just then fails, and is made anew.
		gone := filepath.Join(dir, ".old-"+strings.TrimLeft(e.Name(), "."))
		if rerr := os.Rename(filepath.Join(dir, e.Name()), gone); rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		err = errors.Join(err, os.RemoveAll(gone))
		removed = append(removed, "layer "+e.Name())
	}
	return removed, err
}
