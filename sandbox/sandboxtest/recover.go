package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// read gives a file that was recovered.
func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func testRecover(t *testing.T, f Fixture) {
	r := small(t)
	r.Write(".gitignore", "*.log\n")
	r.Commit()
	id := f.Create(t, r)
	f.Sh(t, id, `
		echo committed >c; git add c; git commit -qm 'work in a commit'
		echo stashed >>a.txt; git stash -q; echo 'stashed too' >>a.txt; git stash -q
		git init -q nested; git -C nested config core.fsmonitor 'touch /tmp/owned'
		echo '#!/bin/sh' >run; chmod 755 run; echo u >%u; echo ignored >i.log; ln -s /etc/hostname out; rm dir/b.txt`)
	if err := f.Manager.Recover(t.Context(), id, t.TempDir()); err == nil {
		t.Error("Recover of a sandbox that was not discarded")
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new", "place")
	if err := f.Manager.Recover(t.Context(), id, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"c": "committed\n", "i.log": "ignored\n", "%u": "u\n", "nested/%.git/HEAD": "ref: refs/heads/master\n"} {
		if got := read(t, dir, name); got != want {
			t.Errorf("%s recovered is %q, want %q", name, got, want)
		}
	}
	if target, err := os.Readlink(filepath.Join(dir, "out")); err != nil || target != "/etc/hostname" {
		t.Errorf("the link leads to %q (%v)", target, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "run")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("the script: %v (%v)", info, err)
	}
	for _, name := range []string{".git", "nested/.git", "dir/b.txt"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there (%v)", name, err)
		}
	}
	if err := f.Manager.Recover(t.Context(), id, dir); err == nil {
		t.Error("Recover wrote into a directory that is not empty")
	}
	testRecoveredCommits(t, f, r, id)
}

func testRecoveredCommits(t *testing.T, f Fixture, r *Repo, id sandbox.ID) {
	t.Helper()
	commit, err := f.Manager.RecoverCommit(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Manager.RecoverCommit(t.Context(), id)
	if err != nil || again != commit {
		t.Errorf("the second commit is %s (%v), want %s", again, err, commit)
	}
	if got, want := f.Store(t, "rev-parse", commit+"^"), r.Git("rev-parse", "HEAD"); got != want {
		t.Errorf("the commit is on top of %s, want the base %s", got, want)
	}
	if names := f.Store(t, "ls-tree", "--name-only", commit); strings.Contains(names, "%.git") || !strings.Contains(names, "i.log") {
		t.Errorf("in the commit:\n%s", names)
	}
	h, err := f.Manager.AgentCommits(t.Context(), id)
	if err != nil || len(h.Commits) != 1 || h.Commits[0].Message != "work in a commit" {
		t.Fatalf("commits of the discarded sandbox: %+v (%v)", h, err)
	}
	var names []string
	for _, tip := range h.Tips {
		names = append(names, tip.Name)
	}
	if diff := cmp.Diff([]string{"refs/stash", "refs/stash@{1}"}, names); diff != "" {
		t.Errorf("stashes of the discarded sandbox (-want +got):\n%s", diff)
	}
	if got := f.Store(t, "show", h.Tips[0].Commit+":a.txt"); !strings.Contains(got, "stashed too") {
		t.Errorf("a.txt of the newest stash: %q", got)
	}
}

// A sandbox in which nothing was done is recovered as its base.
func testRecoverNothing(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	want := f.Sh(t, id, "cat a.txt")
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := f.Manager.Recover(t.Context(), id, dir); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir, "a.txt"); got != want {
		t.Errorf("a.txt is %q, want %q", got, want)
	}
	h, err := f.Manager.AgentCommits(t.Context(), id)
	if err != nil || len(h.Commits)+len(h.Tips) != 0 {
		t.Errorf("its commits: %+v (%v)", h, err)
	}
}

