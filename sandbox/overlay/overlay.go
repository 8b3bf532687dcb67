// Package overlay provides sandboxes that cost nothing until something is written in them: an overlay file system over a checkout of
// the base that all runs share.
//
// A run has two upper layers, of the files and of the private git directory that git uses inside. Both are mounted for each
// command anew, where its processes alone see them, and end with it: on the host there is never a mount. What changed is read
// from the upper layers, as data.
//
// The package must not keep states or records; the manager does. Whether a machine can do this is found out by doing it.
package overlay

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/bases"
	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
	"github.com/sandpiper-bot/sandpiper/sandbox/collect"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
	"github.com/sandpiper-bot/sandpiper/sandbox/local"
)

// Options of New.
type Options struct {
	StateDir string
	Stores   *gitstore.Stores
	Budget   int64 // bytes of all bases; see bases.Options
	Caps     collect.Caps
	System   []string       // further host paths that commands see, read-only, such as toolchains outside /usr
	UID      int            // user and group that commands run as when this process is root; 0: jail.DefaultUID
	Egress   egress.Options // how commands that have a network reach it
	Broker   *broker.Broker // that commands with a grant ask; nil: they are refused
	Now      func() time.Time
}

// Backend is the overlay backend.
type Backend struct {
	o     Options
	bases *bases.Bases
	root  bool
}

var (
	_ sandbox.Backend   = (*Backend)(nil)
	_ sandbox.Differ    = (*Backend)(nil)
	_ sandbox.Quieter   = (*Backend)(nil)
	_ sandbox.Available = (*Backend)(nil)
	_ sandbox.Keeper    = (*Backend)(nil)
	_ sandbox.Knower    = (*Backend)(nil)

	_ sandbox.Materialiser = (*Backend)(nil)
)

// New makes the backend.
func New(o Options) *Backend {
	if o.Now == nil {
		o.Now = time.Now
	}
	b := &Backend{o: o, root: os.Geteuid() == 0}
	if b.root && b.o.UID == 0 {
		b.o.UID = jail.DefaultUID
	}
	b.bases = bases.Open(bases.Options{
		Dir: filepath.Join(o.StateDir, "bases"), Store: o.Stores, GitFile: local.GitFile, User: b.o.UID, Budget: o.Budget, Now: o.Now,
		GitDir: func(dir, store, commit string) error { return local.MakeGitDir(dir, store, commit, false) },
	})
	return b
}

// Name is the name in records and settings.
func (b *Backend) Name() string { return "overlay" }

// What lies in the directory of a run.
const (
	upper    = "upper"
	work     = "work"
	gitUpper = "git"
	gitWork  = "git-work"
	home     = "home"
	scratch  = "scratch"
	copied   = "files" // where a person can look: made by Materialise
	copying  = "files.new"
)

// Path is where a person finds the files, once Materialise was called.
func (b *Backend) Path(w sandbox.Workspace) string { return filepath.Join(w.Dir, copied) }

// Delta is the upper layer.
func (b *Backend) Delta(w sandbox.Workspace) string { return filepath.Join(w.Dir, upper) }

// Knows says whether the base is there. Its objects are too: BaseRef keeps them.
func (b *Backend) Knows(w sandbox.Workspace) bool {
	_, err := b.bases.Get(local.Key(w), w.Base)
	return err == nil
}

// BaseRef keeps the objects of the base in the store.
func (b *Backend) BaseRef(w sandbox.Workspace) string { return keepRefs + w.Base }

// Make makes the layers of the run, or what is missing of them. Its time does not depend on the size of the repository, if the
// base is there.
func (b *Backend) Make(ctx context.Context, w sandbox.Workspace) error {
	_, built, err := b.bases.Take(ctx, local.Key(w), w.Base, string(w.ID))
	if err != nil {
		return err
	}
	if built {
		if err := b.keep(ctx, local.Key(w), w.Base); err != nil {
			return err
		}
	}
	for _, d := range []string{upper, gitUpper, home} {
		dir := filepath.Join(w.Dir, d)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if b.root {
			if err := os.Chown(dir, b.o.UID, b.o.UID); err != nil {
				return err
			}
		}
	}
	if built { // only then can the bases have become too large
		_, err = b.bases.Trim(nil)
	}
	return err
}

