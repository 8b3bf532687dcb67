package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// Care says what Maintain must respect.
type Care struct {
	Now time.Time
	// Grace is how long an object must have been out of reach of every ref before it goes; 0: 14 days.
	Grace time.Duration
	// Open is when the oldest sandbox that borrows from the store was made; zero: there is none. An object that was within
	// reach after that can be in use there, by a name that only that sandbox knows, and stays.
	Open time.Time
	// Force does it also when there is little to gain.
	Force bool
}

// Cared is what Maintain did.
type Cared struct {
	Store   string `json:"store"`
	Skipped string `json:"skipped,omitempty"` // why nothing was done
	Packs   int    `json:"packs"`             // there were
	Loose   int    `json:"loose"`             // files of single objects there were
	Before  int64  `json:"before"`            // bytes of objects
	After   int64  `json:"after"`
	Waiting int    `json:"waiting"` // objects out of reach whose time has not come
	Pruned  int    `json:"pruned"`
}

// When there is something to gain. Each fetch and each result is a pack, and each process of each sandbox opens all of them; but a
// repack costs with the repository, so not before git gc would (gc.autoPackLimit). Of single objects it has 6,700.
const (
	manyPacks = 50
	manyLoose = 2000
)

// unreachable is the file that says since when objects are out of reach. Git has only the time when the file of an object was
// written, which for one that a force-push has just cut off can be months ago.
const unreachable = "sandpiper-unreachable.json"

// Maintain packs a store anew, with a bitmap and a commit-graph, and removes objects that no ref has led to for long enough. It needs
// the store for itself: git.ErrLocked when something writes in it. Nobody who reads is disturbed: git looks for a new pack
// when one is gone (gitrepository-layout(5)), and the refs of a run hold its base and results.
//
// Killed at any moment it loses nothing: a pack goes after the one that replaces it is complete, and without the file the waiting
// begins anew.
func (s *Stores) Maintain(ctx context.Context, key string, c Care) (Cared, error) {
	if !keyForm.MatchString(key) {
		return Cared{}, fmt.Errorf("store key %q: not of the form %s", key, keyForm)
	}
	if c.Grace == 0 {
		c.Grace = 14 * 24 * time.Hour
	}
	lock, err := flock.Try(filepath.Join(s.dir, key+".lock"), flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return Cared{}, fmt.Errorf("store %s: %w", key, git.ErrLocked)
	}
	if err != nil {
		return Cared{}, err
	}
	defer lock.Unlock()
	before, err := s.stock(key)
	if err != nil {
		return Cared{}, err
	}
	done := Cared{Store: key, Packs: before.packs, Loose: len(before.loose), Before: before.bytes, After: before.bytes}
	if !c.Force && before.packs < manyPacks && len(before.loose) < manyLoose {
		done.Skipped = "little to gain"
		return done, nil
	}
	run := func(args ...string) error {
		// Without -f deltas are taken as they are; the limit of memory is for those that are made.
		_, err := s.git.Run(ctx, git.Call{GitDir: s.Dir(key), Args: args, Hold: []*os.File{lock.File()},
			Config: []string{"pack.windowMemory=128m", "pack.threads=1", "repack.writeBitmaps=true"}})
		return err
	}
	// -A: what is out of reach becomes files of single objects again instead of going with its pack. --cruft would keep it
	// packed, but is not in the oldest git that we take.
	if err := run("repack", "-A", "-d", "-q", "--write-bitmap-index"); err != nil {
		return done, fmt.Errorf("repack store %s: %w", key, err)
	}
	if err := s.prune(key, c, &done, run); err != nil {
		return done, fmt.Errorf("prune store %s: %w", key, err)
	}
	if err := run("commit-graph", "write", "--reachable", "--no-progress"); err != nil {
		return done, fmt.Errorf("commit-graph of store %s: %w", key, err)
	}
	after, err := s.stock(key)
	done.After = after.bytes
	return done, err
}

// prune removes what has waited long enough. All single objects are out of reach right after a repack, while the lock is held.
func (s *Stores) prune(key string, c Care, done *Cared, run func(...string) error) error {
	file := filepath.Join(s.Dir(key), unreachable)
	since := map[string]time.Time{}
	if err := durable.ReadJSON(file, &since); err != nil && !errors.Is(err, fs.ErrNotExist) {
		since = map[string]time.Time{} // damaged: the waiting begins anew
	}
	limit := c.Now.Add(-c.Grace)
	if !c.Open.IsZero() && c.Open.Before(limit) {
		limit = c.Open
	}
	now, err := s.stock(key)
	if err != nil {
		return err
	}
	waits, due := map[string]time.Time{}, false
	for id, path := range now.loose {
		at, known := since[id]
		if !known {
			at = c.Now.UTC()
		}
		waits[id] = at
		due = due || at.Before(limit)
		// git prune goes by this time. It decides itself what is out of reach, and keeps what younger objects lead to.
		if err := os.Chtimes(path, time.Time{}, at); err != nil {
			return err
		}
	}
	if due {
		if err := run("prune", "--expire="+limit.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
		if now, err = s.stock(key); err != nil {
			return err
		}
	}
	for id := range waits {
		if now.loose[id] == "" {
			delete(waits, id)
			done.Pruned++
		}
	}
	done.Waiting = len(waits)
	return durable.WriteJSON(file, waits)
}

// stock is what lies in the objects directory of a store.
type stock struct {
	packs int
	loose map[string]string // paths by id
	bytes int64
}

var loosePath = regexp.MustCompile(`^[0-9a-f]{2}/([0-9a-f]{38}|[0-9a-f]{62})$`)

func (s *Stores) stock(key string) (stock, error) {
	found := stock{loose: map[string]string{}}
	dir := filepath.Join(s.Dir(key), "objects")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		found.bytes += info.Size()
		switch rel := strings.TrimPrefix(path, dir+"/"); {
		case strings.HasSuffix(rel, ".pack"):
			found.packs++
		case loosePath.MatchString(rel):
			found.loose[strings.ReplaceAll(rel, "/", "")] = path
		}
		return nil
	})
	if err != nil {
		return found, fmt.Errorf("objects of store %s: %w", key, err)
	}
	return found, nil
}
