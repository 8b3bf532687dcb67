package gitstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

var commitForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Resolve gives the commit that rev (a ref of the store or an id) names, or git.ErrNoRef.
func (s *Stores) Resolve(ctx context.Context, key, rev string) (string, error) {
	if rev == "" || strings.HasPrefix(rev, "-") {
		return "", fmt.Errorf("resolve %q: %w", rev, git.ErrNoRef)
	}
	out, err := s.Read(ctx, key, git.Call{Args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", rev + "^{commit}"}})
	if err != nil {
		// --quiet: exit 1 and not a word when there is no such thing
		if e, ok := err.(*git.Error); ok && (e.Exit == 1 || e.Exit == 128) {
			return "", fmt.Errorf("resolve %s in store %s: %w", rev, key, git.ErrNoRef)
		}
		return "", fmt.Errorf("resolve %s: %w", rev, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Ref gives the object that a full ref name points to; "" when there is no such ref.
func (s *Stores) Ref(ctx context.Context, key, ref string) (string, error) {
	refs, err := s.Refs(ctx, key, ref)
	return refs[ref], err
}

// Refs lists the refs at or below prefix (full components) with the objects that they point to.
func (s *Stores) Refs(ctx context.Context, key, prefix string) (map[string]string, error) {
	out, err := s.Read(ctx, key, git.Call{Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", strings.TrimSuffix(prefix, "/")}})
	if err != nil {
		return nil, fmt.Errorf("refs of store %s: %w", key, err)
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			refs[name] = id
		}
	}
	return refs, nil
}

// SetRef moves a ref from old to new: compare and swap. An empty old means that the ref must not exist. A ref that is at new
// already is as it should be. git.ErrStale says that it is somewhere else.
func (s *Stores) SetRef(ctx context.Context, key, ref, new, old string) error {
	if !commitForm.MatchString(new) || old != "" && !commitForm.MatchString(old) {
		return fmt.Errorf("set %s: %q or %q is not an object id", ref, new, old)
	}
	if old == "" {
		old = strings.Repeat("0", len(new))
	}
	return s.update(ctx, key, ref, "update "+ref+"\x00"+new+"\x00"+old+"\x00", new)
}

// MakeRef makes a new ref for an object that is known to be in the store, without the git process that SetRef takes: what
// git does then (files-backend.c), under the same lock file. A ref that is at id already is as it should be.
func (s *Stores) MakeRef(ctx context.Context, key, ref, id string) error {
	if !commitForm.MatchString(id) || !strings.HasPrefix(ref, "refs/") {
		return fmt.Errorf("make ref %q at %q: not such names", ref, id)
	}
	made, err := s.makeLoose(ctx, key, ref, id)
	if made || ctx.Err() != nil {
		return err
	}
	return s.SetRef(ctx, key, ref, id, "") // it knows what to do about what lies in the way
}

func (s *Stores) makeLoose(ctx context.Context, key, ref, id string) (bool, error) {
	l, err := s.lock(ctx, key, ".lock", flock.Shared)
	if err != nil {
		return false, err
	}
	defer l.Unlock()
	path := filepath.Join(s.Dir(key), ref)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	f, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false, err
	}
	_, err = f.WriteString(id + "\n")
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	packed, perr := os.ReadFile(filepath.Join(s.Dir(key), "packed-refs"))
	_, exists := os.Lstat(path)
	free := errors.Is(exists, fs.ErrNotExist) && (errors.Is(perr, fs.ErrNotExist) || perr == nil && !bytes.Contains(packed, []byte(" "+ref+"\n")))
	if err == nil && free {
		if err = os.Rename(path+".lock", path); err == nil {
			return true, nil
		}
	}
	return false, errors.Join(err, os.Remove(path+".lock"))
}

// DeleteRef deletes a ref that is at old. A ref that is gone already is as it should be.
func (s *Stores) DeleteRef(ctx context.Context, key, ref, old string) error {
	if !commitForm.MatchString(old) {
		return fmt.Errorf("delete %s: %q is not an object id", ref, old)
	}
	return s.update(ctx, key, ref, "delete "+ref+"\x00"+old+"\x00", "")
}

// update feeds one command to update-ref. When that fails and the ref is at want, somebody has done it before us.
func (s *Stores) update(ctx context.Context, key, ref, command, want string) error {
	if !strings.HasPrefix(ref, "refs/") || strings.ContainsAny(ref, "\x00\n ") {
		return fmt.Errorf("ref %q: not a full name", ref)
	}
	var err error
	for range 2 { // the second time without the lock file of a killed git, which Run has cleared away
		call := git.Call{Args: []string{"update-ref", "--no-deref", "--stdin", "-z"}, Stdin: strings.NewReader(command)}
		if _, err = s.Run(ctx, key, call); err == nil {
			return nil
		}
		at, rerr := s.Ref(ctx, key, ref)
		if rerr == nil && at == want {
			return nil
		}
		if !errors.Is(err, git.ErrLocked) {
			break
		}
	}
	return fmt.Errorf("update %s in store %s: %w", ref, key, err)
}
