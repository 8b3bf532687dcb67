package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// Quieter is implemented by backends in which something may live for a moment after a supervisor was killed. Quiet returns
// when nothing does.
type Quieter interface {
	Quiet(ctx context.Context, w Workspace) error
}

// quiet takes the whole sandbox: no command lives in it while the lock is held. ErrBusy when one does.
func (m *Manager) quiet(ctx context.Context, r *run) (*flock.Lock, error) {
	busy, err := flock.Try(filepath.Join(r.dir, "busy"), flock.Exclusive)
	if errors.Is(err, flock.ErrHeld) {
		return nil, fmt.Errorf("sandbox %s: %w", r.id, ErrBusy)
	}
	if err != nil {
		return nil, err
	}
	if q, ok := r.backend.(Quieter); ok && r.lost() {
		if err := q.Quiet(ctx, m.workspace(r)); err != nil {
			busy.Unlock()
			return nil, err
		}
	}
	return busy, nil
}

// lost says whether some command has begun and left no exit status. Nothing runs any more.
func (r *run) lost() bool {
	begun, err := filepath.Glob(filepath.Join(r.dir, "exec", "*", "began.json"))
	if err != nil {
		return true
	}
	return slices.ContainsFunc(begun, func(b string) bool { return !exists(filepath.Join(filepath.Dir(b), "exit.json")) })
}

// CollectDiff makes a commit of what differs from the base, keeps it under refs/sandpiper/<id>/result and returns it: the base
// itself when nothing differs. ErrBusy while a command runs.
func (m *Manager) CollectDiff(ctx context.Context, id ID) (string, error) {
	r, err := m.acquire(ctx, id)
	if err != nil {
		return "", err
	}
	defer r.release()
	return m.collect(ctx, r)
}

func (m *Manager) collect(ctx context.Context, r *run) (string, error) {
	if !r.rec.Made {
		return "", fmt.Errorf("sandbox %s: its workspace was not finished, create it again", r.id)
	}
	busy, err := m.quiet(ctx, r)
	if err != nil {
		return "", err
	}
	defer busy.Unlock()
	commit, findings, err := r.backend.Collect(ctx, m.workspace(r), false)
	if err != nil {
		return "", fmt.Errorf("sandbox %s: %w", r.id, err)
	}
	if err := m.moveRef(ctx, r.rec.Source.Key, Ref(r.id, "result"), commit); err != nil {
		return "", fmt.Errorf("sandbox %s: keep the result: %w", r.id, err)
	}
	// What was verified or promoted stays so as long as it is what was collected then.
	if settled := r.rec.State == Verified || r.rec.State == Promoted; !settled || commit != r.rec.Result {
		r.rec.State = Dirty
		if commit == r.rec.Source.Base {
			r.rec.State = Created
		}
	}
	r.rec.Result = commit
	r.note(findings)
	if err := m.save(r); err != nil {
		return "", err
	}
	m.tell(r.id, "collected", commit, findings)
	return commit, nil
}

// result gives the collected commit, collecting if a command ran since.
func (m *Manager) result(ctx context.Context, r *run) (string, error) {
	if r.rec.Result != "" {
		return r.rec.Result, nil
	}
	return m.collect(ctx, r)
}

// Verified says that the checks have passed on what was collected last.
func (m *Manager) Verified(ctx context.Context, id ID) error {
	r, err := m.acquire(ctx, id)
	if err != nil {
		return err
	}
	defer r.release()
	if r.rec.Result == "" || r.rec.State == Running {
		return &ErrState{ID: id, Is: r.rec.State, Want: "collected, with no command since"}
	}
	if r.rec.State == Promoted || r.rec.State == Verified {
		return nil
	}
	r.rec.State = Verified
	if err := m.save(r); err != nil {
		return err
	}
	m.tell(id, "verified", r.rec.Result, nil)
	return nil
}

// ListChanges lists what differs from the base in what was collected last; it collects first if a command ran since.
func (m *Manager) ListChanges(ctx context.Context, id ID) ([]Change, error) {
	key, base, result, err := m.collected(ctx, id)
	if err != nil {
		return nil, err
	}
	return m.between(ctx, key, base, result, true)
}

// Diff writes the same as a patch that git apply takes, binary files included. A Selection counts the hunks of a file as here.
func (m *Manager) Diff(ctx context.Context, id ID, w io.Writer) error {
	key, base, result, err := m.collected(ctx, id)
	if err != nil {
		return err
	}
	args := append(append([]string{"diff-tree"}, diffForm...), "--binary", "-M", base, result)
	_, err = m.cfg.Stores.Read(ctx, key, git.Call{Stdout: w, Args: args})
	return err
}

