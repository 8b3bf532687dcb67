package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/reaper"
)

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

// collect is the list of changes right after a command, and the commit with them that is made for it.
func (b *bench) collect() error {
	commit := b.commits[2*b.round]
	if err := b.tree("w", commit); err != nil {
		return err
	}
	plain := exec.CommandContext(b.ctx, "sh", "-euc", b.changes())
	plain.Dir = b.worktree("w")
	if err := errors.Join(plain.Run(), b.calm()); err != nil {
		return err
	}
	err := b.time("git: add -A, commit", func() error {
		return errors.Join(git(b.ctx, b.worktree("w"), "add", "-A"), git(b.ctx, b.worktree("w"), "commit", "-qm", "x"))
	})
	for i := 0; i < often && err == nil; i++ {
		err = b.collectOne(commit)
	}
	return errors.Join(err, b.dropTree("w"))
}

func (b *bench) collectOne(commit string) error {
	id, err := b.newSandbox(commit)
	if err != nil {
		return err
	}
	list := func() error {
		changes, err := b.m.ListChanges(b.ctx, id)
		if err == nil && len(changes) != 16 { // a rename is one
			err = fmt.Errorf("%d changes", len(changes))
		}
		return err
	}
	return all([]func() error{
		func() error { _, err := b.run(id, b.changes()); return err },
		func() error {
			return b.time("result commit", func() error { _, err := b.m.CollectDiff(b.ctx, id); return err })
		},
		func() error { return b.time("list of what was collected", list) },
		func() error { _, err := b.run(id, "true"); return err }, // what was collected is out of date
		func() error { return b.time("list of changes", list) },
		func() error { return b.time("discard after changes", func() error { return b.discard(id) }) },
	})
}

// life is all of it.
func (b *bench) life() (err error) {
	err = b.calm()
	for i := 0; i < often && err == nil; i++ {
		err = b.time("whole life", b.liveOne)
	}
	return err
}

func (b *bench) liveOne() error {
	var id sandbox.ID
	return all([]func() error{
		func() error {
			return b.time("life: create", func() (err error) { id, err = b.newSandbox(b.commits[2*b.round]); return err })
		},
		func() error {
			return b.time("life: run true", func() error { _, err := b.run(id, "true"); return err })
		},
		func() error {
			return b.time("life: list of changes", func() error { _, err := b.m.ListChanges(b.ctx, id); return err })
		},
		func() error { return b.time("life: discard", func() error { return b.discard(id) }) },
	})
}

// leaked runs are those that nobody discards: the reaper does. A row holds the time of one of them.
const leaks = 1000

func (b *bench) leaked() error {
	if b.s.files > 1000 {
		return nil
	}
	for range leaks {
		if _, err := b.newSandbox(b.commits[2*b.round]); err != nil {
			return err
		}
	}
	v, err := take(func() error {
		r, err := reaper.Reap(b.ctx, reaper.Options{Manager: b.m, Now: func() time.Time { return time.Now().Add(100 * time.Hour) }})
		if err == nil && len(r.Discarded) < leaks {
			err = fmt.Errorf("the reaper has removed %d runs", len(r.Discarded))
		}
		return err
	})
	b.s.add("reap one of 1,000 leaked", 0, sample{v.wall / leaks, v.cpu / leaks})
	return err
}
