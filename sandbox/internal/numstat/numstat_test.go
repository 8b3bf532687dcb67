package numstat

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	seed   = flag.Uint64("seed", 1, "of the random contents")
	rounds = flag.Int("rounds", 400, "how many random contents are compared")
)

// file is what a commit has at a path.
type file struct{ mode, content string }

// repo is a bare repository with commits that have given files.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T) repo {
	r := repo{t, t.TempDir()}
	r.git("", "init", "-q", "--bare", "--object-format=sha1", ".")
	return r
}

func (r repo) git(stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %q: %v", args, err)
	}
	return strings.TrimRight(string(out), "\n")
}

func (r repo) commit(files map[string]file) string {
	r.t.Helper()
	var s strings.Builder
	s.WriteString("commit refs/heads/x\ncommitter a <a@example.com> 1 +0000\ndata 0\n")
	if r.git("", "for-each-ref", "refs/heads/x") != "" {
		s.WriteString("from refs/heads/x^0\ndeleteall\n")
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		f := files[p]
		if f.mode == "160000" {
			fmt.Fprintf(&s, "M 160000 %s %s\n", f.content, p)
			continue
		}
		fmt.Fprintf(&s, "M %s inline %s\ndata %d\n%s\n", f.mode, p, len(f.content), f.content)
	}
	r.git(s.String(), "fast-import", "--quiet")
	return r.git("", "rev-parse", "refs/heads/x")
}

// lines are what git says: of each path, the old path and the numbers.
func (r repo) lines(from, to string) []string {
	out := strings.Split(r.git("", "diff-tree", "-r", "-z", "-M", "--numstat", "--ignore-submodules=none", from, to), "\x00")
	var list []string
	for i := 0; i < len(out) && out[i] != ""; i++ {
		n := strings.SplitN(out[i], "\t", 3)
		if n[2] == "" {
			n[2] = out[i+1] + " => " + out[i+2]
			i += 2
		}
		list = append(list, strings.Join(n, " "))
	}
	return list
}

func ours(list []Change) (lines []string) {
	number := func(n int) string {
		if n < 0 {
			return "-"
		}
		return fmt.Sprint(n)
	}
	for _, c := range list {
		p := c.Path
		if c.From != "" {
			p = c.From + " => " + p
		}
		lines = append(lines, number(c.Added)+" "+number(c.Removed)+" "+p)
	}
	return lines
}

