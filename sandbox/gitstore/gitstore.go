// Package gitstore keeps one bare repository per source repository, which all sandboxes of it read.
//
// Objects come in by fetches of named refs and by what was collected from sandboxes; refs under refs/sandpiper/ keep what a
// run needs. Git's own collection of garbage is off: it cannot see the sandboxes that borrow objects (alternates). Each
// store has a lock, an flock beside it that git children hold on, so that it ends with the last process that writes.
//
// The package must not read working trees, and nothing in it may run in a directory that a sandbox can write.
package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// Remote is where the objects of a store come from.
type Remote struct {
	Key         string // of the store: gh-<repository id>, or local-<digest of the path>
	URL         string // http(s)://..., or the path of a repository on this machine; never with a credential in it
	Credentials git.Credentials
	// Shallow has the first fetch into an empty store bring in the commits that it asks for without their history. Deepen brings
	// that in.
	Shallow bool
}

// Stores are all stores below one directory. It is safe for concurrent use, also by several processes.
type Stores struct {
	dir string
	git *git.Git

	mu      sync.Mutex
	flights map[string]*flight
}

// Open makes the directory if it is missing.
func Open(dir string, g *git.Git) (*Stores, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of the stores: %w", err)
	}
	err = os.MkdirAll(abs, 0o700)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("directory of the stores: %w: set SANDPIPER_STATE_DIR to a directory that this user may write to, or give this one to the user", err)
	}
	if err != nil {
		return nil, fmt.Errorf("directory of the stores: %w", err)
	}
	return &Stores{dir: abs, git: g, flights: map[string]*flight{}}, nil
}

var keyForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,99}$`)

// Dir is the git directory of a store, whether it exists or not.
func (s *Stores) Dir(key string) string { return filepath.Join(s.dir, key+".git") }

// Keys lists the stores that exist.
func (s *Stores) Keys() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list the stores: %w", err)
	}
	var keys []string
	for _, e := range entries {
		if key, ok := strings.CutSuffix(e.Name(), ".git"); ok && e.IsDir() && keyForm.MatchString(key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// config is the whole configuration of a store: nothing of it is ever taken from elsewhere. Files in it can be read by all who
// get to them (sharedRepository), whatever the umask: a sandbox that has a user of its own sees the objects.
const config = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = true
	logAllRefUpdates = false
	sharedRepository = 0644
[gc]
	auto = 0
[maintenance]
	auto = false
[receive]
	denyCurrentBranch = refuse
`

// GitVersion is the version of the git that the stores use, or why that cannot be used.
func (s *Stores) GitVersion() (string, error) { return s.git.Version() }

// ensure makes the store if it is missing. Several may do so at once: each step can be done twice.
func (s *Stores) ensure(key string) error {
	dir := s.Dir(key)
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
		return nil
	}
	if _, err := s.git.Version(); err != nil {
		return err
	}
	// Written by hand rather than by git init: no template directory, and HEAD comes last, which makes it a repository.
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/sandpiper", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return fmt.Errorf("make store %s: %w", key, err)
		}
		for p := filepath.Join(dir, d); p != dir; p = filepath.Dir(p) { // whatever the umask, as sharedRepository for files
			if err := os.Chmod(p, 0o755); err != nil {
				return fmt.Errorf("make store %s: %w", key, err)
			}
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("make store %s: %w", key, err)
	}
	if err := durable.Write(filepath.Join(dir, "config"), []byte(config)); err != nil {
		return fmt.Errorf("make store %s: %w", key, err)
	}
	if err := durable.Write(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/none\n")); err != nil {
		return fmt.Errorf("make store %s: %w", key, err)
	}
	return nil
}

// lock takes a lock of a store (kind: .lock for what writes, .fetch for the turn to fetch) and makes the store if need be.
func (s *Stores) lock(ctx context.Context, key, kind string, m flock.Mode) (*flock.Lock, error) {
	if !keyForm.MatchString(key) {
		return nil, fmt.Errorf("store key %q: not of the form %s", key, keyForm)
	}
	l, err := flock.Wait(ctx, filepath.Join(s.dir, key+kind), m)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", key, err)
	}
	if err := s.ensure(key); err != nil {
		l.Unlock()
		return nil, err
	}
	return l, nil
}

