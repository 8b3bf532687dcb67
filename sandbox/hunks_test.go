package sandbox

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gitIn runs git in a directory of its own, with no configuration, and gives its output whatever it exits with.
func gitIn(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && stderr.Len() > 0 {
		t.Fatalf("git %v: %v\n%s\n%s", args, err, stderr.String(), stdin)
	}
	return string(out)
}

// someText has few different lines, so that git finds much to keep, in all the ways in which lines end.
func someText(r *rand.Rand, from string) string {
	var lines []string
	if from == "" {
		for range r.IntN(60) {
			lines = append(lines, fmt.Sprintf("%c%s", 'a'+rune(r.IntN(8)), []string{"\n", "\n", "\r\n", "\r\r\n", " \n"}[r.IntN(5)]))
		}
	} else {
		lines = strings.SplitAfter(from, "\n")
	}
	for range 1 + r.IntN(6) {
		at := r.IntN(len(lines) + 1)
		switch made := fmt.Sprintf("new %d%s", r.IntN(3), []string{"\n", "\r\n"}[r.IntN(2)]); {
		case at < len(lines) && r.IntN(2) == 0:
			lines = append(lines[:at], lines[at+1:]...)
		default:
			lines = append(lines[:at], append([]string{made}, lines[at:]...)...)
		}
	}
	text := strings.Join(lines, "")
	if r.IntN(3) == 0 {
		text = strings.TrimSuffix(text, "\n")
	}
	return text
}

// TestSpliceIsWhatGitApplies holds what is made of some hunks to what git apply makes of a patch with only these.
func TestSpliceIsWhatGitApplies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pieces := regexp.MustCompile(`(?m)^@@ `)
	many := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		was := someText(r, "")
		is := someText(r, was)
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(os.WriteFile(filepath.Join(dir, "was"), []byte(was), 0o644))
		must(os.WriteFile(filepath.Join(dir, "is"), []byte(is), 0o644))
		patch := gitIn(t, dir, "", "diff", "--no-index", "-U3", "--inter-hunk-context=0", "--diff-algorithm=myers", "was", "is")
		heads := hunkHead.FindAllStringSubmatch(patch, -1)
		if len(heads) > 1 {
			many++
		}
		starts := append(pieces.FindAllStringIndex(patch, -1), []int{len(patch)})
		var chosen []hunk
		partial := "diff --git a/was b/was\n--- a/was\n+++ b/was\n"
		for i, head := range heads {
			if r.IntN(2) == 0 {
				continue
			}
			var h hunk
			bytesOf := func(s string) []byte {
				if s == "" {
					return nil
				}
				return []byte(s)
			}
			h.oldAt, h.oldLines = span([]byte(head[1]), bytesOf(head[2]))
			h.newAt, h.newLines = span([]byte(head[3]), bytesOf(head[4]))
			chosen = append(chosen, h)
			partial += patch[starts[i][0]:starts[i+1][0]]
		}
		got, err := splice([]byte(was), []byte(is), chosen)
		must(err)
		want := was
		if len(chosen) > 0 {
			gitIn(t, dir, partial, "apply", "--whitespace=nowarn", "-")
			text, err := os.ReadFile(filepath.Join(dir, "was"))
			must(err)
			want = string(text)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("seed %d (-git apply +splice):\n%s", seed, diff)
		}
	}
	if many < 20 {
		t.Errorf("only %d of the texts had several hunks", many)
	}
}

func TestSpliceRefusesForeignHunks(t *testing.T) {
	t.Parallel()
	for _, h := range [][]hunk{{{oldAt: 3, oldLines: 1}}, {{newAt: 1, newLines: 9}}, {{oldAt: 1, oldLines: 1}, {oldAt: 0, oldLines: 1}}} {
		if text, err := splice([]byte("a\nb\n"), []byte("a\n"), h); err == nil {
			t.Errorf("%+v gave %q", h, text)
		}
	}
}

func TestNumberHunks(t *testing.T) {
	t.Parallel()
	in := "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@ func f() {\n-@@ -1 +1 @@\n+d\n@@ -9,2 +9 @@\n r\n" +
		"diff --git a/y b/y\nnew file mode 100644\n@@ -0,0 +1 @@\n+new file mode\n" +
		"diff --git a/z b/z\n@@ -1 +1 @@\n-s\n\\ No newline at end of file\n+n"
	want := strings.NewReplacer("@@ func", "@@ hunk 1 func", "-9,2 +9 @@", "-9,2 +9 @@ hunk 2", "b/z\n@@ -1 +1 @@", "b/z\n@@ -1 +1 @@ hunk 1").Replace(in)
	for _, step := range []int{1, 2, 7, len(in)} {
		var out bytes.Buffer
		w := NumberHunks(&out)
		for rest := in; rest != ""; {
			n := min(step, len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("in steps of %d (-want +got):\n%s", step, diff)
		}
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string][][2]int{
		"a.go:2": {{2, 2}}, "d/a b:1,4-6": {{1, 1}, {4, 6}}, "t:mode": {{0, 0}}, "t:3,mode": {{3, 3}, {0, 0}}, "a:1:2": {{2, 2}},
		"a.go": nil, "a[:]2": nil, "a.go:": nil, "a.go:0": nil, "a.go:1,": nil, ":1": nil, "a:b": nil, "a:1-": nil,
	} {
		p, ok := parsePart(entry)
		if diff := cmp.Diff(want, p.pieces); diff != "" || ok != (want != nil) {
			t.Errorf("%s (-want +got):\n%s", entry, diff)
		}
	}
}
