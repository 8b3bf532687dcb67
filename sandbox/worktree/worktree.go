// Package worktree provides sandboxes by git worktree: each run has a checkout of its own on the shared store of its repository,
// and its commands run in a jail that sees that checkout and little else.
//
// Git inside does not use the worktree's link to the store: over .git lies a file that leads to a private git directory, with a
// configuration, index and refs of its own, which borrows the store's objects read-only. Nothing that a command does to
// it reaches the store, and the host never uses it as a repository: what changed is collected as data.
//
// The package must not keep states or records; the manager does.
package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
	"github.com/sandpiper-bot/sandpiper/sandbox/collect"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
	"github.com/sandpiper-bot/sandpiper/sandbox/local"
)

// Options of New.
type Options struct {
	Name   string // in records and settings; empty: worktree
	Stores *gitstore.Stores
	Caps   collect.Caps
	System []string // further host paths that commands see, read-only, such as toolchains outside /usr
	UID    int      // user and group that commands run as when this process is root; 0: jail.DefaultUID
	Now    func() time.Time
	// Egress is how commands that have a network reach it: its limits, upstream proxy and open addresses. The rest of it is set by
	// each command.
	Egress  egress.Options
	Broker  *broker.Broker // that commands with a grant ask; nil: they are refused
	Confine local.Confine  // nil: jail.Run
	// OwnObjects gives each run a copy of the objects of its base. Otherwise it reads those of the store, among which are those of
	// other branches and other runs.
	OwnObjects bool
}

// Backend is the worktree backend.
type Backend struct {
	o        Options
	uid, gid int // owner of what a sandbox writes; -1: we are not root, and it is us
}

var (
	_ sandbox.Backend = (*Backend)(nil)
	_ sandbox.Differ  = (*Backend)(nil)
	_ sandbox.Quieter = (*Backend)(nil)
)

// New makes the backend.
func New(o Options) *Backend {
	b := &Backend{o: o, uid: -1, gid: -1}
	if b.o.Now == nil {
		b.o.Now = time.Now
	}
	if os.Geteuid() == 0 {
		if b.o.UID == 0 {
			b.o.UID = jail.DefaultUID
		}
		b.uid, b.gid = b.o.UID, b.o.UID
	}
	return b
}

// Name is the name in records and settings.
func (b *Backend) Name() string { return cmp.Or(b.o.Name, "worktree") }

// Path is the checkout: its directory is named like the run, and so is its registration in the store.
func (b *Backend) Path(w sandbox.Workspace) string { return filepath.Join(w.Dir, string(w.ID)) }

// Delta is the same: a worktree has its files in one place.
func (b *Backend) Delta(w sandbox.Workspace) string { return b.Path(w) }

// What else lies in the directory of a run.
const (
	gitDir      = "git"     // the private git directory
	gitFile     = "gitfile" // lies over .git inside
	home        = "home"
	scratch     = "scratch"      // of the collector
	baseline    = "baseline"     // what the checkout looked like
	gitBaseline = "baseline-git" // the same of the private git directory; written last: Make is done
	registering = "registration" // on its way into the store
	used        = "used.json"    // what the run took on the disk when it was made
	objects     = "objects"      // with OwnObjects
)

