package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// depth gives the options that bound a fetch: only the first one into a store, because a later one with a depth would cut off
// history that is there. The turn to fetch is held.
func (s *Stores) depth(ctx context.Context, r Remote) []string {
	if !r.Shallow || filepath.IsAbs(r.URL) { // from this machine history costs nothing to speak of
		return nil
	}
	if refs, err := s.Refs(ctx, r.Key, "refs"); err != nil || len(refs) > 0 {
		return nil
	}
	return []string{"--depth=1"}
}

// Shallow says whether history is missing in a store.
func (s *Stores) Shallow(key string) bool {
	info, err := os.Stat(filepath.Join(s.Dir(key), "shallow"))
	return err == nil && info.Size() > 0
}

// Deepen brings in the history that a shallow first fetch has left out, of all refs that were fetched. Sandboxes that exist go on
// as they are: they know their base as a commit without parents, and the objects that they read stay. A remote that is shallow
// itself has no more to give, which is no error.
func (s *Stores) Deepen(ctx context.Context, r Remote) error {
	if !s.Shallow(r.Key) {
		return nil
	}
	turn, err := s.lock(ctx, r.Key, ".fetch", flock.Exclusive)
	if err != nil {
		return err
	}
	defer turn.Unlock()
	ends, err := os.ReadFile(filepath.Join(s.Dir(r.Key), "shallow"))
	if errors.Is(err, fs.ErrNotExist) { // somebody else did it meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("deepen store %s: %w", r.Key, err)
	}
	// What ends without parents is asked for by its id: a ref may have moved away from it.
	call, err := remoteCall(r, []string{"--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules", "--refmap=",
		"--update-shallow", "--quiet", "--unshallow", "fetch"}, strings.Fields(string(ends))...)
	if err != nil {
		return err
	}
	call.Hold = append(call.Hold, turn.File())
	if _, err := s.Run(ctx, r.Key, call); err != nil {
		return fmt.Errorf("deepen store %s: %w", r.Key, err)
	}
	return nil
}