// Launch runs a command in the jail and returns after the last process of it is dead.
func (b *Backend) Launch(ctx context.Context, w sandbox.Workspace, c sandbox.Command, stdio sandbox.Stdio) (sandbox.Exit, []sandbox.Finding, error) {
	p, err := b.place(w)
	if err != nil {
		return sandbox.Exit{}, nil, err
	}
	if b.root { // whose overlays rename
		return local.Launch(ctx, w, p, c, stdio)
	}
	var refused refusals
	exit, findings, err := local.Launch(ctx, w, p, c, refused.watch(stdio))
	return exit, append(findings, refused.tell(w, b, stdio)...), err
}

// place is where commands of a run find its layers.
func (b *Backend) place(w sandbox.Workspace) (local.Place, error) {
	base, err := b.bases.Get(local.Key(w), w.Base)
	if err != nil {
		return local.Place{}, err
	}
	in := func(name string) string { return filepath.Join(w.Dir, name) }
	for _, d := range []string{work, gitWork} { // the kernel's own: nothing needs them before the first command
		if err := os.Mkdir(in(d), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return local.Place{}, err
		}
	}
	trees := base.Trees()
	return local.Place{
		Backend: b.Name(), Home: in(home), Used: &jail.Usage{}, System: b.o.System, UID: b.o.UID, Egress: b.o.Egress, Broker: b.o.Broker,
		Now: b.o.Now,
		Mounts: []jail.Mount{
			{Host: in(upper), Inside: jail.WorkspaceDir, Writable: true, Overlay: &jail.Overlay{Lower: trees, Work: in(work)}},
			{Host: in(gitUpper), Inside: local.GitDir, Writable: true, Overlay: &jail.Overlay{Lower: []string{base.GitDir()}, Work: in(gitWork)}},
			{Host: filepath.Join(w.Store, "objects"), Inside: local.ObjectsDir},
			{Host: filepath.Join(trees[len(trees)-1], ".git"), Inside: path.Join(jail.WorkspaceDir, ".git")},
		},
	}, nil
}

// Quiet ends what a supervisor that was killed has left: what has the upper layer of this run mounted.
func (b *Backend) Quiet(ctx context.Context, w sandbox.Workspace) error {
	return local.Quiet(ctx, w, jail.MountMark(b.Delta(w)))
}

// untouched says whether nothing was ever written.
func (b *Backend) untouched(w sandbox.Workspace) bool {
	for _, d := range []string{upper, gitUpper} {
		entries, err := os.ReadDir(filepath.Join(w.Dir, d))
		if err != nil || len(entries) > 0 {
			return false
		}
	}
	return true
}

// Collect makes a commit of what differs from the base.
func (b *Backend) Collect(ctx context.Context, w sandbox.Workspace, everything bool) (string, []sandbox.Finding, error) {
	if b.untouched(w) {
		return w.Base, nil, nil
	}
	s, err := b.source(w)
	if err != nil {
		return "", nil, err
	}
	if everything {
		s.Everything, s.GitDir = true, filepath.Join(w.Dir, gitUpper)
	}
	if err := os.Mkdir(s.Scratch, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", nil, err
	}
	r, err := collect.Collect(ctx, s)
	return r.Commit, r.Findings, err
}

// Differs says whether anything may differ from the base.
func (b *Backend) Differs(ctx context.Context, w sandbox.Workspace) (bool, error) {
	s, err := b.source(w)
	if err != nil {
		return true, err
	}
	return collect.Differs(ctx, s)
}

func (b *Backend) source(w sandbox.Workspace) (collect.Source, error) {
	base, err := b.bases.Get(local.Key(w), w.Base)
	return collect.Source{Run: w.ID, Root: b.Delta(w), Git: b.GitDir(w), Base: w.Base, Store: local.Store(b.o.Stores, w), Scratch: filepath.Join(w.Dir, scratch),
		Layer: &collect.Layer{Lower: base.Trees(), Rules: base.Rules, Root: b.root}, Caps: b.o.Caps, Now: b.o.Now}, err
}

// Remove takes everything away that Make and the commands made.
func (b *Backend) Remove(_ context.Context, w sandbox.Workspace) error {
	if err := local.Remove(w, upper, gitUpper, work, gitWork, home, scratch, copied, copying); err != nil {
		return err
	}
	return b.bases.Give(local.Key(w), w.Base, string(w.ID))
}
