package mission

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// setupSandbox is where the setup for a sandbox is run, if nobody has run it before.
func setupSandbox(id sandbox.ID) sandbox.ID { return id + "-setup" }

// setup lays into a fresh sandbox what the policy's setup commands make of its commit. They are run once for the same commands on the
// same files with the same backend, in a sandbox of their own, and what they made is kept for later runs: ignored files and the
// home. Commands that fail leave nothing behind, and end the work with the end of their log.
func (e *Engine) setup(ctx context.Context, m *store.Mission, id sandbox.ID, commit string) error {
	p, err := policyOf(m)
	if err != nil || len(p.Setup) == 0 {
		return err
	}
	rec, err := e.Sandboxes.Record(id)
	if err != nil || rec.Layer != "" || rec.State != sandbox.Created {
		return err // laid before, or in use since then: this step is done again
	}
	shared, own, err := e.layerKeys(ctx, m, p, rec, commit)
	if err != nil {
		return err
	}
	key := shared
	if _, err := e.Sandboxes.Layer(shared); errors.Is(err, sandbox.ErrUnknown) {
		// A commit that is not on the base branch could make anything under the name that later runs of others go by.
		if commit != m.Base || m.Kind == store.KindChecks || onPull(m) {
			key = own
		}
		if err := e.makeLayer(ctx, m, p, id, commit, key); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return e.Sandboxes.ApplyLayer(ctx, id, key)
}

// makeLayer runs the commands, if there is no layer yet.
func (e *Engine) makeLayer(ctx context.Context, m *store.Mission, p *policy.Policy, id sandbox.ID, commit, key string) error {
	in := setupSandbox(id)
	if _, err := e.Sandboxes.Layer(key); !errors.Is(err, sandbox.ErrUnknown) {
		return err
	}
	if _, err := e.makeSandbox(ctx, m, string(in), commit, "setup of "+string(id), id); err != nil {
		return err
	}
	waiting, leave := e.parkable(ctx)
	defer leave()
	for i, step := range p.Setup {
		command := sandbox.Command{Argv: []string{"/bin/sh", "-e", "-c", step.Run}, Timeout: p.Budget.Time, Network: p.Network}
		result, err := e.Sandboxes.RunCheck(waiting, in, fmt.Sprintf("setup-%d", i+1), command)
		if cause := context.Cause(waiting); err != nil && cause != nil {
			return cause // it goes on by itself, and is found again
		}
		if err != nil {
			return fmt.Errorf("setup of %s: %w", id, err)
		}
		if !result.Exit.OK() {
			return e.setupFailed(step, result)
		}
	}
	layer, err := e.Sandboxes.SaveLayer(ctx, in, key)
	if errors.Is(err, sandbox.ErrUnrecorded) {
		return outcome.End(outcome.BlockedByPolicy, err, "what the setup commands made cannot be kept: %v", err)
	}
	if err != nil {
		return err
	}
	e.Log.Info("setup done", "mission", m.ID, "run", id, "layer", key, "files", layer.Size.Files, "bytes", layer.Size.Bytes, "strays", len(layer.Strays))
	return e.clearSetup(ctx, m, id)
}

// clearSetup removes the sandbox of a setup; its findings stay.
func (e *Engine) clearSetup(ctx context.Context, m *store.Mission, id sandbox.ID) error {
	in := setupSandbox(id)
	if err := e.recordFindings(ctx, m, in); err != nil {
		return err
	}
	if _, err := e.Sandboxes.Discard(ctx, in); err != nil && !errors.Is(err, sandbox.ErrUnknown) {
		return fmt.Errorf("discard %s: %w", in, err)
	}
	return nil
}

// setupFailed says whose fault it is. A command that ends with a status is the repository's: it is called wrongly, or needs a host
// that the policy does not open.
func (e *Engine) setupFailed(step policy.Step, result sandbox.CheckResult) error {
	exit, log := result.Exit, ""
	if text := e.logEnd(result.Log); text != "" {
		log = "; the end of its log: " + text
	}
	if len(exit.Blocked) > 0 {
		log = "; it asked for " + strings.Join(exit.Blocked, ", ") + ", which the policy does not open" + log
	}
	name := fmt.Sprintf("the setup command %q", step.Run)
	switch exit.Reason {
	case sandbox.Exited, sandbox.Signaled:
		return outcome.End(outcome.BlockedByPolicy, nil, "%s ended with %d%s", name, exit.Code, log)
	case sandbox.TimedOut, sandbox.Flooded, sandbox.Overfull, sandbox.OutOfMem:
		return outcome.End(outcome.OutOfBudget, nil, "%s: %s%s", name, exit.Reason, log)
	case sandbox.Cancelled:
		return outcome.End(outcome.Cancelled, nil, "%s was stopped", name)
	}
	return outcome.End(outcome.Infrastructure, nil, "%s: %s%s", name, cmp.Or(exit.Message, string(exit.Reason)), log)
}

// logEnd gives the last lines of a log without secrets.
func (e *Engine) logEnd(file string) string {
	const most = 1500
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	// A secret must not be cut in two before it is looked for.
	if info, err := f.Stat(); err == nil && info.Size() > 64<<10 {
		if _, err := f.Seek(-64<<10, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return ""
	}
	text := strings.ToValidUTF8(strings.TrimSpace(e.Redact(string(data))), "?")
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}

// layerKeys name what the setup of a commit makes: for all commits in which what it needs is the same, and for this one alone.
func (e *Engine) layerKeys(ctx context.Context, m *store.Mission, p *policy.Policy, rec sandbox.Record, commit string) (shared, own string, err error) {
	key := storeKey(m.RepositoryID)
	out, err := e.Git.Read(ctx, key, git.Call{Args: []string{"ls-tree", "-r", "-z", "--full-tree", commit}})
	if err != nil {
		return "", "", fmt.Errorf("tree of %s: %w", commit, err)
	}
	release, err := os.ReadFile("/etc/os-release") // the programs of this machine are those inside
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "v1 %q %q %q %q\n", rec.Backend, runtime.GOARCH, release, p.Network)
	for _, s := range p.Setup {
		fmt.Fprintf(h, "run %q %q\n", s.Run, s.Needs)
	}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		_, path, _ := strings.Cut(entry, "\t")
		// A step that says nothing of what it needs can need anything.
		if slices.ContainsFunc(p.Setup, func(s policy.Step) bool {
			return len(s.Needs) == 0 || slices.ContainsFunc(s.Needs, func(g string) bool { return sandbox.MatchPath(g, path) })
		}) {
			fmt.Fprintf(h, "%q\n", entry)
		}
	}
	shared = key + "-" + hex.EncodeToString(h.Sum(nil))[:40]
	return shared, shared + "-" + commit[:min(len(commit), 40)], nil
}
