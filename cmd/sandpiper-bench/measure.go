package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	gitline "github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/overlay"
)

// series are the times of one size: for each row one of each round, in seconds.
type series struct {
	files  int
	times  map[string][]float64
	bytes  int64 // of a run before changes, with its directory
	inodes int
	scans  string // what git status inside has read again
}

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
	n       int
}

// measure runs all rows in turn.
func measure(ctx context.Context, dir, tool string, files, rounds int) (*series, error) {
	b := &bench{ctx: ctx, dir: dir, tool: tool, repo: filepath.Join(dir, "repo.git"), state: filepath.Join(dir, "state"),
		s: &series{files: files, times: map[string][]float64{}}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if b.commits, err = generate(ctx, b.repo, files, 2*rounds+2); err != nil {
		return nil, err
	}
	if err := b.open(); err != nil {
		return nil, err
	}
	for round := range rounds {
		fmt.Fprint(os.Stderr, ".")
		for _, step := range []func(int) error{b.bases, b.create, b.parallel, b.status, b.collect, b.life} {
			if err := step(round); err != nil {
				return nil, err
			}
		}
	}
	return b.s, nil
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
	start := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", row, err)
	}
	b.s.times[row] = append(b.s.times[row], time.Since(start).Seconds())
	return nil
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

func (b *bench) worktree(name string) string { return filepath.Join(b.dir, name) }

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
func (b *bench) bases(round int) error {
	if err := os.RemoveAll(filepath.Join(b.state, "bases", "bench")); err != nil {
		return err
	}
	first, next := b.commits[2*round], b.commits[2*round+1]
	var id, on sandbox.ID
	steps := []func() error{
		func() error {
			return b.time("git: worktree add, 2 workers", func() error { return b.tree("w", first, "-c", "checkout.workers=2") })
		},
		func() error {
			return b.time("first base", func() (err error) { id, err = b.newSandbox(first); return err })
		},
		func() error {
			return b.time("git: read-tree -m -u to the next", func() error { return git(b.ctx, b.worktree("w"), "read-tree", "-m", "-u", first, next) })
		},
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

// create makes and removes one workspace of a base that is there.
func (b *bench) create(round int) error {
	commit := b.commits[2*round]
	var id sandbox.ID
	steps := []func() error{
		func() error { return b.time("git: worktree add", func() error { return b.tree("w", commit) }) },
		func() error { return b.time("git: worktree remove --force", func() error { return b.dropTree("w") }) },
		func() error {
			return b.time("create", func() (err error) { id, err = b.newSandbox(commit); return err })
		},
		func() error { return b.space(id) },
		func() error { return b.time("discard", func() error { return b.discard(id) }) },
		func() error { return b.commandLine(commit) },
	}
	return all(steps)
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

// commandLine makes one by the command line as a whole, on a state directory of its own that has the base already.
func (b *bench) commandLine(commit string) error {
	sandpiper := func(args ...string) (string, error) {
		cmd := exec.CommandContext(b.ctx, b.tool, append([]string{"sandbox"}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SANDPIPER_STATE_DIR=" + filepath.Join(b.dir, "state-cli"), "SANDPIPER_BACKEND=overlay"}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	if _, err := sandpiper("create", "--repo", b.repo, "--base", commit); err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	return b.time("create by the command line", func() error {
		_, err := sandpiper("create", "--repo", b.repo, "--base", commit)
		return err
	})
}

// parallel makes eight at once.
func (b *bench) parallel(round int) error {
	commit := b.commits[2*round]
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
	ids := make([]sandbox.ID, 8)
	err := b.time("eight creates", func() error {
		return eight(func(i int) (err error) {
			ids[i], err = b.m.Create(b.ctx, "", sandbox.Source{Key: "bench", Base: commit},
				sandbox.Options{ID: sandbox.ID(fmt.Sprintf("r-par-%d-%d-%d", b.s.files, round, i))})
			return err
		})
	})
	for _, id := range ids {
		err = errors.Join(err, b.discard(id))
	}
	return err
}

// status is what git inside costs, beside a plain checkout with a warm index. The time inside is git's own.
func (b *bench) status(round int) error {
	commit := b.commits[2*round]
	if err := b.tree("w", commit); err != nil {
		return err
	}
	steps := []func() error{
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
	for i, row := range []string{"status inside, first", "", "status inside, later"} {
		if row == "" {
			continue
		}
		var ns float64
		if _, err := fmt.Sscan(words[i], &ns); err != nil {
			return err
		}
		b.s.times[row] = append(b.s.times[row], ns/1e9)
	}
	return b.discard(id)
}

// changes are ten files edited, three added, two deleted and one renamed: seventeen paths.
func (b *bench) changes() string {
	var script strings.Builder
	for i := range 10 {
		fmt.Fprintf(&script, "echo more >>%s\n", fileName(i*b.s.files/10+1))
	}
	fmt.Fprintf(&script, "mkdir newdir; echo new >newdir/a; echo new >newdir/b; echo new >top\nrm %s %s\nmv %s %s.moved\n",
		fileName(3), fileName(4), fileName(5), fileName(5))
	return script.String()
}

// collect is the list of changes, and the commit with them.
func (b *bench) collect(round int) error {
	commit := b.commits[2*round]
	if err := b.tree("w", commit); err != nil {
		return err
	}
	id, err := b.newSandbox(commit)
	if err != nil {
		return err
	}
	plain := exec.CommandContext(b.ctx, "sh", "-euc", b.changes())
	plain.Dir = b.worktree("w")
	if err := plain.Run(); err != nil {
		return err
	}
	if _, err := b.run(id, b.changes()); err != nil {
		return err
	}
	steps := []func() error{
		func() error {
			return b.time("git: add -A, commit", func() error {
				return errors.Join(git(b.ctx, b.worktree("w"), "add", "-A"), git(b.ctx, b.worktree("w"), "commit", "-qm", "x"))
			})
		},
		func() error {
			return b.time("result commit", func() error { _, err := b.m.CollectDiff(b.ctx, id); return err })
		},
		func() error {
			return b.time("list of changes", func() error {
				changes, err := b.m.ListChanges(b.ctx, id)
				if len(changes) != 16 { // a rename is one
					err = errors.Join(err, fmt.Errorf("%d changes", len(changes)))
				}
				return err
			})
		},
		func() error { return b.time("discard after changes", func() error { return b.discard(id) }) },
		func() error { return b.dropTree("w") },
	}
	return all(steps)
}

// life is all of it.
func (b *bench) life(round int) error {
	return b.time("whole life", func() error {
		id, err := b.newSandbox(b.commits[2*round])
		if err != nil {
			return err
		}
		steps := []func() error{
			func() error {
				return b.time("life: run true", func() error { _, err := b.run(id, "true"); return err })
			},
			func() error {
				return b.time("life: list of changes", func() error { _, err := b.m.ListChanges(b.ctx, id); return err })
			},
			func() error { return b.time("life: discard", func() error { return b.discard(id) }) },
		}
		return all(steps)
	})
}