func testAgentCommits(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, `
		echo one >one; git add one; GIT_AUTHOR_NAME='Linus' git commit -qm 'Add one

with a body'
		git mv dir/b.txt dir/c.txt; git commit -qm 'Move b'; git branch side; git gc -q`)
	h, err := f.Manager.AgentCommits(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	base := f.Store(t, "rev-parse", sandbox.Ref(id, "base"))
	if len(h.Commits) != 2 || len(h.Refused) > 0 {
		t.Fatalf("commits: %+v", h)
	}
	first, second := h.Commits[0], h.Commits[1]
	if first.Message != "Add one\n\nwith a body" || first.Author != "Linus" || second.Message != "Move b" ||
		!cmp.Equal(first.Parents, []string{base}) || !cmp.Equal(second.Parents, []string{first.ID}) || h.Head != second.ID {
		t.Errorf("commits: %+v", h)
	}
	if len(h.Differs) != 0 {
		t.Errorf("the commits differ from the result: %+v", h.Differs)
	}
	if got := f.Store(t, "rev-parse", sandbox.Ref(id, "agent/head")); got != h.Head {
		t.Errorf("ref is at %s, want %s", got, h.Head)
	}
	f.Sh(t, id, "echo two >one; git commit -qam 'Change one'; echo more >one; echo new >new")
	if h, err = f.Manager.AgentCommits(t.Context(), id); err != nil || len(h.Commits) != 3 {
		t.Fatalf("commits: %+v (%v)", h, err)
	}
	if diff := cmp.Diff([]string{"added new", "modified one"}, paths(h.Differs)); diff != "" {
		t.Errorf("the result differs from the commits in (-want +got):\n%s", diff)
	}
	f.Store(t, "fsck", "--strict")
}

// What git would not take from anybody it does not take from a sandbox either, and nothing of it comes into the store. The
// configuration and hooks of the sandbox are never in force.
// testOddObjects leaves more that is no object than anybody wants to read of, or to start a process for.
func testOddObjects(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	// 100 pipes, 256 packs, and that there are more of those, but for the 20 that are named.
	f.Sh(t, id, `echo x >x; git add x; git commit -qm fine; cd /run/sandpiper/git/objects; mkdir -p ab; mkfifo $(seq -f ab/%038g 100); : | tee $(seq -f pack/p%g.pack 300)`)
	h, err := f.Manager.AgentCommits(t.Context(), id)
	if err != nil || len(h.Commits) != 1 || len(h.Refused) != 21 || h.Refused[20] != "and 337 more" {
		t.Errorf("%d commits, %d refused, %v", len(h.Commits), len(h.Refused), err)
	}
	if rec, err := f.Manager.Record(id); err != nil || len(rec.Findings) != 21 {
		t.Errorf("%d findings, %v", len(rec.Findings), err)
	}
}

