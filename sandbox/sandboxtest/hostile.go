package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// findings gives kind and evidence of what is in the record.
func findings(t *testing.T, f Fixture, id sandbox.ID) []string {
	t.Helper()
	rec, err := f.Manager.Record(id)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range rec.Findings {
		out = append(out, n.Kind+" "+n.Evidence)
	}
	slices.Sort(out)
	return out
}

func testSubmodule(t *testing.T, f Fixture) {
	r := small(t)
	for _, name := range []string{"sub", "gone", "filled"} {
		r.Git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+","+name)
	}
	r.Write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n")
	r.Git("add", ".gitmodules")
	r.Git("commit", "-qm", "submodules")
	id := f.Create(t, r)
	f.Sh(t, id, "rmdir gone; echo x >filled/x; echo '# touched' >>.gitmodules")
	got := summary(t, f, id)
	if diff := cmp.Diff([]string{"modified .gitmodules", "deleted gone"}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"git.submodule filled"}, findings(t, f, id)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := f.Store(t, "show", sandbox.Ref(id, "discarded")+":filled/x"); got != "x" {
		t.Errorf("what lay in the submodule's directory was not recorded: %q", got)
	}
}

func testRefused(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, `
		mkfifo pipe; rm a.txt; mkfifo a.txt
		cp run.sh suid; chmod 4755 suid; chmod 2644 dir/b.txt
		mkdir .GIT 'git~1' "$(printf '.g\342\200\214it')" '.git ' '.git...' x x/.Git n; echo p >.GIT/config; echo p >'git~1/f'; echo p >x/.Git/f
		echo p >"$(printf '.g\342\200\214it')/f"; echo p >'.git /f'; echo p >'.git.../f'; echo p >'n/.git:x'; echo p >'n/a\.git'
		ln -s /etc/passwd out; ln -s ../../x up; ln -s a.txt .gitmodules
		echo fine >fine`)
	want := []string{"added fine", "added out", "added suid", "added up", "deleted a.txt"}
	got := summary(t, f, id)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	wantFound := []string{
		`collect.name .GIT`, `collect.name .git `, `collect.name .git...`, `collect.name .gitmodules (a link)`, `collect.name .g\u200cit`,
		`collect.name git~1`, `collect.name n/.git:x`, `collect.name n/a\\.git`, `collect.name x/.Git`,
		`collect.special a.txt (mode 10644)`, `collect.special pipe (mode 10644)`,
		`fs.setuid dir/b.txt (mode 102644)`, `fs.setuid suid (mode 104755)`, `fs.symlink_out out -> /etc/passwd`, `fs.symlink_out up -> ../../x`,
	}
	slices.Sort(wantFound)
	if diff := cmp.Diff(wantFound, findings(t, f, id)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	unreachable(t, f, id, "suid")
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	kept := f.Store(t, "ls-tree", "-r", "--name-only", sandbox.Ref(id, "discarded"))
	for _, name := range []string{"%.GIT/config", "%git~1/f", "x/%.Git/f", "n/%.git:x", ".gitmodules"} {
		if !strings.Contains("\n"+kept+"\n", "\n"+name+"\n") {
			t.Errorf("%s is not in what was recorded:\n%s", name, kept)
		}
	}
}

// unreachable checks that no other user of the machine gets to a file of the workspace: some directory above is closed.
func unreachable(t *testing.T, f Fixture, id sandbox.ID, name string) {
	t.Helper()
	path, err := f.Manager.Delta(id)
	if err != nil {
		t.Fatal(err)
	}
	for dir := path; len(dir) >= len(f.StateDir); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o007 == 0 {
			return
		}
	}
	t.Errorf("others can reach %s in the workspace", name)
}

func testUnreadable(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, "echo hidden >hidden; chmod 000 hidden; chmod 000 a.txt; mkdir closed; echo in >closed/in; chmod 000 closed; mkdir -p o/c; echo z >o/c/z; chmod 444 o")
	got := summary(t, f, id)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"added closed/in", "added hidden", "added o/c/z"}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	f.Sh(t, id, "rm -f x; mkdir -p z/y; echo 1 >z/y/x; chmod 000 z/y; chmod 000 z")
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Error(err)
	}
	nothingLeft(t, f)
}

