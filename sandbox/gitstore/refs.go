package gitstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
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
		if e := (*git.Error)(nil); errors.As(err, &e) && (e.Exit == 1 || e.Exit == 128) {
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

// PutRef is SetRef for an object that is known to be in the store, without the git process that SetRef takes.
func (s *Stores) PutRef(ctx context.Context, key, ref, new, old string) error {
	if !commitForm.MatchString(new) {
		return fmt.Errorf("set %s: %q is not an object id", ref, new)
	}
	if done, err := s.swap(ctx, key, ref, new, old); done || ctx.Err() != nil {
		return err
	}
	return s.SetRef(ctx, key, ref, new, old) // it knows what to do about what lies in the way
}

// ShareRef is PutRef for a ref that is not there yet, next to another one, with, for the same object, which it makes first if need be.
// The two are names of one file (link(2)): git replaces the files of refs, and never writes into one. So only the first of many waits
// for the disk, as it must: a power cut can leave a file that was not waited for empty, which is a broken ref to git, and no fetch
// or repack works any more. The further name alone is there after a power cut or is not.
func (s *Stores) ShareRef(ctx context.Context, key, ref, object, with string) error {
	if !commitForm.MatchString(object) {
		return fmt.Errorf("set %s: %q is not an object id", ref, object)
	}
	done, err := s.share(ctx, key, ref, object, with)
	if !done && err == nil {
		if err = s.PutRef(ctx, key, with, object, ""); err == nil {
			done, err = s.share(ctx, key, ref, object, with)
		}
	}
	if done || ctx.Err() != nil {
		return err
	}
	return s.PutRef(ctx, key, ref, object, "")
}

// DeleteRef deletes a ref that is at old. A ref that is gone already is as it should be.
func (s *Stores) DeleteRef(ctx context.Context, key, ref, old string) error {
	if !commitForm.MatchString(old) {
		return fmt.Errorf("delete %s: %q is not an object id", ref, old)
	}
	if done, err := s.swap(ctx, key, ref, "", old); done || ctx.Err() != nil {
		return err
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