// collected gives the two commits. A discarded sandbox has those that were kept.
func (m *Manager) collected(ctx context.Context, id ID) (key, base, result string, err error) {
	return m.ends(ctx, id, func(*run) error { return nil })
}

// settled is collected for a sandbox in which nothing runs.
func (m *Manager) settled(ctx context.Context, id ID) (key, base, result string, err error) {
	return m.ends(ctx, id, func(r *run) error {
		busy, err := m.quiet(ctx, r)
		if err == nil {
			busy.Unlock() // no command can begin while the lock of the sandbox is held
		}
		return err
	})
}

// ends gives the two commits of a sandbox if that is allowed in its state.
func (m *Manager) ends(ctx context.Context, id ID, allowed func(*run) error) (key, base, result string, err error) {
	r, err := m.acquire(ctx, id)
	var gone *ErrState
	if errors.As(err, &gone) {
		rec, err := m.Record(id)
		if err == nil && rec.Result == "" {
			err = gone
		}
		return rec.Source.Key, rec.Source.Base, rec.Result, err
	}
	if err != nil {
		return "", "", "", err
	}
	defer r.release()
	if err := allowed(r); err != nil {
		return "", "", "", err
	}
	result, err = m.result(ctx, r)
	return r.rec.Source.Key, r.rec.Source.Base, result, err
}

// between lists the changes from one commit to another. Both are in the store: nothing of a workspace is read.
func (m *Manager) between(ctx context.Context, key, from, to string, renames bool) ([]Change, error) {
	find := "--no-renames"
	if renames {
		find = "-M"
	}
	out, err := m.cfg.Stores.Read(ctx, key, git.Call{Args: []string{"diff-tree", "-r", "-z", "--raw", "--numstat", "--no-abbrev",
		"--ignore-submodules=none", "--no-ext-diff", "--no-textconv", find, from, to}})
	if err != nil {
		return nil, fmt.Errorf("list changes: %w", err)
	}
	changes, err := parseDiff(string(out))
	if err != nil {
		return nil, err
	}
	return changes, m.sizes(key, changes)
}

var kinds = map[byte]Kind{'A': Added, 'M': Modified, 'D': Deleted, 'R': Renamed, 'T': TypeChanged}

// parseDiff reads diff-tree -z --raw --numstat: first all records ":old new oldid newid X\0path\0[path\0]", then all of
// "added\tremoved\tpath\0", where a rename has an empty path followed by "\0from\0to\0".
func parseDiff(out string) ([]Change, error) {
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	bad := func(i int) error { return fmt.Errorf("list changes: %.200q from git", fields[i]) }
	var changes []Change
	byPath := map[string]int{}
	i := 0
	for ; i+1 < len(fields) && strings.HasPrefix(fields[i], ":"); i += 2 {
		h := strings.Fields(fields[i][1:])
		if len(h) != 5 || kinds[h[4][0]] == "" {
			return nil, bad(i)
		}
		c := Change{Path: fields[i+1], Kind: kinds[h[4][0]], OldMode: absent(h[0]), NewMode: absent(h[1]), OldID: absent(h[2]), NewID: absent(h[3])}
		if c.Kind == Renamed && i+2 < len(fields) {
			c.From, c.Path = c.Path, fields[i+2]
			i++
		}
		byPath[c.Path] = len(changes)
		changes = append(changes, c)
	}
	for ; i < len(fields) && fields[i] != ""; i++ {
		n := strings.SplitN(fields[i], "\t", 3)
		if len(n) != 3 {
			return nil, bad(i)
		}
		name := n[2]
		if name == "" && i+2 < len(fields) {
			name = fields[i+2]
			i += 2
		}
		at, ok := byPath[name]
		if !ok {
			return nil, bad(i)
		}
		changes[at].Added, changes[at].Removed = lines(n[0]), lines(n[1])
	}
	return changes, nil
}

// absent turns git's zeros for "no file" into nothing.
func absent(s string) string {
	if strings.Trim(s, "0") == "" {
		return ""
	}
	return s
}

func lines(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil { // "-": a binary file
		return -1
	}
	return n
}

// sizes fills in the sizes of the new contents.
func (m *Manager) sizes(key string, changes []Change) (err error) {
	store := objects.Open(m.cfg.Stores.Dir(key))
	defer store.Close()
	for i, c := range changes {
		if c.NewID == "" || c.NewMode == objects.ModeRepo {
			continue
		}
		if changes[i].Size, err = store.Size(c.NewID); err != nil {
			return fmt.Errorf("sizes of the changes: %w", err)
		}
	}
	return nil
}