func testHostileCommits(t *testing.T, f Fixture) {
	for name, script := range map[string]string{
		"a tree with .git in it": `
			blob=$(echo x | git hash-object -w --stdin)
			inner=$(printf '100644 blob %s\tconfig\n' $blob | git mktree)
			tree=$(printf '040000 tree %s\t.GIT\n' $inner | git mktree)
			git update-ref HEAD $(git commit-tree $tree -p HEAD -m evil)`,
		"a submodule that is an option": `
			blob=$(printf '[submodule "x"]\n\tpath = -u./p\n\turl = -u./p\n' | git hash-object -w --stdin)
			tree=$(printf '100644 blob %s\t.gitmodules\n' $blob | git mktree)
			git update-ref HEAD $(git commit-tree $tree -p HEAD -m evil)`,
		"a commit whose tree is missing": `
			git update-ref HEAD $(printf 'tree 1234567890123456789012345678901234567890\nparent %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nevil\n' \
				$(git rev-parse HEAD) | git hash-object -t commit -w --stdin --literally)`,
		"an object under the name of another": `
			echo x >x; git add x; git commit -qm evil; echo y | git hash-object -w --stdin >/dev/null
			x=$(git rev-parse HEAD:x); y=$(echo y | git hash-object --stdin)
			rm x; cd /run/sandpiper; p=git/objects/$(echo $x | cut -c1-2)/$(echo $x | cut -c3-); chmod 644 $p
			cat git/objects/$(echo $y | cut -c1-2)/$(echo $y | cut -c3-) >$p`,
		"a HEAD that is a pipe": `rm /run/sandpiper/git/HEAD; mkfifo /run/sandpiper/git/HEAD`,
		"refs that lead out": `
			rm -rf /run/sandpiper/git/refs; ln -s /etc /run/sandpiper/git/refs; rm /run/sandpiper/git/HEAD; ln -s /etc/passwd /run/sandpiper/git/HEAD`,
		"a HEAD that is a word": `echo ../../../etc/passwd >/run/sandpiper/git/HEAD`,
	} {
		id := f.Create(t, small(t))
		f.Sh(t, id, `git config core.fsmonitor 'touch /tmp/owned'; git config uploadpack.packObjectsHook 'touch /tmp/owned'; git config core.fsmonitor false; `+script)
		h, err := f.Manager.AgentCommits(t.Context(), id)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		base := f.Store(t, "rev-parse", sandbox.Ref(id, "base"))
		if len(h.Refused) == 0 || len(h.Commits) != 0 || h.Head != base {
			t.Errorf("%s was taken: %+v", name, h)
		}
		if refs := f.Store(t, "for-each-ref", sandbox.Ref(id, "agent")); refs != "" {
			t.Errorf("%s has refs: %s", name, refs)
		}
		rec, err := f.Manager.Record(id)
		if err != nil || !hasFinding(rec.Findings, "git.object") {
			t.Errorf("%s: findings %+v (%v)", name, rec.Findings, err)
		}
	}
	f.Store(t, "fsck", "--strict")
}

func hasFinding(list []sandbox.Finding, kind string) bool {
	for _, f := range list {
		if f.Kind == kind {
			return true
		}
	}
	return false
}

// Somebody writes in the workspace, from outside, while Discard records it: nothing is removed.
func testDiscardWhileWritten(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, "for i in $(seq 200); do head -c 20000 /dev/urandom >f$i; done")
	delta, err := f.Manager.Delta(id)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := appendTo(filepath.Join(delta, "f1")); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	_, err = f.Manager.Discard(t.Context(), id)
	stop()
	<-ended
	if !errors.Is(err, sandbox.ErrUnrecorded) {
		t.Errorf("Discard of what changes: %v, want ErrUnrecorded", err)
	}
	if _, err := os.Stat(filepath.Join(delta, "f200")); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Errorf("Discard once it is quiet: %v", err)
	}
}

func appendTo(path string) error {
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = w.WriteString("x")
	return errors.Join(err, w.Close())
}

// A directory among the runs whose record is another's was not made by the manager: it is left alone.
func testDiscardOfAnother(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, "echo work >work")
	dir := filepath.Join(f.StateDir, "runs")
	if err := os.Mkdir(filepath.Join(dir, "r-other-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	data := read(t, dir, string(id), "run.json")
	var rec sandbox.Record
	if err := json.Unmarshal([]byte(data), &rec); err != nil || rec.ID != id {
		t.Fatalf("record: %+v (%v)", rec, err)
	}
	for name, text := range map[string]string{"run.json": data, "mine": "of a person"} {
		if err := os.WriteFile(filepath.Join(dir, "r-other-1", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Manager.Discard(t.Context(), "r-other-1"); !errors.Is(err, sandbox.ErrUnrecorded) {
		t.Errorf("Discard: %v, want ErrUnrecorded", err)
	}
	if got := read(t, dir, "r-other-1", "mine"); got != "of a person" {
		t.Errorf("mine is %q", got)
	}
	if got := f.Sh(t, id, "cat work"); got != "work\n" {
		t.Errorf("work is %q", got)
	}
}
