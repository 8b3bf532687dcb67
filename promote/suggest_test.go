package promote

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var roomy = SuggestLimits{Suggestions: 100, Text: 10_000, Patch: 50_000}

func plainly(s string) string { return s }

// three writes a file of base, head and result, and gives what the page shows and the result's diff.
type three struct {
	t   *testing.T
	dir string
}

func newThree(t *testing.T) three {
	t.Helper()
	x := three{t, t.TempDir()}
	x.git("init", "-q")
	return x
}

func (x three) git(args ...string) string {
	x.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = x.dir, []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	out, err := cmd.Output()
	if err != nil {
		x.t.Fatalf("git %q: %v\n%s", args, err, err.(*exec.ExitError).Stderr)
	}
	return string(out)
}

func (x three) commit(files map[string]string) string {
	x.t.Helper()
	x.git("rm", "-rq", "--cached", "--ignore-unmatch", ".")
	for name, text := range files {
		must(x.t, os.MkdirAll(filepath.Dir(filepath.Join(x.dir, name)), 0o755))
		must(x.t, os.WriteFile(filepath.Join(x.dir, name), []byte(text), 0o644))
		x.git("add", "--", name)
	}
	x.git("commit", "-q", "--allow-empty", "-m", "x")
	return strings.TrimSpace(x.git("rev-parse", "HEAD"))
}

func (x three) diff(from, to string) string {
	x.t.Helper()
	return x.git("diff-tree", "-r", "-p", "--no-renames", from, to)
}

// shown is what the page has of each file.
func (x three) shown(base, head string) map[string]string {
	shown := map[string]string{}
	for _, s := range sections(x.diff(base, head)) {
		path, _, _ := readSection(s)
		if at := strings.Index(s, "\n@@"); at >= 0 {
			shown[path] = strings.TrimSuffix(s[at+1:], "\n")
		}
	}
	return shown
}

func numbered(n int, other map[int]string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if text, ok := other[i]; ok {
			b.WriteString(text)
		} else {
			fmt.Fprintf(&b, "line %d\n", i)
		}
	}
	return b.String()
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	base, head := numbered(40, nil), numbered(40, map[int]string{10: "ten\n", 30: "thirty\n"}) // the page shows 7 to 13 and 27 to 33
	for name, tt := range map[string]struct {
		result string
		want   []Suggestion
		patch  bool
		unseen bool
	}{
		"one line":                    {result: numbered(40, map[int]string{10: "TEN\n", 30: "thirty\n"}), want: []Suggestion{{"f", 10, 10, "TEN\n"}}},
		"several lines":               {result: numbered(40, map[int]string{9: "", 10: "TEN\nAND\n", 30: "thirty\n"}), want: []Suggestion{{"f", 9, 10, "TEN\nAND\n"}}},
		"a line away":                 {result: numbered(40, map[int]string{10: "", 30: "thirty\n"}), want: []Suggestion{{"f", 10, 10, ""}}},
		"put in behind":               {result: numbered(40, map[int]string{10: "ten\n", 30: "thirty\nmore\n"}), want: []Suggestion{{"f", 30, 30, "thirty\nmore\n"}}},
		"put in before what is shown": {result: numbered(40, map[int]string{6: "line 6\nmore\n", 10: "ten\n", 30: "thirty\n"}), want: []Suggestion{{"f", 7, 7, "more\nline 7\n"}}},
		"what the page does not show": {result: numbered(40, map[int]string{10: "ten\n", 20: "twenty\n", 30: "thirty\n"}), patch: true},
		"from one hunk to the other":  {result: numbered(40, map[int]string{13: "", 14: "", 15: "", 10: "ten\n", 30: "thirty\n"}), patch: true},
		"some of it":                  {result: numbered(40, map[int]string{10: "TEN\n", 14: "x\n", 30: "THIRTY\n"}), want: []Suggestion{{"f", 10, 10, "TEN\n"}, {"f", 30, 30, "THIRTY\n"}}, patch: true},
		"a fence":                     {result: numbered(40, map[int]string{10: "```\n", 30: "thirty\n"}), want: []Suggestion{{"f", 10, 10, "```\n"}}},
		"a letter that is not seen":   {result: numbered(40, map[int]string{10: "t\u200ben\n", 30: "thirty\n"}), unseen: true},
		"a carriage return":           {result: numbered(40, map[int]string{10: "ten\r\n", 30: "thirty\n"}), unseen: true},
		"what is redacted":            {result: numbered(40, map[int]string{10: "hunter2\n", 30: "thirty\n"}), unseen: true},
		"no newline at the end":       {result: numbered(39, map[int]string{10: "ten\n", 30: "thirty\n"}) + "line 40", patch: true},
		"too long":                    {result: numbered(40, map[int]string{10: strings.Repeat("x", 10_001) + "\n", 30: "thirty\n"}), patch: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newThree(t)
			a, b, c := x.commit(map[string]string{"f": base}), x.commit(map[string]string{"f": head}), x.commit(map[string]string{"f": tt.result})
			got := Suggest(x.shown(a, b), x.diff(b, c), func(s string) string { return strings.ReplaceAll(s, "hunter2", "…") }, roomy)
			if diff := cmp.Diff(tt.want, got.Suggestions); diff != "" {
				t.Errorf("suggestions (-want +got)\n%s", diff)
			}
			if (got.Patch != "") != tt.patch || (len(got.Unshown) > 0) != tt.unseen {
				t.Errorf("patch %q, not shown %q", got.Patch, got.Unshown)
			}
		})
	}
}