// Make makes the checkout and all around it. What an earlier call left unfinished is thrown away: no command ever ran in it.
func (b *Backend) Make(ctx context.Context, w sandbox.Workspace) error {
	if _, err := os.Stat(filepath.Join(w.Dir, gitBaseline)); err == nil {
		return nil
	}
	if err := b.Remove(ctx, w); err != nil {
		return err
	}
	if err := b.register(w); err != nil {
		return fmt.Errorf("register the worktree: %w", err)
	}
	run := local.Store(b.o.Stores, w).Run
	// Two workers: 0.65 to 0.82 of the time of one on two cores, and 4 or 8 bring no more.
	checkout := git.Call{GitDir: b.registration(w), WorkTree: b.Path(w), Dir: b.Path(w), Config: []string{"checkout.workers=2"},
		Args: []string{"read-tree", "--reset", "-u", w.Base}}
	if _, err := run(ctx, checkout); err != nil {
		return err
	}
	if err := b.makePrivate(w); err != nil {
		return fmt.Errorf("private git directory: %w", err)
	}
	if err := b.copyObjects(ctx, w); err != nil {
		return fmt.Errorf("objects of the base: %w", err)
	}
	for _, d := range []string{home, scratch} {
		if err := os.Mkdir(filepath.Join(w.Dir, d), 0o700); err != nil {
			return err
		}
	}
	tree, err := run(ctx, git.Call{Args: []string{"ls-tree", "-r", "-z", "--full-tree", w.Base}})
	if err != nil {
		return err
	}
	if tree == nil {
		tree = []byte{}
	}
	if err := collect.Snapshot(ctx, b.Path(w), filepath.Join(w.Dir, baseline), tree, b.uid, b.gid); err != nil {
		return err
	}
	return b.finish(ctx, w)
}

// finish hands over what lies beside the checkout, and writes what says that the workspace is complete.
func (b *Backend) finish(ctx context.Context, w sandbox.Workspace) error {
	if b.uid >= 0 {
		for _, f := range []string{home, gitFile} { // git wants its .git file to belong to who runs it
			if err := os.Lchown(filepath.Join(w.Dir, f), b.uid, b.gid); err != nil {
				return err
			}
		}
	}
	usage, err := jail.Measure(b.writable(w)...)
	if err != nil {
		return err
	}
	if err := durable.WriteJSON(filepath.Join(w.Dir, used), usage); err != nil {
		return err
	}
	return collect.Snapshot(ctx, filepath.Join(w.Dir, gitDir), filepath.Join(w.Dir, gitBaseline), nil, b.uid, b.gid)
}

func (b *Backend) writable(w sandbox.Workspace) []string {
	return []string{b.Path(w), filepath.Join(w.Dir, home), filepath.Join(w.Dir, gitDir)}
}

func (b *Backend) makePrivate(w sandbox.Workspace) error {
	index, err := os.ReadFile(filepath.Join(b.registration(w), "index"))
	if err != nil {
		return err
	}
	dir := filepath.Join(w.Dir, gitDir)
	// The checkout was given to another user after git wrote its index, which changed each ctime.
	if err := local.MakeGitDir(dir, w.Store, w.Base, b.uid >= 0); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "index"), index, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.Dir, gitFile), []byte(local.GitFile), 0o444)
}

// register does what git worktree add --detach --lock --no-checkout does, as gitrepository-layout(5) describes it, but by one
// rename. Git itself makes the files one by one: an add or a fetch at the same time dies on a commondir that is still empty
// ("failed to read .../commondir", seen with eight adds at once), and a kill at that moment would leave the store so.
func (b *Backend) register(w sandbox.Workspace) error {
	fresh := filepath.Join(w.Dir, registering)
	for _, d := range []string{fresh, filepath.Dir(b.registration(w)), b.Path(w)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		filepath.Join(fresh, "HEAD"):      w.Base,
		filepath.Join(fresh, "commondir"): "../..",
		filepath.Join(fresh, "gitdir"):    filepath.Join(b.Path(w), ".git"),
		filepath.Join(fresh, "locked"):    "run " + string(w.ID),
		filepath.Join(b.Path(w), ".git"):  "gitdir: " + b.registration(w),
	} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return os.Rename(fresh, b.registration(w))
}

// registration is what the store knows of the checkout.
func (b *Backend) registration(w sandbox.Workspace) string {
	return filepath.Join(w.Store, "worktrees", string(w.ID))
}

// objects are those that git inside borrows.
func (b *Backend) objects(w sandbox.Workspace) string {
	if b.o.OwnObjects {
		return filepath.Join(w.Dir, objects)
	}
	return filepath.Join(w.Store, "objects")
}

