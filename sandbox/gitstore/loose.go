package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// Refs are read and, for objects that are known to be there, written without a git process, which takes longer than all else that a
// run needs of its store. They are files, or lines of packed-refs (gitrepository-layout(5)); a store has no other kind, as ensure
// makes it.

// Refs lists the refs at or below prefix (full components) with the objects that they point to. Like git it passes over what is
// damaged.
func (s *Stores) Refs(ctx context.Context, key, prefix string) (map[string]string, error) {
	dir := s.Dir(key)
	if _, err := os.Stat(dir); err != nil || !keyForm.MatchString(key) {
		return nil, fmt.Errorf("refs of store %s: %w", key, git.ErrNotFound)
	}
	prefix = strings.TrimSuffix(prefix, "/")
	refs := map[string]string{}
	// The files first: who packs refs writes the lines before it removes the files.
	err := filepath.WalkDir(filepath.Join(dir, prefix), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".lock") {
			return errors.Join(err, ctx.Err())
		}
		id, err := readRef(path)
		if commitForm.MatchString(id) {
			refs[strings.TrimPrefix(path, dir+"/")] = id
		}
		return err
	})
	packed, perr := packedRefs(dir)
	if err = errors.Join(err, perr); err != nil {
		return nil, fmt.Errorf("refs of store %s: %w", key, err)
	}
	for name, id := range packed {
		if _, loose := refs[name]; !loose && (name == prefix || strings.HasPrefix(name, prefix+"/")) {
			refs[name] = id
		}
	}
	return refs, nil
}

// readRef gives what the file of a ref holds; "" when there is none.
func readRef(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return strings.TrimSpace(string(text)), err
}

// packedRefs reads "id name" lines. Those that begin with # say how the file was made, those with ^ what a tag points to.
func packedRefs(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && commitForm.MatchString(id) {
			refs[name] = id
		}
	}
	return refs, err
}

func validRef(name string) bool { return strings.HasPrefix(name, "refs/") && filepath.IsLocal(name) }

// swap does what git does to the file of a ref (files-backend.c), under the same lock file: it sets it to new, or removes it, if
// it is at old; one of them may be "" for no ref. It leaves to git what it does not do: lines of packed-refs, and all that is not
// as it should be.
func (s *Stores) swap(ctx context.Context, key, ref, new, old string) (done bool, err error) {
	if !validRef(ref) {
		return false, fmt.Errorf("ref %q: not a full name", ref)
	}
	l, err := s.lock(ctx, key, ".lock", flock.Shared)
	if err != nil {
		return false, err
	}
	defer l.Unlock()
	if packed, err := s.packed(key, ref); packed || err != nil {
		return false, err
	}
	path := filepath.Join(s.Dir(key), ref)
	if at, err := readRef(path); at == new { // as it should be
		return err == nil, err
	}
	if new != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return false, err
		}
	}
	f, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false, err
	}
	done, err = replaceRef(f, path, new, old)
	if done && new != "" {
		return true, err
	}
	err = errors.Join(err, os.Remove(path+".lock"))
	refs := filepath.Join(s.Dir(key), "refs")
	for dir := filepath.Dir(path); filepath.Dir(dir) != refs && os.Remove(dir) == nil; { // as far up as they are empty
		dir = filepath.Dir(dir)
	}
	return done, err
}

// packed says whether packed-refs has a line for a ref, or for one whose name would be a directory of it, or it one of that.
func (s *Stores) packed(key, ref string) (bool, error) {
	lines, err := packedRefs(s.Dir(key))
	for name := range lines {
		if name == ref || strings.HasPrefix(name, ref+"/") || strings.HasPrefix(ref, name+"/") {
			return true, err
		}
	}
	return false, err
}

// share makes the file of a ref a second name of that of another one, if that holds the object and the ref is not there.
func (s *Stores) share(ctx context.Context, key, ref, object, with string) (done bool, err error) {
	if !validRef(ref) || !validRef(with) {
		return false, fmt.Errorf("ref %q or %q: not a full name", ref, with)
	}
	l, err := s.lock(ctx, key, ".lock", flock.Shared)
	if err != nil {
		return false, err
	}
	defer l.Unlock()
	if packed, err := s.packed(key, ref); packed || err != nil {
		return false, err
	}
	from, to := filepath.Join(s.Dir(key), with), filepath.Join(s.Dir(key), ref)
	if at, err := readRef(from); at != object || err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return false, err
	}
	return os.Link(from, to) == nil, nil // else it is there, or the file has as many names as it can have
}

// replaceRef closes the lock file of a ref and renames it to be the ref, or removes the ref.
func replaceRef(lock *os.File, path, new, old string) (bool, error) {
	at, err := readRef(path)
	if err == nil && at == old && new != "" {
		_, err = lock.WriteString(new + "\n")
		err = errors.Join(err, lock.Sync())
	}
	if err = errors.Join(err, lock.Close()); err != nil || at != old {
		return false, err
	}
	if new == "" {
		err = os.Remove(path)
	} else {
		err = os.Rename(lock.Name(), path)
	}
	return err == nil, err
}
