package gitstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// Symref is the key under which LsRemote tells where HEAD of the remote points, such as refs/heads/main.
const Symref = "symref HEAD"

// fetchPrefix is where fetched heads lie.
const fetchPrefix = "refs/sandpiper/fetch/"

// flight is a fetch that somebody waits for.
type flight struct {
	done chan struct{}
	err  error
}

// Fetch brings the refs in, as refspecs say: full names on both sides, +refs/heads/main:refs/sandpiper/fetch/x. Callers that
// ask for the same while a fetch waits for its turn share it; one that has begun could miss what they know of, and is not shared.
// Errors: git.ErrNoRef, git.ErrEmpty, git.ErrAuth, git.ErrNotFound, git.ErrNetwork.
func (s *Stores) Fetch(ctx context.Context, r Remote, refspecs ...string) error {
	for _, spec := range refspecs {
		src, dst, ok := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
		if !ok || src == "" || strings.HasPrefix(src, "-") || !strings.HasPrefix(dst, "refs/") {
			return fmt.Errorf("refspec %q: give the ref to fetch and where it goes, by full names", spec)
		}
	}
	name := r.Key + "\x00" + r.URL + "\x00" + strings.Join(refspecs, "\x00")
	for {
		s.mu.Lock()
		f, waiting := s.flights[name]
		if !waiting {
			f = &flight{done: make(chan struct{})}
			s.flights[name] = f
			s.mu.Unlock()
			f.err = s.fetch(ctx, r, refspecs, func() { s.forget(name, f) })
			close(f.done)
			return f.err
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return fmt.Errorf("fetch into store %s: %w", r.Key, ctx.Err())
		case <-f.done:
		}
		// The one that fetched gave up for a reason of its own: our turn.
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return f.err
		}
	}
}

func (s *Stores) forget(name string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[name] == f {
		delete(s.flights, name)
	}
}

// fetch waits for its turn, says that it begins, and fetches. The turn is a lock of its own, so that runs can go on writing to
// the store while a large fetch comes in; only one fetch at a time is made, as two would get the same objects twice.
func (s *Stores) fetch(ctx context.Context, r Remote, refspecs []string, begins func()) error {
	options := []string{"--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules",
		"--refmap=", "--force", "--update-shallow"}
	p := progressOf(ctx, r.Key)
	if p == nil {
		options = append(options, "--quiet")
	} else {
		options = append(options, "--progress")
	}
	call, err := remoteCall(r, append(options, "fetch"), refspecs...)
	if err != nil {
		begins()
		return err
	}
	turn, err := s.lock(ctx, r.Key, ".fetch", flock.Exclusive)
	begins()
	if err != nil {
		return err
	}
	defer turn.Unlock()
	call.Hold = append(call.Hold, turn.File())
	call.Args = slices.Insert(call.Args, 1, s.depth(ctx, r)...)
	if p != nil {
		call.Stderr = p
	}
	_, err = s.Run(ctx, r.Key, call)
	if err == nil {
		return nil
	}
	if errors.Is(err, git.ErrNoRef) {
		if refs, lerr := s.LsRemote(ctx, r); lerr == nil && len(refs) == 0 {
			return fmt.Errorf("fetch from %s: %w", r.URL, git.ErrEmpty)
		}
	}
	return fmt.Errorf("fetch from %s: %w", r.URL, err)
}

// FetchCommit brings one ref in, unless what it names was fetched before, and gives its commit. ref is a branch, a tag, a full ref
// name, HEAD, or a commit id. from is the full name of what was fetched.
func (s *Stores) FetchCommit(ctx context.Context, r Remote, ref string) (commit, from string, err error) {
	from, object := ref, ref
	if !commitForm.MatchString(ref) {
		if from, object, err = s.find(ctx, r, ref); err != nil {
			return "", "", err
		}
	}
	// The name is a digest: a branch a/b may come where a branch a was, and a ref cannot be a file and a directory.
	sum := sha256.Sum256([]byte(from))
	dst := fetchPrefix + hex.EncodeToString(sum[:10])
	if !s.holds(ctx, r.Key, dst, object) {
		if err := s.Fetch(ctx, r, "+"+from+":"+dst); err != nil {
			return "", "", err
		}
	}
	commit, err = s.Resolve(ctx, r.Key, dst)
	return commit, from, err
}

// holds says whether a ref of fetched heads is at an object, and makes it as young as one that was just fetched: Sweep goes by that.
func (s *Stores) holds(ctx context.Context, key, ref, object string) bool {
	at, err := s.Ref(ctx, key, ref)
	if err != nil || at != object {
		return false
	}
	now := time.Now()
	err = os.Chtimes(filepath.Join(s.Dir(key), ref), now, now)
	return err == nil || errors.Is(err, fs.ErrNotExist) // a line of packed-refs has no age
}

// find gives the full name of a ref as people write it, and what it points to.
func (s *Stores) find(ctx context.Context, r Remote, ref string) (name, object string, err error) {
	refs, err := s.LsRemote(ctx, r)
	if err != nil {
		return "", "", err
	}
	if len(refs) == 0 {
		return "", "", fmt.Errorf("%s: %w", r.URL, git.ErrEmpty)
	}
	for _, name := range []string{ref, "refs/" + ref, "refs/heads/" + ref, "refs/tags/" + ref} {
		if object, ok := refs[name]; ok && (name == "HEAD" || strings.HasPrefix(name, "refs/")) {
			return name, object, nil
		}
	}
	return "", "", fmt.Errorf("%q in %s: %w", ref, r.URL, git.ErrNoRef)
}

// LsRemote lists refs of the remote with their objects: all, or those that match one of the patterns (as git ls-remote takes
// them). Under Symref it tells the default branch. An empty repository has none.
func (s *Stores) LsRemote(ctx context.Context, r Remote, patterns ...string) (map[string]string, error) {
	call, err := remoteCall(r, []string{"--symref", "--quiet", "ls-remote"}, patterns...)
	if err != nil {
		return nil, err
	}
	out, err := s.git.Run(ctx, call)
	if err != nil {
		return nil, fmt.Errorf("list refs of %s: %w", r.URL, err)
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		value, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch target, sym := strings.CutPrefix(value, "ref: "); {
		case !ok:
		case sym && name == "HEAD":
			refs[Symref] = target
		case !sym && !strings.HasSuffix(name, "^{}"):
			refs[name] = value
		}
	}
	return refs, nil
}

// remoteCall builds a command that talks to the remote. options ends with the command itself.
func remoteCall(r Remote, options []string, args ...string) (git.Call, error) {
	n := len(options) - 1
	command := append([]string{options[n]}, options[:n]...)
	c := git.Call{Transport: git.HTTP, Credentials: r.Credentials}
	switch {
	case strings.HasPrefix(r.URL, "https://"), strings.HasPrefix(r.URL, "http://"):
		if u, err := url.Parse(r.URL); err != nil || u.User != nil {
			return c, fmt.Errorf("address of the repository: credentials do not belong into it")
		}
	case filepath.IsAbs(r.URL):
		// The repository may belong to another user, and to nobody whom we trust. upload-pack honours no hook and runs no
		// command of the repository's own configuration (git-config(1), uploadpack.packObjectsHook; SECURITY in git(1)).
		c.Transport, c.Credentials = git.Local, nil
		if command[0] != "push" {
			command = append(command, "--upload-pack=git -c 'safe.directory=*' upload-pack")
		}
	default:
		return c, fmt.Errorf("address %q: neither http(s)://... nor an absolute path", r.URL)
	}
	c.Args = append(append(command, "--", r.URL), args...)
	return c, nil
}
