// Package bases keeps checkouts of commits that many runs share: each is made once, and nothing in it changes after that.
//
//	<dir>/<key>/<commit>/tree       the files; .git is a file that leads to where the git directory is inside a sandbox
//	<dir>/<key>/<commit>/git        a git directory to begin with: HEAD, configuration, index; it borrows the store's objects
//	<dir>/<key>/<commit>/base.json  what is known of it, written last: without it the rest is what a crash has left
//	<dir>/<key>/<commit>/leases/    a file for each run, and each other base, that needs it
//	<dir>/<key>/<commit>.lock       flock: shared to take a lease, exclusive to build or to remove
//	<dir>/<key>/<commit>.new/       a base that is being made
//
// A base that differs little from one that is there holds only the difference, as a layer over the other's.
//
// The package must not know of runs: who holds a lease is a name. It must never be given a tree that a sandbox can write.
package bases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// Store is what is used of the stores.
type Store interface {
	Dir(key string) string
	Run(ctx context.Context, key string, c git.Call) ([]byte, error)
}

// Options of Open.
type Options struct {
	Dir   string
	Store Store
	// GitDir fills an empty directory with what a git directory has besides its index.
	GitDir func(dir, store, commit string) error
	// GitFile is what .git holds in each tree.
	GitFile string
	User    int   // owner of what is made, when this process is root; 0: us
	Budget  int64 // bytes of all bases together, beyond which those that were used least recently go; 0: 20 GiB
	// Layers is how many may lie over each other; 1: each base is whole. 0: 8.
	Layers int
	Log    *slog.Logger
	Now    func() time.Time
}

// Bases is safe for concurrent use, also by several processes.
type Bases struct {
	o    Options
	boot string // see Base
}

// Base is one checkout.
type Base struct {
	Commit string   `json:"commit"`
	Layers []string `json:"layers"` // commits whose trees lie over each other, this one's first
	User   int      `json:"user"`
	Files  int      `json:"files"`
	Bytes  int64    `json:"bytes"` // on the disk, of this layer
	Rules  []string `json:"rules"` // the .gitignore and .gitattributes files in the whole tree
	Boot   string   `json:"boot"`  // of the kernel that it was made under: the disk may not have it all before a Sync
	dir    string   // of the repository's bases
}

// Trees are the directories that lie over each other, the highest first.
func (b Base) Trees() []string {
	out := make([]string, len(b.Layers))
	for i, commit := range b.Layers {
		out[i] = filepath.Join(b.dir, commit, "tree")
	}
	return out
}

// GitDir is the git directory to begin with.
func (b Base) GitDir() string { return filepath.Join(b.dir, b.Commit, "git") }

// Open checks the options. Nothing is made yet.
func Open(o Options) *Bases {
	if o.Budget == 0 {
		o.Budget = 20 << 30
	}
	if o.Layers == 0 {
		o.Layers = 8
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Bases{o, bootID()}
}

var commitForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

func (b *Bases) repo(key string) string           { return filepath.Join(b.o.Dir, key) }
func (b *Bases) at(key, commit string) string     { return filepath.Join(b.o.Dir, key, commit) }
func (b *Bases) lockOf(key, commit string) string { return b.at(key, commit) + ".lock" }

// Take gives the base of a commit, and makes it if it is not there: once, whoever asks at the same time. It stays as long as
// there is a lease. Built says that it was not there.
func (b *Bases) Take(ctx context.Context, key, commit, lease string) (base Base, built bool, err error) {
	if !commitForm.MatchString(commit) || !validName(key) || !validName(lease) {
		return Base{}, false, fmt.Errorf("base %q of %q for %q: not such names", commit, key, lease)
	}
	if err := os.MkdirAll(b.repo(key), 0o700); err != nil {
		return Base{}, false, fmt.Errorf("bases: %w", err)
	}
	base, err = b.lease(ctx, key, commit, lease, flock.Shared)
	if !errors.Is(err, fs.ErrNotExist) {
		return base, false, err
	}
	lock, err := flock.Wait(ctx, b.lockOf(key, commit), flock.Exclusive)
	if err != nil {
		return Base{}, false, fmt.Errorf("base %s: %w", commit, err)
	}
	defer lock.Unlock()
	if _, err := b.read(key, commit); errors.Is(err, fs.ErrNotExist) { // else somebody has made it while we waited
		if err := b.build(ctx, key, commit); err != nil {
			return Base{}, false, fmt.Errorf("base %s: %w", commit, err)
		}
		built = true
	}
	base, err = b.addLease(key, commit, lease)
	return base, built, err
}

func (b *Bases) lease(ctx context.Context, key, commit, lease string, m flock.Mode) (Base, error) {
	lock, err := flock.Wait(ctx, b.lockOf(key, commit), m)
	if err != nil {
		return Base{}, fmt.Errorf("base %s: %w", commit, err)
	}
	defer lock.Unlock()
	return b.addLease(key, commit, lease)
}

// addLease is called with the lock held. The time of the directory becomes that of the last use.
func (b *Bases) addLease(key, commit, lease string) (Base, error) {
	base, err := b.read(key, commit)
	if err != nil {
		return base, err
	}
	f, err := os.OpenFile(filepath.Join(b.at(key, commit), "leases", lease), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return base, fmt.Errorf("base %s: lease: %w", commit, err)
	}
	return base, f.Close()
}

// Get gives a base that is there, for who has a lease.
func (b *Bases) Get(key, commit string) (Base, error) {
	base, err := b.read(key, commit)
	if err != nil {
		return base, fmt.Errorf("base %s of %s: %w", commit, key, err)
	}
	return base, nil
}

// Give gives a lease back. One that is not there is as it should be.
func (b *Bases) Give(key, commit, lease string) error {
	err := os.Remove(filepath.Join(b.at(key, commit), "leases", lease))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("base %s: lease: %w", commit, err)
	}
	return nil
}

// read gives fs.ErrNotExist for a base that is not complete, or of which the disk may have lost something at a power cut.
func (b *Bases) read(key, commit string) (Base, error) {
	var base Base
	if err := durable.ReadJSON(filepath.Join(b.at(key, commit), "base.json"), &base); err != nil {
		return base, err
	}
	base.dir = b.repo(key)
	if base.User != b.user() {
		return base, fmt.Errorf("it belongs to user %d, not %d: %w", base.User, b.user(), fs.ErrNotExist)
	}
	if base.Boot != b.boot {
		if _, err := os.Stat(filepath.Join(b.at(key, commit), "synced")); err != nil {
			return base, fmt.Errorf("it was made before the last start and may be damaged: %w", err)
		}
	}
	return base, nil
}

func (b *Bases) user() int {
	if os.Geteuid() != 0 || b.o.User == 0 {
		return os.Geteuid()
	}
	return b.o.User
}

func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// validName keeps names to single parts of paths.
func validName(s string) bool {
	return s != "" && len(s) < 200 && s[0] != '.' && !strings.ContainsAny(s, "/\x00")
}
