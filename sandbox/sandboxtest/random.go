package sandboxtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// names of which random trees are made: few, so that files meet directories, and odd.
var names = []string{"a", "b", "dir", "x.log", "y.crlf", "z.auto", ".gitignore", ".gitattributes", "sp ace", "new\nline", "qu\"ote", "back\\slash",
	"-dash", ":colon", "caf\u00e9", "\xff\xfe", "%pc", "st*r", "build", "A"}

var contents = []string{"", "one\n", "two\r\nlines\r\n", "mixed\r\nends\n", "bin\x00\r\n", "*.log\nbuild/\n", "!x.log\n/a\n", "dir/*\n!dir/b\n",
	"*.crlf text eol=crlf\n*.auto text=auto\n", "* text=auto\n", "*.auto -text\nb ident\n", "$Id$\n", "no newline"}

// Op is something that is done to a tree. What cannot be done, as a directory is in the way, is not.
type Op struct {
	Kind    int
	Path    string
	To      string // for a rename
	Content string // of a file, or the target of a link
}

// RandomOps are the same for the same state of r.
func RandomOps(r *rand.Rand, n int) []Op {
	ops := make([]Op, n)
	for i := range ops {
		o := &ops[i]
		o.Path = names[r.IntN(len(names))]
		for range r.IntN(3) {
			o.Path += "/" + names[r.IntN(len(names))]
		}
		o.Kind, o.Content = r.IntN(12), contents[r.IntN(len(contents))]
		o.To = names[r.IntN(len(names))]
	}
	return ops
}

// Script has a shell do the same as Apply.
func Script(ops []Op) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	var b strings.Builder
	b.WriteString("set +e; exec 2>/dev/null\n")
	for _, o := range ops {
		at, to := quote("./"+o.Path), quote("./"+o.To)
		switch o.Kind {
		case 0, 1:
			fmt.Fprintf(&b, "rm -rf %s\n", at)
		case 2:
			if path.Base(o.Path) != ".gitattributes" && !strings.Contains(o.Content, "\x00") {
				fmt.Fprintf(&b, "if [ -d %[1]s ] && ! [ -L %[1]s ]; then rmdir %[1]s; else rm -f %[1]s; fi; ln -sT -- %[2]s %[1]s\n", at, quote(o.Content))
			}
		case 3:
			fmt.Fprintf(&b, "if [ -f %[1]s ] && ! [ -L %[1]s ]; then if [ -x %[1]s ]; then chmod a-x %[1]s; else chmod a+x %[1]s; fi; fi\n", at)
		case 4:
			if o.To == ".gitattributes" {
				fmt.Fprintf(&b, "[ -L %s ] || ", at)
			}
			fmt.Fprintf(&b, "mv -fT %s %s\n", at, to)
		case 5:
			fmt.Fprintf(&b, "rm -rf %[1]s; mkdir -p %[1]s\n", at)
		default:
			fmt.Fprintf(&b, "mkdir -p %s; [ ! -L %[2]s ] || rm %[2]s; printf %[3]s >%[2]s\n", quote("./"+path.Dir(o.Path)), at, quote(octal(o.Content)))
		}
	}
	return b.String() + ":\n"
}

// octal writes a text for printf.
func octal(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return b.String()
}

// Apply does it to the tree below a directory.
func (o Op) Apply(root string) {
	at, to := filepath.Join(root, o.Path), filepath.Join(root, o.To)
	// Git reads the target of a link that is called .gitattributes as attributes once it is in the index (2.39 does).
	if info, err := os.Lstat(at); o.Kind == 2 && filepath.Base(at) == ".gitattributes" ||
		o.Kind == 4 && filepath.Base(to) == ".gitattributes" && err == nil && info.Mode()&os.ModeSymlink != 0 {
		return
	}
	switch o.Kind {
	case 0, 1:
		os.RemoveAll(at)
	case 2:
		os.Remove(at)
		os.Symlink(o.Content, at)
	case 3:
		if info, err := os.Lstat(at); err == nil && info.Mode().IsRegular() {
			os.Chmod(at, info.Mode()^0o111)
		}
	case 4:
		os.Rename(at, to)
	case 5:
		os.RemoveAll(at)
		os.MkdirAll(at, 0o755)
	default:
		os.MkdirAll(filepath.Dir(at), 0o755)
		if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
			os.Remove(at)
		}
		os.WriteFile(at, []byte(o.Content), 0o644)
	}
}