func TestAsGitSays(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("some line\nanother one\n", 30)
	one, two := strings.Repeat("1", 40), strings.Repeat("2", 40)
	for name, c := range map[string]struct {
		was, is map[string]file
		doubt   bool
	}{
		"Nothing": {},
		"Files": {
			was: map[string]file{"a": {"100644", "x\n"}, "b/c": {"100755", "x"}, "gone": {"100644", "1\n2\n"}, "bin": {"100644", "\x00a"}, "same": {"100644", "x"}},
			is:  map[string]file{"a": {"100644", "x\ny"}, "b/c": {"100644", "x"}, "empty": {"100644", ""}, "bin": {"100644", "\x00b"}, "same": {"100644", "x"}}},
		"DirectoryOfFile": {
			was: map[string]file{"a": {"100644", text}, "a.b": {"100644", "1\n"}},
			is:  map[string]file{"a/x": {"100644", "1"}, "a.b": {"100644", "2\n"}}},
		"FileOfDirectory": {
			was: map[string]file{"a/x": {"100644", text}, "a/y/z": {"100644", text + "z"}, "a0": {"100644", text}},
			is:  map[string]file{"a": {"100644", "1"}, "a-b": {"100644", ""}}},
		"Types": {
			was: map[string]file{"a": {"100644", "x\ny\n"}, "b": {"120000", "x"}, "c": {"120000", "x"}, "s": {"160000", one}, "n": {"160000", one}, "f": {"100644", "f\n"}},
			is:  map[string]file{"a": {"120000", "x"}, "b": {"100644", "x"}, "c": {"120000", "y"}, "s": {"160000", two}, "m": {"160000", two}, "f": {"160000", one}}},
		"Renames": {
			was: map[string]file{"a": {"100644", text}, "b": {"100644", "\x00" + text}, "l": {"120000", "where"}, "s": {"160000", one}, "e": {"100644", ""}},
			is:  map[string]file{"d/a": {"100755", text}, "0": {"100644", "\x00" + text}, "k": {"120000", "where"}, "t": {"160000", one}, "f": {"100644", ""}}},
		"LinkBecomesFile": {
			was: map[string]file{"a": {"120000", "where"}}, is: map[string]file{"b": {"100644", "where"}}},
		"Unlike": {
			was: map[string]file{"a": {"100644", text}}, is: map[string]file{"b": {"100644", text[:len(text)/2-1]}}},
		"PerhapsRenamed": {doubt: true,
			was: map[string]file{"a": {"100644", text}}, is: map[string]file{"b": {"100644", text[:len(text)/2]}}},
		"TwoFromOne": {doubt: true,
			was: map[string]file{"a": {"100644", text}}, is: map[string]file{"b": {"100644", text}, "c": {"100644", text}}},
		"OneFromTwo": {doubt: true,
			was: map[string]file{"a": {"100644", text}, "b": {"100644", text}}, is: map[string]file{"c": {"100644", text}}},
		"Attributes": { // a bare repository has none
			was: map[string]file{".gitattributes": {"100644", "* -diff\n"}, "a": {"100644", "x"}},
			is:  map[string]file{".gitattributes": {"100644", "* -diff\n"}, "a": {"100644", "y"}}},
		"Large": {doubt: true, is: map[string]file{"a": {"100644", strings.Repeat(text, 20000)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			from, to := r.commit(c.was), r.commit(c.is)
			got, err := List(r.dir, from, to, true)
			if c.doubt {
				if !errors.Is(err, ErrDoubt) {
					t.Errorf("%v, %v; want doubt", ours(got), err)
				}
				return
			}
			if diff := cmp.Diff(r.lines(from, to), ours(got)); err != nil || diff != "" {
				t.Errorf("%v (-git +ours):\n%s", err, diff)
			}
			for _, g := range got {
				if f := c.is[g.Path]; f.mode != "160000" && g.Size != int64(len(f.content)) {
					t.Errorf("%s has %d bytes, want %d", g.Path, g.Size, len(f.content))
				}
			}
		})
	}
}

// TestCountsAtRandom holds the numbers of lines to git's, on contents with lines that are rare, frequent, or in one of the two only.
func TestCountsAtRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(*seed, 1))
	r := newRepo(t)
	sure, next := 0, 0
	for left := *rounds; left > 0; left -= 50 {
		was, is := map[string]file{}, map[string]file{}
		for i := range 50 {
			a, b := edited(rnd, &next)
			was[fmt.Sprintf("f%02d", i)], is[fmt.Sprintf("f%02d", i)] = file{"100644", a}, file{"100644", b}
		}
		from, to := r.commit(was), r.commit(is)
		want := map[string]string{}
		for _, l := range r.lines(from, to) {
			want[l[strings.LastIndexByte(l, ' ')+1:]] = l
		}
		for p := range was {
			added, removed, ok := count(was[p].content, is[p].content)
			if !ok {
				continue
			}
			sure++
			got := fmt.Sprintf("%d %d %s", added, removed, p)
			if want[p] == "" {
				want[p] = "0 0 " + p
			}
			if got != want[p] {
				t.Errorf("%q, git says %q, of\n%q\n%q", got, want[p], was[p].content, is[p].content)
			}
		}
	}
	if sure < *rounds/4 {
		t.Errorf("sure of %d of %d", sure, *rounds)
	}
	t.Logf("sure of %d of %d", sure, *rounds)
}

// edited makes a content and an edited one.
func edited(rnd *rand.Rand, next *int) (string, string) {
	kinds := 1 + rnd.IntN(30)
	line := func() string {
		if rnd.IntN(3) > 0 {
			*next++
			return fmt.Sprintf("line %d\n", *next)
		}
		return fmt.Sprintf("%c\n", 'a'+rnd.IntN(kinds))
	}
	var a, b []string
	for range rnd.IntN(150) {
		a = append(a, line())
	}
	often := 2 + rnd.IntN(40)
	for _, l := range a {
		switch rnd.IntN(often) {
		case 0:
		case 1:
			b = append(b, line())
			if rnd.IntN(2) == 0 {
				b = append(b, l)
			}
		default:
			b = append(b, l)
		}
	}
	if len(b) > 3 && rnd.IntN(4) == 0 { // a part elsewhere
		i := rnd.IntN(len(b) - 2)
		b = append(append(slices.Clone(b[:i]), b[i+2:]...), b[i:i+2]...)
	}
	end := func(l []string) string {
		s := strings.Join(l, "")
		if rnd.IntN(5) == 0 {
			s = strings.TrimSuffix(s, "\n")
		}
		return s
	}
	return end(a), end(b)
}
