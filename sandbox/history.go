package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/agentgit"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/gitname"
)

// Historian is implemented by backends whose sandboxes have a git directory of their own. GitDir is where what was written to it
// lies on the host; it is only read, and as data.
type Historian interface {
	GitDir(w Workspace) string
}

// AgentHistory is what was committed in a sandbox.
type AgentHistory struct {
	agentgit.History
	Result string `json:"result"` // what was collected of the files
	// Differs are the paths at which the result differs from the newest commit: what was not committed, what was committed and
	// is ignored or was changed by hand afterwards. Empty: the commits add up to the result.
	Differs []Change `json:"differs,omitempty"`
}

// AgentCommits brings the commits that were made in a sandbox into the store, under refs/sandpiper/<id>/agent/, after git has
// checked them, and says how they relate to what was collected. Nothing of them is promoted by this. A commit that git refuses is
// left out, with a finding. It works for discarded sandboxes too.
func (m *Manager) AgentCommits(ctx context.Context, id ID) (AgentHistory, error) {
	r, err := m.acquire(ctx, id)
	var gone *ErrState
	if errors.As(err, &gone) {
		return m.recordedCommits(ctx, id)
	}
	if err != nil {
		return AgentHistory{}, err
	}
	defer r.release()
	result, err := m.collect(ctx, r)
	if err != nil {
		return AgentHistory{}, err
	}
	busy, err := m.quiet(ctx, r)
	if err != nil {
		return AgentHistory{}, err
	}
	defer busy.Unlock()
	b, ok := r.backend.(Historian)
	if !ok {
		return AgentHistory{}, &ErrUnavailable{Backend: r.rec.Backend, Reason: "its sandboxes have no git directory of their own"}
	}
	if err := r.clearQuarantine(); err != nil {
		return AgentHistory{}, err
	}
	h, findings, err := m.bringIn(ctx, r.rec, b.GitDir(m.workspace(r)), result, r.dir)
	if err != nil {
		return h, err
	}
	r.note(findings)
	return h, m.save(r)
}

// clearQuarantine removes what a call that was killed has left. The lock is held.
func (r *run) clearQuarantine() error {
	left, err := filepath.Glob(filepath.Join(r.dir, "quarantine-*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// recordedCommits takes the git directory from what Discard recorded.
func (m *Manager) recordedCommits(ctx context.Context, id ID) (AgentHistory, error) {
	rec, err := m.Record(id)
	if err != nil {
		return AgentHistory{}, err
	}
	commit, err := m.recorded(ctx, rec)
	if err != nil {
		return AgentHistory{}, err
	}
	dir, err := os.MkdirTemp(m.archived(id), "recover-")
	if err != nil {
		return AgentHistory{}, err
	}
	defer os.RemoveAll(dir)
	files := filepath.Join(dir, "git")
	err = m.materialise(ctx, rec.Source.Key, commit+":"+gitname.Escape(".git"), files)
	if errors.Is(err, fs.ErrNotExist) { // nothing was changed in it
		err = os.Mkdir(files, 0o700)
	}
	if err != nil {
		return AgentHistory{}, fmt.Errorf("git directory of %s: %w", id, err)
	}
	result := rec.Result
	if result == "" {
		result = commit
	}
	h, _, err := m.bringIn(ctx, rec, files, result, dir)
	return h, err
}

func (m *Manager) bringIn(ctx context.Context, rec Record, gitDir, result, scratch string) (AgentHistory, []Finding, error) {
	key, base := rec.Source.Key, rec.Source.Base
	h := AgentHistory{Result: result}
	var err error
	h.History, err = agentgit.Import(ctx, agentgit.Options{Store: m.cfg.Stores, Key: key, Base: base, Dir: gitDir, Scratch: scratch,
		Ref: strings.TrimSuffix(Ref(rec.ID, "agent"), "/")})
	if err != nil {
		return h, nil, fmt.Errorf("commits of sandbox %s: %w", rec.ID, err)
	}
	var findings []Finding
	for _, why := range h.Refused {
		findings = append(findings, Finding{Run: rec.ID, Time: m.cfg.Now().UTC(), Kind: "git.object", Severity: "medium", Observer: "host",
			Evidence: why, Outcome: "contained"})
	}
	if h.Head != result {
		if h.Differs, err = m.between(ctx, key, h.Head, result, false); err != nil {
			return h, findings, err
		}
	}
	return h, findings, nil
}
