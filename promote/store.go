package promote

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// Stored is the Repository of a remote and its store.
type Stored struct {
	Stores *gitstore.Stores
	Remote gitstore.Remote
}

var _ Repository = Stored{}

// Push is gitstore's.
func (s Stored) Push(ctx context.Context, commit, branch, expect string) error {
	return s.Stores.Push(ctx, s.Remote, commit, branch, expect)
}

// LsRemote is gitstore's.
func (s Stored) LsRemote(ctx context.Context, patterns ...string) (map[string]string, error) {
	return s.Stores.LsRemote(ctx, s.Remote, patterns...)
}

// ManifestRef is where the manifest of a run is kept in its store, as a blob.
func ManifestRef(run sandbox.ID) string { return "refs/sandpiper/" + string(run) + "/manifest" }

// KeepManifest writes the blob and moves the ref to it.
func (s Stored) KeepManifest(ctx context.Context, run sandbox.ID, data []byte) error {
	out, err := s.Stores.Run(ctx, s.Remote.Key, git.Call{Args: []string{"hash-object", "-w", "--stdin"}, Stdin: bytes.NewReader(data)})
	if err != nil {
		return fmt.Errorf("write blob: %w", err)
	}
	old, err := s.Stores.Ref(ctx, s.Remote.Key, ManifestRef(run))
	if err != nil {
		return err
	}
	return s.Stores.SetRef(ctx, s.Remote.Key, ManifestRef(run), strings.TrimSpace(string(out)), old)
}
