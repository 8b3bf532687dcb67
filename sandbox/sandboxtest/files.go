package sandboxtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// rich is a repository with what makes collecting hard.
func rich(t *testing.T) *Repo {
	t.Helper()
	r := NewRepo(t)
	for name, content := range map[string]string{
		"a.txt": "one\n", "b.txt": "two\nlines\n", "dir/c.txt": "three\n", "dir/sub/d.txt": "four\n", "empty": "",
		".gitignore": "*.log\nbuild/\n!keep.log\n/only-top\n", "dir/.gitignore": "secret*\n!secret.ok\n",
		"tracked.log": "tracked though ignored\n", "build/tracked": "in an ignored directory\n",
		".gitattributes": "*.crlf text eol=crlf\n*.auto text=auto\n*.id ident\n*.u16 text working-tree-encoding=UTF-16LE eol=lf\n*.bin -text\n*.big filter=lfs\n",
		"x.crlf":         "a\nb\n", "x.auto": "a\nb\n", "x.id": "$Id$\n", "x.bin": "a\r\nb\x00\n", "x.big": "version https://git-lfs.github.com/spec/v1\n",
		"script": "#!/bin/sh\n", "weird \"quoted\" name": "q\n", "tab\tname": "t\n", "trailing ": "s\n", "-n": "dash\n",
	} {
		r.Write(name, content)
	}
	for link, target := range map[string]string{"link": "a.txt", "dirlink": "dir", "dangling": "nowhere"} {
		if err := os.Symlink(target, r.Dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(r.Dir+"/script", 0o755); err != nil {
		t.Fatal(err)
	}
	r.Git("add", "-A", "-f")
	r.Commit()
	return r
}

// likeAddAll are scripts after which the result has to be the tree that git add -A makes in a plain clone. LineEndingsGone touches a
// file: git looks into it, and so knows the attributes before it takes them from its index. Else it converts nothing.
var likeAddAll = map[string]string{
	"Nothing":                "true",
	"Touch":                  "touch a.txt b.txt dir/c.txt",
	"Modify":                 "echo more >>a.txt",
	"SameSizeSameTime":       "cp -p a.txt ../tmp.$$ 2>/dev/null || true; printf 'eno\\n' >a.txt; touch -d @1700000000 a.txt",
	"Add":                    "mkdir -p n/e/w && echo x >n/e/w/f && echo y >top",
	"EmptyFile":              ": >e1; : >dir/e2; : >a.txt",
	"EmptyDirectory":         "mkdir -p nothing/in/here",
	"Delete":                 "rm a.txt dir/sub/d.txt",
	"DeleteDirectory":        "rm -r dir",
	"DeleteAll":              "rm -rf -- * .gitignore .gitattributes",
	"Rename":                 "mv a.txt dir/renamed.txt; mv dir/sub moved",
	"ModeOn":                 "chmod +x a.txt; chmod 711 b.txt",
	"ModeOff":                "chmod -x script",
	"ModeOdd":                "chmod 600 a.txt; chmod 677 b.txt; chmod 700 script",
	"Links":                  "ln -s a.txt new; ln -sf b.txt link; rm dirlink; ln -s 'odd target ' odd; ln -s /etc/passwd abs; ln -s ../../out up",
	"FileToDirectory":        "rm a.txt; mkdir a.txt; echo in >a.txt/in; echo in >a.txt/out",
	"DirectoryToFile":        "rm -r dir; echo flat >dir",
	"FileToLink":             "rm a.txt; ln -s b.txt a.txt",
	"LinkToFile":             "rm link; echo real >link",
	"LinkToDirectory":        "rm dirlink; mkdir dirlink; echo x >dirlink/x",
	"DirectoryToLink":        "mv dir dir2; ln -s dir2 dir",
	"OddNames":               `for n in 'new\nline' 'qu"ote' 'back\\\\slash' '--option' '-rf' ' lead' 'trail ' 'st*r' 'q?' '[b]' ':c' ':(top)x' '#h' '~t' '%%p' '!n' '\001ctl' 'caf\303\251' '\377\376bad' '\303\050'; do f=$(printf -- "$n."); printf x >"./${f%.}"; done`,
	"Ignored":                "echo x >x.log; echo x >keep.log; mkdir -p build dir/build; echo x >build/out; echo x >dir/build/out; echo x >only-top; echo x >dir/only-top",
	"IgnoredNested":          "echo x >dir/secret1; echo x >dir/secret.ok; echo x >secret2; mkdir -p dir/sub/deep; echo x >dir/sub/deep/secret3",
	"TrackedIgnored":         "echo more >>tracked.log; echo more >>build/tracked",
	"TrackedIgnoredGone":     "rm tracked.log build/tracked",
	"IgnoreChanged":          "echo '*.tmp' >.gitignore; echo x >x.tmp; echo x >x.log; mkdir -p build; echo x >build/out",
	"IgnoreNew":              "mkdir n; echo '*' >n/.gitignore; echo x >n/x; echo '!y' >>n/.gitignore; echo y >n/y",
	"IgnoreDirOnly":          "printf 'gen/\\n' >>.gitignore; echo x >gen; mkdir -p s/gen; echo x >s/gen/x",
	"IgnoreOddName":          "printf 'we*\\n' >>.gitignore; echo x >\"$(printf 'we\\nird')\"; echo x >\"$(printf 'we\\377')\"",
	"IgnoreLink":             "rm .gitignore; ln -s a.txt .gitignore; echo x >x.log",
	"IgnoreIsDirectory":      "rm .gitignore; mkdir .gitignore; echo x >.gitignore/x; echo x >x.log",
	"LineEndings":            "printf 'a\\r\\nc\\r\\n' >x.crlf; printf 'n\\r\\n' >new.crlf; printf 'a\\r\\nz\\r\\n' >x.auto; printf 'b\\r\\n\\000' >x.bin",
	"LineEndingsNew":         "echo '*.t text eol=crlf' >dir/.gitattributes; printf 'a\\r\\n' >dir/x.t; printf 'a\\r\\n' >x.t",
	"LineEndingsGone":        "touch ./-n; rm .gitattributes; printf 'a\\r\\nc\\r\\n' >x.crlf; printf 'z\\r\\n' >y.auto",
	"LineEndingsOnlyTouch":   "touch x.crlf x.auto x.id x.u16 2>/dev/null || true",
	"Ident":                  "echo 'more $Id: 123$' >>x.id",
	"Encoding":               "printf 'h\\000i\\000\\n\\000' >new.u16",
	"FilterNotDefined":       "echo 'version 2' >x.big; echo 'big' >y.big",
	"ExecWithAttributes":     "chmod +x x.crlf; printf 'q\\r\\n' >>x.crlf",
	"HardLinks":              "ln a.txt hard; echo more >>hard",
	"Big":                    "head -c 5000000 /dev/zero >zeros; head -c 3000000 /dev/urandom | base64 >/dev/null; seq 200000 >numbers",
	"Case17CommitsThenDirty": "cp a.txt copy; git mv b.txt moved; echo q >'a \"quote\"'; printf x >\"$(printf 'ta\\tb')\"; git add -A; git -c user.name=a -c user.email=a@example.com commit -qm one; cp copy copy2; git add -A; git -c user.name=a -c user.email=a@example.com commit -qm two; echo dirty >>copy; rm moved",
	"Many":                   "mkdir many; i=0; while [ $i -lt 300 ]; do echo $i >many/$i; i=$((i+1)); done",
}

func testLikeAddAll(t *testing.T, f Fixture) {
	r := rich(t)
	src := f.Source(t, r)
	for name, script := range likeAddAll {
		t.Run(name, func(t *testing.T) {
			id, err := f.Manager.Create(t.Context(), "m-1", src, sandbox.Options{})
			if err != nil {
				t.Fatal(err)
			}
			f.Sh(t, id, script)
			got := f.Store(t, "rev-parse", collect(t, f, id)+"^{tree}")
			clone, want := addAll(t, r, script)
			if got != want {
				t.Errorf("tree is %s, git add -A makes %s; what differs:\n%s", got, want, differing(t, f, clone, got, want))
			}
			if _, err := f.Manager.Discard(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
}

// addAll runs the script in a plain clone and gives the tree that git add -A makes.
func addAll(t *testing.T, r *Repo, script string) (clone *Repo, tree string) {
	t.Helper()
	clone = &Repo{t: t, Dir: t.TempDir()}
	clone.Git("clone", "-q", "file://"+r.Dir, ".")
	if !clone.trySettle() {
		t.Fatal("the base is changed as soon as it is checked out")
	}
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir, cmd.Env = clone.Dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("script in the clone: %v\n%s", err, out)
	}
	clone.Git("add", "-A")
	return clone, clone.Git("write-tree")
}

// trySettle makes the files of a checkout older than its index, as they are in a clone that somebody works in. Git reads those again that
// are as young, and applies changed attributes to them: whether a fresh clone has such depends on how fast it was made. False: to git
// the files are not those of the index.
func (r *Repo) trySettle() bool {
	r.t.Helper()
	past := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(r.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return os.Chtimes(path, past, past)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.TryGit("update-index", "-q", "--really-refresh")
	return err == nil
}

func differing(t *testing.T, f Fixture, clone *Repo, got, want string) string {
	t.Helper()
	a := strings.Split(f.Store(t, "ls-tree", "-r", got), "\n")
	b := strings.Split(clone.Git("ls-tree", "-r", want), "\n")
	return cmp.Diff(b, a)
}

// testCase20 changes files of large file storage: never a pointer without object, in silence.
func testCase20(t *testing.T, f Fixture) {
	id := f.Create(t, rich(t))
	f.Sh(t, id, "echo big content >x.big; echo new >y.big; touch a.txt")
	collect(t, f, id)
	if diff := cmp.Diff([]string{"git.filter x.big (filter lfs)", "git.filter y.big (filter lfs)"}, findings(t, f, id)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func testChanges(t *testing.T, f Fixture) {
	id := f.Create(t, rich(t))
	f.Sh(t, id, `echo more >>a.txt; rm b.txt; printf '\000bin' >bin; mv dir/c.txt dir/moved; rm link; echo real >link; chmod -x script`)
	got, err := f.Manager.ListChanges(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got { // the ids as git names the contents
		got[i].OldID, got[i].NewID = strings.TrimSpace(blob(t, f, got[i].OldID)), strings.TrimSpace(blob(t, f, got[i].NewID))
	}
	slices.SortFunc(got, func(a, b sandbox.Change) int { return strings.Compare(a.Path, b.Path) })
	want := []sandbox.Change{
		{Path: "a.txt", Kind: sandbox.Modified, OldMode: "100644", NewMode: "100644", OldID: "one", NewID: "one\nmore", Size: 9, Added: 1},
		{Path: "b.txt", Kind: sandbox.Deleted, OldMode: "100644", OldID: "two\nlines", Removed: 2},
		{Path: "bin", Kind: sandbox.Added, NewMode: "100644", NewID: "\x00bin", Size: 4, Added: -1, Removed: -1},
		{Path: "dir/moved", From: "dir/c.txt", Kind: sandbox.Renamed, OldMode: "100644", NewMode: "100644", OldID: "three", NewID: "three", Size: 6},
		{Path: "link", Kind: sandbox.TypeChanged, OldMode: "120000", NewMode: "100644", OldID: "a.txt", NewID: "real", Size: 5, Added: 1, Removed: 1},
		{Path: "script", Kind: sandbox.Modified, OldMode: "100755", NewMode: "100644", OldID: "#!/bin/sh", NewID: "#!/bin/sh", Size: 10},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	var patch bytes.Buffer
	if err := f.Manager.Diff(t.Context(), id, &patch); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"+more\n", "GIT binary patch", "rename to dir/moved", "deleted file mode 100644"} {
		if !strings.Contains(patch.String(), want) {
			t.Errorf("the patch has no %q", want)
		}
	}
}

// blob gives the content of an object of the store; "" for no object.
func blob(t *testing.T, f Fixture, id string) string {
	t.Helper()
	var b strings.Builder
	if id != "" {
		if err := storeBlob(t, f, id, &b); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func testManyFiles(t *testing.T, f Fixture) {
	r := NewRepo(t)
	for i := range 10_000 {
		r.Write(fmt.Sprintf("d%d/f%d", i%100, i), fmt.Sprintln(i))
	}
	r.Commit()
	id := f.Create(t, r)
	f.Sh(t, id, "git status --porcelain | wc -l; echo x >>d7/f7; rm d8/f8; echo new >d9/new")
	if diff := cmp.Diff([]string{"modified d7/f7", "deleted d8/f8", "added d9/new"}, summary(t, f, id)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Error(err)
	}
}
