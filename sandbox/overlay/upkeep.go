package overlay

import (
	"context"
	"errors"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// keepRefs are refs of a store for the bases of it that are there: what git finds in their indexes must not be collected as garbage
// while no run is at one of them.
const keepRefs = "refs/sandpiper/bases/"

// keep sets the ref of a base that is there. It was set before the base was made, but the upkeep takes away one that has no base yet.
func (b *Backend) keep(ctx context.Context, key, commit string) error {
	return b.o.Stores.PutRef(ctx, key, keepRefs+commit, commit, "")
}

// Upkeep removes bases that nobody needs, as far as there are too many, makes the others outlast a power cut, and brings the refs
// that keep their objects in line with what is there.
func (b *Backend) Upkeep(ctx context.Context, exists func(sandbox.ID) bool) (removed []string, err error) {
	removed, err = b.bases.Trim(func(lease string) bool { return exists(sandbox.ID(lease)) })
	err = errors.Join(err, b.bases.Sync())
	keys, kerr := b.o.Stores.Keys()
	err = errors.Join(err, kerr)
	for _, key := range keys {
		err = errors.Join(err, b.alignRefs(ctx, key))
	}
	return removed, err
}

func (b *Backend) alignRefs(ctx context.Context, key string) error {
	refs, err := b.o.Stores.Refs(ctx, key, keepRefs)
	if err != nil {
		return err
	}
	for ref, at := range refs {
		if _, gerr := b.bases.Get(key, strings.TrimPrefix(ref, keepRefs)); gerr != nil {
			err = errors.Join(err, b.o.Stores.DeleteRef(ctx, key, ref, at))
		}
	}
	commits, lerr := b.bases.Commits(key)
	err = errors.Join(err, lerr)
	for _, commit := range commits {
		if refs[keepRefs+commit] == "" {
			err = errors.Join(err, b.keep(ctx, key, commit))
		}
	}
	return err
}