// TestSuggestOtherFiles: what is no change of an ordinary file's lines comes as a patch, whole, or is named.
func TestSuggestOtherFiles(t *testing.T) {
	t.Parallel()
	x := newThree(t)
	odd := "a \"b\" ä.txt"
	a := x.commit(map[string]string{"gone": "x\n", odd: "1\n", "bin": "\x00"})
	b := x.commit(map[string]string{"gone": "y\n", odd: "2\n", "bin": "\x00\x00", "run": "1\n"})
	x.git("update-index", "--chmod=+x", "run")
	must(t, os.WriteFile(filepath.Join(x.dir, odd), []byte("3\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(x.dir, "new"), []byte("n\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(x.dir, "bin"), []byte("\x00\x01"), 0o644))
	must(t, os.Remove(filepath.Join(x.dir, "gone")))
	x.git("add", "--ignore-removal", odd, "new", "bin")
	x.git("rm", "-q", "--cached", "gone")
	x.git("commit", "-q", "-m", "x")
	c := strings.TrimSpace(x.git("rev-parse", "HEAD"))
	got := Suggest(x.shown(a, b), x.diff(b, c), plainly, roomy)
	if diff := cmp.Diff([]Suggestion{{odd, 1, 1, "3\n"}}, got.Suggestions); diff != "" {
		t.Errorf("suggestions (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bin"}, got.Unshown); diff != "" {
		t.Errorf("not shown (-want +got)\n%s", diff)
	}
	x.git("checkout", "-qf", b)
	must(t, os.WriteFile(filepath.Join(x.dir, "p"), []byte(got.Patch), 0o600))
	x.git("apply", "--index", "p")
	if diff := cmp.Diff([]string{"D\tgone", "A\tnew", "M\trun"}, strings.Split(strings.TrimSpace(x.git("diff-index", "--cached", "--name-status", b)), "\n")); diff != "" {
		t.Errorf("what the patch changes (-want +got)\n%s", diff)
	}
	few := Suggest(x.shown(a, b), x.diff(b, c), plainly, SuggestLimits{})
	if len(few.Suggestions) != 0 || few.Patch != "" || len(few.Unshown) != 5 {
		t.Errorf("without room: %+v", few)
	}
}

// TestSuggestIsWhatWasMade: the lines of the suggestions and of the patch, put into the head, give the result; whatever the three are.
func TestSuggestIsWhatWasMade(t *testing.T) {
	t.Parallel()
	x := newThree(t)
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 0
		base := make([]string, r.IntN(50))
		for i := range base {
			base[i] = fmt.Sprintf("line %d\n", i)
		}
		change := func(lines []string) (out []string) {
			for _, line := range lines {
				n++
				switch r.IntN(9) {
				case 0:
					continue
				case 1:
					line = fmt.Sprintf("other %d\n", n)
				case 2:
					line += fmt.Sprintf("new %d\n", n)
				}
				out = append(out, strings.SplitAfter(line, "\n")...)
			}
			return append(slices.DeleteFunc(out, func(s string) bool { return s == "" }), "end\n"[r.IntN(2)*4:])
		}
		head := change(base)
		result := change(head)
		a, b, c := x.commit(map[string]string{"f": strings.Join(base, "")}), x.commit(map[string]string{"f": strings.Join(head, "")}), x.commit(map[string]string{"f": strings.Join(result, "")})
		got := Suggest(x.shown(a, b), x.diff(b, c), plainly, SuggestLimits{Suggestions: 1 + int(seed%4), Text: 1000, Patch: 100_000})
		edits := got.Suggestions
		if got.Patch != "" {
			x.git("checkout", "-qf", b)
			must(t, os.WriteFile(filepath.Join(x.dir, "p"), []byte(got.Patch), 0o600))
			x.git("apply", "--index", "p")
			edits = append(edits, editsBetween(x.git("diff-index", "--cached", "-p", "-U0", b))...)
		}
		if diff := cmp.Diff(strings.Join(result, ""), edited(t, strings.Join(head, ""), edits)); diff != "" || len(got.Unshown) > 0 {
			t.Fatalf("seed %d: not shown %q (-want +got)\n%s\n%+v", seed, got.Unshown, diff, got)
		}
	}
}

