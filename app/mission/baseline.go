package mission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/app/tree"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// baselineHolds is how long a check is not run again on a base: what it reads from the network, as lists of advisories, changes by the day.
const baselineHolds = 24 * time.Hour

// baseSandbox is where the checks that failed in a sandbox are run once more, on the base.
func baseSandbox(failedIn sandbox.ID) sandbox.ID { return failedIn + "-base" }

// compare says of the checks that failed what they do on the base. They are run there if nobody has done so today.
func (e *Engine) compare(ctx context.Context, m *store.Mission, results []checks.Result, base, branch string, failedIn sandbox.ID) ([]checks.Result, error) {
	suspects := checks.Suspects(results)
	if len(suspects) == 0 || base == "" {
		return results, nil
	}
	leave, err := e.alone(ctx, storeKey(m.RepositoryID)+base)
	if err != nil {
		return nil, err
	}
	defer leave()
	committed, err := e.committedAt(ctx, m, base)
	if err != nil {
		return nil, err
	}
	keys, err := e.baselineKeys(ctx, m, suspects, branch)
	if err != nil {
		return nil, err
	}
	seen, older := map[string][]checks.Seen{}, map[string][]checks.Seen{}
	var unknown []checks.Check
	for _, c := range suspects {
		known, now, err := e.seenBefore(ctx, m, keys[c.Name], base, committed)
		if err != nil {
			return nil, err
		}
		if now {
			seen[c.Name] = known
		} else {
			unknown, older[c.Name] = append(unknown, c), known
		}
	}
	onBase, err := e.runOnBase(ctx, m, unknown, base, branch, failedIn)
	if err != nil {
		return nil, err
	}
	for _, r := range onBase {
		s, ok := checks.See(r, base, committed)
		if !ok {
			continue
		}
		seen[r.Name] = append([]checks.Seen{s}, older[r.Name]...)
		b := store.Baseline{Repository: m.RepositoryID, Key: keys[r.Name], Commit: base, CommittedAt: committed, At: e.Now(), Seen: marshal(s)}
		if err := e.Store.SaveBaseline(ctx, b); err != nil {
			return nil, err
		}
	}
	return checks.Compare(results, branch, seen), nil
}

// alone waits until no other mission of this process runs checks on a base, whose results it then finds.
func (e *Engine) alone(ctx context.Context, base string) (leave func(), err error) {
	for {
		e.mu.Lock()
		other := e.bases[base]
		if other == nil {
			ours := make(chan struct{})
			e.bases[base] = ours
			e.mu.Unlock()
			return func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				delete(e.bases, base)
				close(ours)
			}, nil
		}
		e.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// seenBefore reads what a check did on the base and on older commits, newest first; now says whether the base is among them.
func (e *Engine) seenBefore(ctx context.Context, m *store.Mission, key, base string, committed time.Time) (known []checks.Seen, now bool, err error) {
	list, err := e.Store.Baselines(ctx, m.RepositoryID, key, committed)
	if err != nil {
		return nil, false, err
	}
	for _, b := range list {
		var s checks.Seen
		if err := json.Unmarshal([]byte(b.Seen), &s); err != nil {
			return nil, false, fmt.Errorf("baseline of %.7s: %w", b.Commit, err)
		}
		switch {
		case b.Commit != base:
			known = append(known, s)
		case e.Now().Sub(b.At) < baselineHolds:
			known, now = append([]checks.Seen{s}, known...), true
		}
	}
	return known, now, nil
}

// runOnBase runs checks on the base, in a sandbox of its own. Where the setup does not go through on the base, as when the change mends
// it, nothing is known of it.
func (e *Engine) runOnBase(ctx context.Context, m *store.Mission, list []checks.Check, base, branch string, failedIn sandbox.ID) ([]checks.Result, error) {
	if len(list) == 0 {
		return nil, nil
	}
	id, err := e.makeSandbox(ctx, m, string(baseSandbox(failedIn)), base, branch, sandbox.ID(m.Run))
	if err != nil {
		return nil, err
	}
	if err := e.setup(ctx, m, id, base); err != nil {
		if ended := (*outcome.Ended)(nil); errors.As(err, &ended) && ended.Outcome == outcome.BlockedByPolicy {
			e.Log.Warn("the base cannot be compared with", "mission", m.ID, "base", base, "error", err)
			return nil, nil
		}
		return nil, err
	}
	files, err := tree.Open(e.Git.Dir(storeKey(m.RepositoryID)), base)
	if err != nil {
		return nil, err
	}
	return checks.Run(ctx, e.Sandboxes, id, list, checks.Options{Tree: files, Redact: e.Redact, Now: e.Now, Network: networkOf(m)})
}

// baselineKeys name each check, by its name, with all that its result hangs on beside the commit.
func (e *Engine) baselineKeys(ctx context.Context, m *store.Mission, list []checks.Check, branch string) (map[string]string, error) {
	p, err := policyOf(m)
	if err != nil {
		return nil, err
	}
	backend, err := e.backendOf(ctx, m.Run)
	if err != nil {
		return nil, err
	}
	keys := map[string]string{}
	for _, c := range list {
		sum := sha256.Sum256([]byte(marshal([]any{"v1", branch, c, backend, p.Network, p.Setup})))
		keys[c.Name] = hex.EncodeToString(sum[:20])
	}
	return keys, nil
}

// committedAt is the time that a commit bears.
func (e *Engine) committedAt(ctx context.Context, m *store.Mission, commit string) (time.Time, error) {
	out, err := e.Git.Read(ctx, storeKey(m.RepositoryID), git.Call{Args: []string{"show", "-s", "--format=%ct", commit}})
	if err != nil {
		return time.Time{}, fmt.Errorf("time of %.7s: %w", commit, err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("time of %.7s: %w", commit, err)
	}
	return time.Unix(seconds, 0), nil
}
