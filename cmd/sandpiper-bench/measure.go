package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	gitline "github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/overlay"
)

// bench is what one size is measured on.
type bench struct {
	ctx     context.Context
	dir     string
	tool    string
	repo    string // bare: what both sides start from
	commits []string
	state   string
	m       *sandbox.Manager
	s       *series
	round   int
	n       int
}

// measureAll runs the sizes in turn too: a machine is never as busy at the end as at the beginning.
func measureAll(ctx context.Context, o options, work string) (sizes []*series, err error) {
	var benches []*bench
	for _, files := range o.sizes {
		b, err := newBench(ctx, filepath.Join(work, strconv.Itoa(files)), o.tool, files, o.rounds)
		if err != nil {
			return nil, fmt.Errorf("%d files: %w", files, err)
		}
		benches, sizes = append(benches, b), append(sizes, b.s)
	}
	for round := range o.rounds {
		for _, b := range benches {
			fmt.Fprintf(os.Stderr, "round %d, %d files\n", round+1, b.s.files)
			if err := b.measure(round); err != nil {
				return nil, fmt.Errorf("%d files: %w", b.s.files, err)
			}
		}
	}
	return sizes, benches[0].leaked()
}

// often is how many times a round measures what takes milliseconds.
const often = 5

// newBench makes the repository of one size, and our side of the comparison.
func newBench(ctx context.Context, dir, tool string, files, rounds int) (*bench, error) {
	b := &bench{ctx: ctx, dir: dir, tool: tool, repo: filepath.Join(dir, "repo.git"), state: filepath.Join(dir, "state"), s: newSeries(files)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if b.commits, err = generate(ctx, b.repo, files, 2*rounds+2); err != nil {
		return nil, err
	}
	return b, b.open()
}

// measure runs all rows of one round in turn.
func (b *bench) measure(round int) error {
	b.round = round
	return all([]func() error{b.bases, b.create, b.parallel, b.status, b.collect, b.life})
}

func (b *bench) open() error {
	g, err := gitline.New(gitline.Options{})
	if err != nil {
		return err
	}
	stores, err := gitstore.Open(filepath.Join(b.state, "stores"), g)
	if err != nil {
		return err
	}
	if _, _, err := stores.FetchCommit(b.ctx, gitstore.Remote{Key: "bench", URL: b.repo}, "refs/heads/main"); err != nil {
		return err
	}
	over := overlay.New(overlay.Options{StateDir: b.state, Stores: stores})
	if err := over.Available(b.ctx); err != nil {
		return err
	}
	b.m, err = sandbox.Open(sandbox.Config{StateDir: b.state, Stores: stores, Backends: []sandbox.Backend{over}})
	return err
}

// time measures one row.
func (b *bench) time(row string, do func() error) error {
	v, err := take(do)
	if err != nil {
		return fmt.Errorf("%s: %w", row, err)
	}
	b.s.add(row, b.round, v)
	return nil
}

// calm lets the disk have what was written so far. What takes milliseconds would wait for it otherwise: an fsync on ext4 waits for the
// data of the whole transaction, and that holds a checkout of the other side.
func (b *bench) calm() error {
	f, err := os.Open(b.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

func (b *bench) newSandbox(commit string) (id sandbox.ID, err error) {
	b.n++
	return b.m.Create(b.ctx, "", sandbox.Source{Key: "bench", Base: commit}, sandbox.Options{ID: sandbox.ID(fmt.Sprintf("r-%d-%d", b.s.files, b.n))})
}

func (b *bench) discard(id sandbox.ID) error {
	_, err := b.m.Discard(b.ctx, id)
	return err
}

func (b *bench) run(id sandbox.ID, script string) (string, error) {
	var out strings.Builder
	exit, err := b.m.Run(b.ctx, id, sandbox.Command{Argv: []string{"sh", "-euc", script}}, sandbox.Stdio{Out: &out, Err: &out})
	if err == nil && !exit.OK() {
		err = fmt.Errorf("in the sandbox: %s %d\n%s", exit.Reason, exit.Code, out.String())
	}
	return out.String(), err
}

// worktree lies beside the bases, so that both sides pay the same for what was removed before: ext4 looks at each inode near that was
// deleted within the last minutes before it gives one out (recently_deleted in its ialloc.c), and a checkout of 1,000 files was seen to
// take 50 ms or 400 by that alone.
func (b *bench) worktree(name string) string { return filepath.Join(b.state, "bases", "beside", name) }

// tree is a git worktree as the other side of the comparisons.
func (b *bench) tree(name, commit string, options ...string) error {
	return git(b.ctx, b.repo, append(options, "worktree", "add", "-q", "--detach", b.worktree(name), commit)...)
}

// treeAgain is tree for several at once: git reads the half-written registration of another one, and dies of it.
func (b *bench) treeAgain(name, commit string) (err error) {
	for range 20 {
		if err = b.tree(name, commit); err == nil {
			return nil
		}
	}
	return err
}

func (b *bench) dropTree(name string) error {
	return git(b.ctx, b.repo, "worktree", "remove", "--force", b.worktree(name))
}

// bases makes the first checkout of a commit, with no other near, and then that of the next commit.
func (b *bench) bases() error {
	if err := os.RemoveAll(filepath.Join(b.state, "bases", "bench")); err != nil {
		return err
	}
	first, next := b.commits[2*b.round], b.commits[2*b.round+1]
	var id, on sandbox.ID
	steps := []func() error{
		b.calm,
		func() error {
			return b.time("git: worktree add, 2 workers", func() error { return b.tree("w", first, "-c", "checkout.workers=2") })
		},
		b.calm,
		func() error {
			return b.time("first base", func() (err error) { id, err = b.newSandbox(first); return err })
		},
		b.calm,
		func() error {
			return b.time("git: read-tree -m -u to the next", func() error { return git(b.ctx, b.worktree("w"), "read-tree", "-m", "-u", first, next) })
		},
		b.calm,
		func() error {
			return b.time("next base", func() (err error) { on, err = b.newSandbox(next); return err })
		},
		func() error { return b.dropTree("w") },
		func() error { return errors.Join(b.discard(id), b.discard(on)) },
	}
	return all(steps)
}

func all(steps []func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// create makes and removes workspaces of a base that is there.
func (b *bench) create() error {
	commit := b.commits[2*b.round]
	err := all([]func() error{
		func() error { return b.time("git: worktree add", func() error { return b.tree("w", commit) }) },
		func() error { return b.time("git: worktree remove --force", func() error { return b.dropTree("w") }) },
		b.calm,
	})
	for i := 0; i < often && err == nil; i++ {
		var id sandbox.ID
		err = all([]func() error{
			func() error {
				return b.time("create", func() (err error) { id, err = b.newSandbox(commit); return err })
			},
			func() error { return b.space(id) },
			func() error { return b.time("discard", func() error { return b.discard(id) }) },
		})
	}
	if err == nil {
		err = b.commandLine(commit)
	}
	return err
}

// space counts what a run takes before anything was changed in it: its directory, its keep ref and its lease.
func (b *bench) space(id sandbox.ID) error {
	b.s.bytes, b.s.inodes = 0, 0
	return filepath.WalkDir(b.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(path, string(id)) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b.s.inodes++
		b.s.bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
}

// commandLine makes them by the command line as a whole, on a state directory of its own that has the base already. How much memory
// the making of the base took at most is what the kernel says of that process and of those that it has waited for.
func (b *bench) commandLine(commit string) error {
	state := filepath.Join(b.dir, "state-cli")
	sandpiper := func() (*exec.Cmd, error) {
		cmd := exec.CommandContext(b.ctx, b.tool, "sandbox", "create", "--repo", b.repo, "--base", commit)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SANDPIPER_STATE_DIR=" + state, "SANDPIPER_BACKEND=overlay"}
		cmd.Stderr = os.Stderr
		return cmd, cmd.Run()
	}
	if _, err := os.Stat(state); err != nil { // the store is filled: that takes other memory
		if _, err := sandpiper(); err != nil {
			return fmt.Errorf("command line: %w", err)
		}
		if err := os.RemoveAll(filepath.Join(state, "bases")); err != nil {
			return err
		}
	}
	cmd, err := sandpiper()
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && b.round == 0 {
		b.s.peak = used.Maxrss << 10
	}
	for i := 0; i < often && err == nil; i++ {
		err = b.time("create by the command line", func() error { _, err := sandpiper(); return err })
	}
	return err
}

// parallel makes eight at once.
func (b *bench) parallel() error {
	commit := b.commits[2*b.round]
	eight := func(do func(i int) error) error {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = do(i) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	if b.s.files <= 10_000 {
		err := b.time("git: eight worktree add", func() error { return eight(func(i int) error { return b.treeAgain(fmt.Sprint("w", i), commit) }) })
		for i := range 8 {
			err = errors.Join(err, b.dropTree(fmt.Sprint("w", i)))
		}
		if err != nil {
			return err
		}
	}
	if err := b.calm(); err != nil {
		return err
	}
	for range often {
		var one sandbox.ID
		ids := make([]sandbox.ID, 8)
		for i := range ids {
			b.n++
			ids[i] = sandbox.ID(fmt.Sprintf("r-%d-%d", b.s.files, b.n))
		}
		err := all([]func() error{
			func() error {
				return b.time("create, before eight", func() (err error) { one, err = b.newSandbox(commit); return err })
			},
			func() error {
				return b.time("eight creates", func() error {
					return eight(func(i int) error {
						_, err := b.m.Create(b.ctx, "", sandbox.Source{Key: "bench", Base: commit}, sandbox.Options{ID: ids[i]})
						return err
					})
				})
			},
		})
		for _, id := range append(ids, one) {
			err = errors.Join(err, b.discard(id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// status is what git inside costs, beside a plain checkout with a warm index. The time inside is git's own.
func (b *bench) status() error {
	commit := b.commits[2*b.round]
	if err := b.tree("w", commit); err != nil {
		return err
	}
	steps := []func() error{
		b.calm,
		func() error { return git(b.ctx, b.worktree("w"), "status", "--porcelain") }, // makes the index warm
		func() error { return git(b.ctx, b.worktree("w"), "status", "--porcelain") },
		func() error {
			return b.time("git: status, warm", func() error { return git(b.ctx, b.worktree("w"), "status", "--porcelain") })
		},
		func() error { return b.statusInside(commit) },
		func() error { return b.dropTree("w") },
	}
	return all(steps)
}

func (b *bench) statusInside(commit string) error {
	id, err := b.newSandbox(commit)
	if err != nil {
		return err
	}
	const script = `t() { s=$(date +%s%N); GIT_TRACE2_PERF=/tmp/trace git status --porcelain; e=$(date +%s%N); echo $((e-s)); }; t; grep -o 'sum_scan:[0-9]*' /tmp/trace; t`
	out, err := b.run(id, script)
	if err != nil {
		return err
	}
	words := strings.Fields(out)
	if len(words) != 3 {
		return fmt.Errorf("git status inside: %q", out)
	}
	b.s.scans = words[1]
	for row, word := range map[string]string{"status inside, first": words[0], "status inside, later": words[2]} {
		ns, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return err
		}
		b.s.add(row, b.round, sample{wall: ns / 1e9})
	}
	return b.discard(id)
}