// editsBetween reads a diff without context.
func editsBetween(diff string) (list []Suggestion) {
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "@@") {
			m := hunkForm.FindStringSubmatch(line)
			count := 1
			if m[2] != "" {
				fmt.Sscan(m[2], &count)
			}
			at := hunkHead(line).old
			if count == 0 {
				at++
			}
			list = append(list, Suggestion{Start: at, Line: at + count - 1})
		} else if line[0] == '+' && len(list) > 0 {
			list[len(list)-1].Text += line[1:]
		}
	}
	return list
}

// edited puts edits into a text, from behind.
func edited(t *testing.T, text string, edits []Suggestion) string {
	t.Helper()
	lines := slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(s string) bool { return s == "" })
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Suggestion) int { return 2*(b.Start-a.Start) + b.Line - a.Line })
	for i, e := range edits {
		if i > 0 && e.Line >= edits[i-1].Start {
			t.Fatalf("%+v overlaps %+v", e, edits[i-1])
		}
		lines = slices.Replace(lines, e.Start-1, e.Line, e.Text)
	}
	return strings.Join(lines, "")
}

// TestSuggestOnOddPages: what the page shows is taken as it is, and nothing is suggested on a line that it does not end.
func TestSuggestOnOddPages(t *testing.T) {
	t.Parallel()
	const open = "\\ No newline at end of file\n"
	for name, tt := range map[string]struct {
		shown, result string // hunks
		want          []Suggestion
	}{
		"the base was not ended":     {"@@ -1,2 +1,2 @@\n a\n-x\n" + open + "+y", "@@ -1,2 +1,2 @@\n-a\n+b\n y\n", []Suggestion{{"f", 1, 1, "b\n"}}},
		"the head is not ended":      {"@@ -1 +1 @@\n-x\n+y\n" + open, "@@ -1 +1 @@\n-y\n" + open + "+z\n" + open, nil},
		"put in before such a line":  {"@@ -1 +1 @@\n-x\n+y\n" + open, "@@ -1 +1,2 @@\n+z\n y\n" + open, nil},
		"the result is not ended":    {"@@ -1 +1 @@\n-x\n+y\n", "@@ -1 +1 @@\n-y\n+z\n" + open, nil},
		"two hunks without a gap":    {"@@ -1 +1 @@\n-a\n+b\n@@ -2 +2 @@\n-c\n+d", "@@ -1,2 +1 @@\n-b\n-d\n+e\n", nil},
		"the page has another head":  {"@@ -1 +1 @@\n-x\n+other", "@@ -1 +1 @@\n-y\n+z\n", nil},
		"a file that was empty":      {"", "@@ -0,0 +1 @@\n+z\n", nil},
		"two that want the same one": {"@@ -2 +2 @@\n-x\n+y", "@@ -1,2 +1,4 @@\n+a\n 1\n+b\n y\n+c\n", []Suggestion{{"f", 2, 2, "b\ny\n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Suggest(map[string]string{"f": tt.shown}, "diff --git a/f b/f\nindex 123..456 100644\n--- a/f\n+++ b/f\n"+tt.result, plainly, roomy)
			if diff := cmp.Diff(tt.want, got.Suggestions); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if (got.Patch == "") != (len(tt.want) == 1 && !strings.Contains(name, "two")) {
				t.Errorf("patch %q", got.Patch)
			}
		})
	}
}
