package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// Sweep removes from a store what nobody needs since a time: refs of fetched heads that were not fetched again (their objects
// stay), lock files and half-written packs of a git that was killed, its crash reports. It says what it removed. git.ErrLocked:
// the store is in use.
func (s *Stores) Sweep(ctx context.Context, key string, before time.Time) (removed []string, err error) {
	if !keyForm.MatchString(key) {
		return nil, fmt.Errorf("store key %q: not of the form %s", key, keyForm)
	}
	lock, err := flock.Try(filepath.Join(s.dir, key+".lock"), flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return nil, fmt.Errorf("store %s: %w", key, git.ErrLocked)
	}
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	dir := s.Dir(key)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, rel := d.Name(), strings.TrimPrefix(path, dir+"/")
		stale := strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-") || strings.HasPrefix(name, "fast_import_crash_") ||
			strings.HasPrefix(rel, fetchPrefix)
		info, err := d.Info()
		if !stale || err != nil || info.ModTime().After(before) {
			return err
		}
		removed = append(removed, rel+" in store "+key)
		return os.Remove(path)
	})
	return removed, err
}