// number reads a setting of a test.
func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// found are seeds that once showed a difference: a link as .gitignore of the base; a name that is no UTF-8, in a container.
var found = []uint64{1795975021925297606, 1795978706258361831}

// testAtRandom compares what is collected after random changes of random trees with what git add -A makes of the same in a plain clone.
// SANDPIPER_FUZZ_MINUTES has it go on for longer, over trees that no run has seen; SANDPIPER_FUZZ_SEED begins where something was found.
func testAtRandom(t *testing.T, f Fixture) {
	otherwise := uint64(1) // a change of the code is judged, not the day's luck
	if number("SANDPIPER_FUZZ_MINUTES", 0) > 0 {
		otherwise = uint64(time.Now().UnixNano())
	}
	seed := number("SANDPIPER_FUZZ_SEED", otherwise)
	for _, known := range found {
		t.Run(fmt.Sprint(known), func(t *testing.T) { compareAtRandom(t, f, known) })
	}
	end := time.Now().Add(time.Duration(number("SANDPIPER_FUZZ_MINUTES", 0)) * time.Minute)
	for i := 0; i < 6 || time.Now().Before(end); i++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { compareAtRandom(t, f, seed) }) {
			return
		}
		seed++
	}
}

func compareAtRandom(t *testing.T, f Fixture, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	repo := NewRepo(t)
	for _, o := range RandomOps(r, 5+r.IntN(25)) {
		o.Apply(repo.Dir)
	}
	repo.Git("add", "-A", "-f")
	repo.Git("commit", "-q", "--allow-empty", "-m", "x")
	clone := &Repo{t: t, Dir: t.TempDir()}
	clone.Git("clone", "-q", "file://"+repo.Dir, ".")
	if !clone.trySettle() {
		t.Skip("a base whose line endings are not what its attributes say: to git it is changed as soon as it is checked out")
	}
	script := Script(RandomOps(r, 1+r.IntN(20)))
	id := f.Create(t, repo)
	// By the standard input, since not every backend takes arguments that are no UTF-8.
	exit, err := f.Manager.Run(t.Context(), id, sandbox.Command{Argv: []string{"sh", "-s"}}, sandbox.Stdio{In: strings.NewReader(script)})
	if err != nil || !exit.OK() {
		t.Fatalf("script in sandbox: %+v, %v", exit, err)
	}
	got := f.Store(t, "rev-parse", collect(t, f, id)+"^{tree}")
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = clone.Dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if want := AddAll(t, clone.Dir); got != want {
		t.Errorf("SANDPIPER_FUZZ_SEED=%d: the tree is %s, git add -A makes %s; what differs:\n%s\nwhat was done:\n%q", seed, got, want,
			differing(t, f, clone, got, want), script)
	}
	if _, err := f.Manager.Discard(t.Context(), id); err != nil {
		t.Error(err)
	}
	if err := f.Manager.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// AddAll gives the tree that git add -A makes in a working tree, where .gitattributes that were deleted still hold for what was changed beside them. Git
// itself takes them from its index as long as it has not come to delete them there, or keeps them in mind: what it does with the
// others depends on the order of names, and on whether it had to look into a file before.
func AddAll(t *testing.T, dir string) (tree string) {
	t.Helper()
	r := &Repo{t: t, Dir: dir}
	var gone []string
	for name := range strings.SplitSeq(r.Git("ls-files", "-z"), "\x00") {
		at := filepath.Join(r.Dir, name)
		if path.Base(name) != ".gitattributes" || exists(at) || !isDir(filepath.Dir(at)) || r.Git("cat-file", "-t", ":"+name) != "blob" {
			continue
		}
		if !strings.HasPrefix(r.Git("ls-files", "-s", "--", ":(literal)"+name), "100") {
			continue
		}
		r.Git("checkout-index", "--", name)
		gone = append(gone, name)
	}
	r.Git("add", "-A")
	for _, name := range gone {
		r.Git("update-index", "--force-remove", "--", name)
	}
	tree = r.Git("write-tree")
	return tree[strings.LastIndexByte(tree, '\n')+1:] // after warnings about rules
}

// isDir says whether a path leads to a directory through directories only.
func isDir(p string) bool {
	real, err := filepath.EvalSymlinks(p)
	if err != nil || real != p {
		return false
	}
	info, err := os.Lstat(p)
	return err == nil && info.IsDir()
}