func testDeepPath(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	// 300 directories of 17 letters: 5,400 bytes, longer than PATH_MAX.
	f.Sh(t, id, `i=0; while [ $i -lt 300 ]; do mkdir dddddddddddddddd$((i%10)); cd -P ./dddddddddddddddd$((i%10)); i=$((i+1)); done; echo deep >f; cd /workspace; echo x >shallow`)
	if diff := cmp.Diff([]string{"added shallow"}, summary(t, f, id)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	found := findings(t, f, id)
	if len(found) != 1 || !strings.HasPrefix(found[0], "collect.limit dddd") {
		t.Errorf("findings: %.200q", found)
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if kept := f.Store(t, "ls-tree", "-r", "--name-only", sandbox.Ref(id, "discarded")); !strings.Contains(kept, "/f\n") {
		t.Error("the deep file was not recorded")
	}
	nothingLeft(t, f)
}

// testBottomless has directories deeper than git and a process's open files go, and a file at their end.
func testBottomless(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, `d=$(printf 'd/%.0s' $(seq 1000)); for i in 1 2 3; do mkdir -p $d; cd -P $d; done; echo deep >f; cd /workspace; echo x >d/shallow`)
	if diff := cmp.Diff([]string{"added d/shallow"}, summary(t, f, id)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	found := findings(t, f, id)
	if len(found) != 1 || !strings.HasPrefix(found[0], "collect.limit d/d/d") || !strings.Contains(found[0], "2048 directories deep") {
		t.Errorf("findings: %.300q", found)
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := f.Store(t, "show", sandbox.Ref(id, "discarded")+":d/shallow"); got != "x" {
		t.Errorf("what is not deep was not recorded: %q", got)
	}
	nothingLeft(t, f)
}

func testHuge(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, "truncate -s 2G sparse; echo x >x")
	if diff := cmp.Diff([]string{"added x"}, summary(t, f, id)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"collect.limit sparse (2147483648 bytes)"}, findings(t, f, id)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// plant are scripts that leave commands for a host git that trusts what it finds. PWN stands for what each would make.
var plant = map[string]string{
	"Monitor":    `git config core.fsmonitor 'touch PWN; false'`,
	"Hooks":      `mkdir -p "$(git rev-parse --git-dir)/hooks"; printf '#!/bin/sh\ntouch PWN\n' >"$(git rev-parse --git-dir)/hooks/post-index-change"; chmod +x "$(git rev-parse --git-dir)/hooks/post-index-change"`,
	"Filter":     `git config filter.f.clean 'touch PWN; cat'; echo '* filter=f' >>.gitattributes; echo more >>a.txt`,
	"HooksPath":  `mkdir h; printf '#!/bin/sh\ntouch PWN\n' >h/post-index-change; chmod +x h/*; git config core.hooksPath h`,
	"Attributes": `git config filter.f.clean 'touch PWN; cat'; mkdir -p "$(git rev-parse --git-dir)/info"; echo '* filter=f' >"$(git rev-parse --git-dir)/info/attributes"; echo more >>a.txt`,
}

// testHostileGit plants commands in the git directory that the sandbox has. The control is the same script in a plain clone,
// where a host git that looks at it without care has to run the command: else the case would prove nothing.
func testHostileGit(t *testing.T, f Fixture) {
	r := small(t)
	src := f.Source(t, r)
	for name, script := range plant {
		t.Run(name, func(t *testing.T) {
			control := filepath.Join(t.TempDir(), "pwn")
			clone := &Repo{t: t, Dir: t.TempDir()}
			clone.Git("clone", "-q", "file://"+r.Dir, ".")
			shell(t, clone.Dir, strings.ReplaceAll(script, "PWN", control))
			if out, err := clone.TryGit("add", "-A"); err != nil {
				t.Logf("git in the control: %v\n%s", err, out)
			}
			if _, err := os.Stat(control); err != nil {
				t.Fatal("the control did not fire: this case proves nothing")
			}
			pwn := filepath.Join(t.TempDir(), "pwn")
			id, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{})
			if err != nil {
				t.Fatal(err)
			}
			f.Sh(t, id, strings.ReplaceAll(script, "PWN", pwn)+"; echo seen >seen")
			wholeLife(t, f, id)
			if _, err := os.Lstat(pwn); err == nil {
				t.Error("the host ran the planted command")
			}
		})
	}
}

// wholeLife calls everything on a sandbox that looks at its workspace.
func wholeLife(t *testing.T, f Fixture, id sandbox.ID) {
	t.Helper()
	if got := summary(t, f, id); !slices.Contains(got, "added seen") {
		t.Errorf("changes %q have no new file seen", got)
	}
	if err := f.Manager.Diff(t.Context(), id, &strings.Builder{}); err != nil {
		t.Error(err)
	}
	if _, err := f.Manager.Promote(t.Context(), id, sandbox.Selection{}, commitSpec(), nil); err != nil {
		t.Error(err)
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func testNestedRepository(t *testing.T, f Fixture) {
	pwn := filepath.Join(t.TempDir(), "pwn")
	r := small(t)
	script := `
		git init -q nested; cd nested; echo x >x; git add x; git -c user.name=a -c user.email=a@example.com commit -qm x; cd ..
		git update-index --add --cacheinfo "160000,$(git -C nested rev-parse HEAD),nested"
		git -C nested config core.fsmonitor 'touch PWN; false'; echo y >nested/x`
	control := filepath.Join(t.TempDir(), "pwn")
	clone := &Repo{t: t, Dir: t.TempDir()}
	clone.Git("clone", "-q", "file://"+r.Dir, ".")
	shell(t, clone.Dir, strings.ReplaceAll(script, "PWN", control))
	clone.Git("status")
	if _, err := os.Stat(control); err != nil {
		t.Fatal("the control did not fire: this case proves nothing")
	}
	id := f.Create(t, r)
	f.Sh(t, id, strings.ReplaceAll(script, "PWN", pwn)+"; echo seen >seen; mkdir evil; cp -r nested/.git/. evil/; mkdir g; echo 'gitdir: ../evil' >g/.git; echo in >g/in")
	got := summary(t, f, id)
	for _, want := range []string{"added nested/x", "added g/in", "added evil/HEAD"} {
		if !slices.Contains(got, want) {
			t.Errorf("changes have no %q: %q", want, got)
		}
	}
	for _, c := range got {
		if strings.Contains(c, ".git") {
			t.Errorf("collected %q", c)
		}
	}
	if found := findings(t, f, id); !slices.Contains(found, "git.nested nested/.git") || !slices.Contains(found, "git.nested g/.git") {
		t.Errorf("findings: %q", found)
	}
	wholeLife(t, f, id)
	if _, err := os.Lstat(pwn); err == nil {
		t.Error("the host ran the planted command")
	}
	if got := f.Store(t, "show", sandbox.Ref(id, "discarded")+":nested/%.git/HEAD"); !strings.HasPrefix(got, "ref: ") {
		t.Errorf("the nested repository was not recorded: %q", got)
	}
}

// testStoreUntouched tries to write to the store from inside by every path that can be found there.
func testStoreUntouched(t *testing.T, f Fixture) {
	r := small(t)
	id := f.Create(t, r)
	before := f.Store(t, "for-each-ref")
	f.Sh(t, id, `
		alt=$(cat "$(git rev-parse --git-dir)/objects/info/alternates")
		! echo x >"$alt/x"
		! chmod u+w "$alt"/pack/* "$alt"/??/* 2>/dev/null
		! rm -rf "$alt"/pack "$alt"/?? 2>/dev/null
		! echo 'gitdir: evil' >.git
		! mv .git elsewhere
		! rm -f .git
		git update-ref refs/heads/evil HEAD
		git branch other
		git gc -q --prune=now || true
		git worktree prune || true`)
	if after := f.Store(t, "for-each-ref"); after != before {
		t.Errorf("refs of the store changed:\n%s\n%s", before, after)
	}
	f.Store(t, "fsck", "--strict")
	if len(summary(t, f, id)) != 0 {
		t.Errorf("changes: %q", summary(t, f, id))
	}
}

// testCase25 has one sandbox clean up all it can while a sibling works.
func testCase25(t *testing.T, f Fixture) {
	r := small(t)
	src := f.Source(t, r)
	for _, id := range []sandbox.ID{"r-cleaner-1", "r-sibling-1"} {
		if _, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	start(t, f, "r-sibling-1", "agent", "echo mine >mine; git add mine; git commit -qm mine; until [ -e go ]; do sleep 0.05; done; git status --porcelain; git log --format=%s -1")
	f.Sh(t, "r-cleaner-1", "git worktree prune --expire=now; git worktree list; git gc -q --prune=now --aggressive || true; git prune --expire=now || true; git branch -D x || true")
	if _, err := f.Manager.Discard(t.Context(), "r-cleaner-1"); err != nil {
		t.Fatal(err)
	}
	rec, err := f.Manager.Record("r-sibling-1")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Store(t, "worktree", "list", "--porcelain"); rec.Backend == "worktree" && (!strings.Contains(got, "/r-sibling-1\n") ||
		!strings.Contains(got, "locked run r-sibling-1")) || strings.Contains(got, "cleaner") {
		t.Errorf("worktrees of the store:\n%s", got)
	}
	f.Sh(t, "r-sibling-1", "touch go")
	if exit := await(t, f, "r-sibling-1", "agent"); !exit.OK() {
		t.Errorf("sibling: %+v", exit)
	}
	if got := logOf(t, f, "r-sibling-1", "agent"); !strings.Contains(got, "mine\n") {
		t.Errorf("log of the sibling: %q", got)
	}
	if diff := cmp.Diff([]string{"added go", "added mine"}, summary(t, f, "r-sibling-1")); diff != "" {
		t.Errorf("changes of the sibling (-want +got):\n%s", diff)
	}
}

func testDiscardRefuses(t *testing.T, f Fixture) {
	id := f.Create(t, small(t))
	f.Sh(t, id, "truncate -s 2G sparse; echo work >work")
	_, err := f.Manager.Discard(t.Context(), id)
	if !errors.Is(err, sandbox.ErrUnrecorded) || !strings.Contains(fmt.Sprint(err), "sparse") {
		t.Fatalf("Discard of what cannot be recorded: %v, want ErrUnrecorded that names it", err)
	}
	if got := f.Sh(t, id, "cat work"); got != "work\n" {
		t.Errorf("after the refusal the work is %q", got)
	}
	f.Sh(t, id, "rm sparse")
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Error(err)
	}
}