// Run runs one git command that writes to a store, under its shared lock, which git holds on if this process dies. A lock
// file left behind by a git that was killed is cleared away, and the command is run again, if it has no stdin. What a failed one
// has written of a pack is removed: on a full disk it would keep the last bytes, which all others need.
func (s *Stores) Run(ctx context.Context, key string, c git.Call) ([]byte, error) {
	out, err := s.runLocked(ctx, key, c)
	if err != nil {
		err = errors.Join(err, s.clearHalves(key))
	}
	if !errors.Is(err, git.ErrLocked) {
		return out, err
	}
	if cerr := s.clearLocks(ctx, key); cerr != nil {
		return out, errors.Join(err, cerr)
	}
	if c.Stdin != nil {
		return out, err
	}
	return s.runLocked(ctx, key, c)
}

func (s *Stores) runLocked(ctx context.Context, key string, c git.Call) ([]byte, error) {
	l, err := s.lock(ctx, key, ".lock", flock.Shared)
	if err != nil {
		return nil, err
	}
	defer l.Unlock()
	if c.GitDir == "" { // else that of a worktree of the store
		c.GitDir = s.Dir(key)
	}
	c.Hold = append(slices.Clone(c.Hold), l.File())
	// Git does not wait for refs of its own accord (core.fsync in git-config(1)), and takes one that a power cut has left empty for broken.
	c.Config = append([]string{"core.fsync=reference"}, c.Config...)
	return s.git.Run(ctx, c)
}

// At is one store of them.
type At struct {
	stores *Stores
	key    string
}

// At gives a store, whether it exists or not.
func (s *Stores) At(key string) At { return At{s, key} }

// Dir is its git directory.
func (a At) Dir() string { return a.stores.Dir(a.key) }

// Run is Stores.Run.
func (a At) Run(ctx context.Context, c git.Call) ([]byte, error) { return a.stores.Run(ctx, a.key, c) }

// Hold takes the shared lock for what is written without git. The store is there after it.
func (a At) Hold(ctx context.Context) (release func(), err error) {
	l, err := a.stores.lock(ctx, a.key, ".lock", flock.Shared)
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Unlock() }, nil
}

// Read runs one git command that only reads a store. It takes no lock.
func (s *Stores) Read(ctx context.Context, key string, c git.Call) ([]byte, error) {
	if !keyForm.MatchString(key) {
		return nil, fmt.Errorf("store key %q: not of the form %s", key, keyForm)
	}
	if _, err := os.Stat(s.Dir(key)); err != nil {
		return nil, fmt.Errorf("store %s: %w", key, git.ErrNotFound)
	}
	c.GitDir = s.Dir(key)
	return s.git.Run(ctx, c)
}

// clearLocks removes the lock files of git in a store. It holds the exclusive lock, which it gets only when no git that
// this project started is left, so that each lock file found is one of a git that was killed.
func (s *Stores) clearLocks(ctx context.Context, key string) error {
	l, err := s.lock(ctx, key, ".lock", flock.Exclusive)
	if err != nil {
		return err
	}
	defer l.Unlock()
	dir := s.Dir(key)
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("clear lock files of store %s: %w", key, err)
		}
		if d.IsDir() && path == filepath.Join(dir, "objects") {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && strings.HasSuffix(path, ".lock") {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("clear lock files of store %s: %w", key, err)
			}
		}
		return nil
	})
}

// clearHalves removes packs that were begun and not ended, and the reports of the git that could not. It does nothing while another
// git is at work in the store, which may be writing one of them: then the next that fails does, or Sweep.
func (s *Stores) clearHalves(key string) error {
	var found []string
	for _, form := range []string{"objects/pack/tmp_*", "fast_import_crash_*"} {
		files, err := fs.Glob(os.DirFS(s.Dir(key)), form)
		if err != nil {
			return err
		}
		found = append(found, files...)
	}
	if len(found) == 0 {
		return nil
	}
	l, err := flock.Try(filepath.Join(s.dir, key+".lock"), flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.Unlock()
	for _, f := range found {
		if err := os.Remove(filepath.Join(s.Dir(key), f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clear half packs of store %s: %w", key, err)
		}
	}
	return nil
}