// copyObjects packs what the base leads to. Git takes deltas as they are, so the cost is that of writing the pack.
func (b *Backend) copyObjects(ctx context.Context, w sandbox.Workspace) error {
	if !b.o.OwnObjects {
		return nil
	}
	for _, d := range []string{"info", "pack"} {
		if err := os.MkdirAll(filepath.Join(b.objects(w), d), 0o755); err != nil {
			return err
		}
	}
	_, err := local.Store(b.o.Stores, w).Run(ctx, git.Call{Args: []string{"pack-objects", "--quiet", "--revs", "--delta-base-offset", filepath.Join(b.objects(w), "pack", "pack")},
		Stdin: strings.NewReader(w.Base + "\n")})
	return err
}

// Launch runs a command in the jail and returns after the last process of it is dead.
func (b *Backend) Launch(ctx context.Context, w sandbox.Workspace, c sandbox.Command, stdio sandbox.Stdio) (sandbox.Exit, []sandbox.Finding, error) {
	var usage jail.Usage
	if err := durable.ReadJSON(filepath.Join(w.Dir, used), &usage); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sandbox.Exit{}, nil, err
	}
	return local.Launch(ctx, w, local.Place{
		Backend: b.Name(), Home: filepath.Join(w.Dir, home), Used: &usage, System: b.o.System, UID: b.o.UID, Egress: b.o.Egress, Broker: b.o.Broker,
		Now: b.o.Now, Confine: b.o.Confine,
		Mounts: []jail.Mount{
			{Host: b.Path(w), Inside: jail.WorkspaceDir, Writable: true},
			{Host: filepath.Join(w.Dir, gitDir), Inside: local.GitDir, Writable: true},
			{Host: b.objects(w), Inside: local.ObjectsDir},
			{Host: filepath.Join(w.Dir, gitFile), Inside: path.Join(jail.WorkspaceDir, ".git")},
		},
	}, c, stdio)
}

// Quiet ends what a supervisor that was killed has left. The path in mountinfo begins at the root of the file system that the
// state directory lies on (proc(5)), hence only its end is compared.
func (b *Backend) Quiet(ctx context.Context, w sandbox.Workspace) error {
	return local.Quiet(ctx, w, fmt.Sprintf("/%s/%s %s ", w.ID, w.ID, jail.WorkspaceDir))
}

// Collect makes a commit of what differs from the base.
func (b *Backend) Collect(ctx context.Context, w sandbox.Workspace, everything bool) (string, []sandbox.Finding, error) {
	s, err := b.source(w)
	if err != nil {
		return "", nil, err
	}
	s.Everything = everything
	if everything {
		s.GitDir = filepath.Join(w.Dir, gitDir)
		if s.GitBaseline, err = collect.LoadBaseline(filepath.Join(w.Dir, gitBaseline)); err != nil {
			return "", nil, err
		}
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

func (b *Backend) source(w sandbox.Workspace) (s collect.Source, err error) {
	s = collect.Source{Run: w.ID, Root: b.Path(w), Git: filepath.Join(w.Dir, gitDir), Base: w.Base, Store: local.Store(b.o.Stores, w), Scratch: filepath.Join(w.Dir, scratch),
		Caps: b.o.Caps, Now: b.o.Now}
	s.Baseline, err = collect.LoadBaseline(filepath.Join(w.Dir, baseline))
	return s, err
}

// Remove takes everything away that Make and the commands made, and the registration of this one checkout. git worktree remove
// would run git status in it, with the configuration of repositories nested in it; git worktree prune would take others.
func (b *Backend) Remove(_ context.Context, w sandbox.Workspace) error {
	link, err := os.ReadFile(filepath.Join(b.registration(w), "gitdir"))
	if err == nil && strings.TrimSpace(string(link)) != filepath.Join(b.Path(w), ".git") {
		return fmt.Errorf("registration of worktree %s in the store is for another directory", w.ID)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// What says that the workspace is complete goes first.
	if err := local.Remove(w, gitBaseline, string(w.ID), gitDir, home, scratch, gitFile, registering, baseline, used, objects); err != nil {
		return err
	}
	return os.RemoveAll(b.registration(w))
}
