package bases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// leases counts who needs a base.
func (b *Bases) leases(key, commit string) int {
	entries, _ := os.ReadDir(filepath.Join(b.at(key, commit), "leases"))
	return len(entries)
}

// held is a base that is there.
type held struct {
	key, commit string
	bytes       int64
	used        time.Time
}

// list gives all complete bases, and what a crash has left of others.
func (b *Bases) list() (bases []held, broken []held, err error) {
	repos, err := os.ReadDir(b.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	for _, repo := range repos {
		if !repo.IsDir() {
			continue
		}
		entries, rerr := os.ReadDir(filepath.Join(b.o.Dir, repo.Name()))
		if !errors.Is(rerr, fs.ErrNotExist) { // gone since we looked, as what tries overlays beside the bases is
			err = errors.Join(err, rerr)
		}
		for _, e := range entries {
			commit, half := strings.CutSuffix(e.Name(), ".new")
			if !e.IsDir() || !commitForm.MatchString(commit) {
				continue
			}
			h := held{key: repo.Name(), commit: commit}
			base, rerr := b.read(h.key, commit)
			if half || rerr != nil {
				broken = append(broken, h)
				continue
			}
			h.bytes = base.Bytes
			if info, err := os.Stat(filepath.Join(b.at(h.key, commit), "leases")); err == nil {
				h.used = info.ModTime()
			}
			bases = append(bases, h)
		}
	}
	return bases, broken, err
}

// Commits lists the bases of one repository that are there.
func (b *Bases) Commits(key string) (commits []string, err error) {
	all, _, err := b.list()
	for _, h := range all {
		if h.key == key {
			commits = append(commits, h.commit)
		}
	}
	return commits, err
}

// Trim removes what crashes have left, leases of those who live no more (alive nil: none is), and, while all bases together are
// larger than the budget, those that nobody needs, the least recently used first. It says what it removed.
func (b *Bases) Trim(alive func(lease string) bool) (removed []string, err error) {
	bases, broken, err := b.list()
	if alive != nil {
		for _, h := range bases {
			err = errors.Join(err, b.dropLeases(h, alive))
		}
	}
	for _, h := range broken {
		gone, rerr := b.remove(h, true)
		err = errors.Join(err, rerr)
		if gone {
			removed = append(removed, "half-made base "+h.commit+" of "+h.key)
		}
	}
	var total int64
	for _, h := range bases {
		total += h.bytes
	}
	slices.SortFunc(bases, func(a, b held) int { return a.used.Compare(b.used) })
	for _, h := range bases {
		if total <= b.o.Budget {
			break
		}
		gone, rerr := b.remove(h, false)
		err = errors.Join(err, rerr)
		if gone {
			total -= h.bytes
			removed = append(removed, "base "+h.commit+" of "+h.key)
		}
	}
	return removed, err
}

// dropLeases removes those of runs that are gone, if they are older than the time in which one may take a lease and then begin.
func (b *Bases) dropLeases(h held, alive func(string) bool) error {
	dir := filepath.Join(b.at(h.key, h.commit), "leases")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("leases of base %s: %w", h.commit, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || b.o.Now().Sub(info.ModTime()) < time.Minute {
			continue
		}
		if above, ok := strings.CutPrefix(e.Name(), layerLease); ok {
			if _, err := b.read(h.key, above); err == nil {
				continue
			}
		} else if alive(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// layerLease begins the names of leases that bases have on those below them.
const layerLease = "base-"

// remove removes a base that nobody needs, or works on. Broken ones have no leases that count but those of a base that the
// disk has lost a part of: then runs need what is there.
func (b *Bases) remove(h held, broken bool) (bool, error) {
	path := b.lockOf(h.key, h.commit)
	lock, err := flock.Try(path, flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	dir := b.at(h.key, h.commit)
	if err := os.RemoveAll(dir + ".new"); err != nil {
		return false, err
	}
	base, err := b.read(h.key, h.commit)
	if broken && err == nil { // it was made in the meantime
		return true, nil
	}
	if b.leases(h.key, h.commit) > 0 {
		return false, nil
	}
	// First what says that it is complete.
	if err := os.Remove(filepath.Join(dir, "base.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return false, err
	}
	if len(base.Layers) > 1 {
		if err := b.Give(h.key, base.Layers[1], layerLease+h.commit); err != nil {
			return true, err
		}
	}
	return true, os.Remove(path)
}

// Sync makes the disk have all bases, so that they can be used after a power cut. It takes as long as the disk needs, so that
// builds leave it to whoever has the time.
func (b *Bases) Sync() error {
	bases, _, err := b.list()
	bases = slices.DeleteFunc(bases, func(h held) bool {
		_, err := os.Stat(filepath.Join(b.at(h.key, h.commit), "synced"))
		return err == nil
	})
	if err != nil || len(bases) == 0 {
		return err
	}
	f, err := os.Open(b.o.Dir)
	if err != nil {
		return fmt.Errorf("sync the bases: %w", err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync the bases: %w", err)
	}
	for _, h := range bases {
		serr := durable.Write(filepath.Join(b.at(h.key, h.commit), "synced"), nil)
		if serr != nil && !errors.Is(serr, fs.ErrNotExist) { // else it was removed
			err = errors.Join(err, serr)
		}
	}
	return err
}
