package collect

import (
	"strings"
	"testing"
)

func TestIsGit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		".git": true, ".GIT": true, ".Git": true, "git~1": true, "GIT~1": true, ".git ": true, ".git.": true, ".git . .": true, ".git:": true,
		".git::$INDEX_ALLOCATION": true, ".g\u200cit": true, "\ufeff.git": true, ".git\u200f": true, ".g\u202ei\u206ft": true,
		"a\\.git": true, ".git\\x": true, "git~1 ": true, "git~1:x": true,
		".gitignore": false, ".gitmodules": false, "git": false, "git~2": false, "x.git": false, ".git-x": false, ".gi": false, ".git\x80": false,
		"a:.git": false, "..git": false, "%.git": false, ".g it": false,
	} {
		if got := isGit(name); got != want {
			t.Errorf("isGit(%q) = %v", name, got)
		}
	}
}

func TestEscapeCanBeUndone(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{".git", "%.git", "%%.git", "%", "%%", "a", "a%", ".GIT", "git~1", "%git~1", " .git"} {
		e := Escape(name)
		if forbidden(e) {
			t.Errorf("Escape(%q) = %q, which git does not take", name, e)
		}
		if other, ok := seen[e]; ok {
			t.Errorf("%q and %q both become %q", name, other, e)
		}
		seen[e] = name
		if back := strings.TrimPrefix(e, "%"); back != name {
			t.Errorf("%q becomes %q and then %q", name, e, back)
		}
	}
}

func TestLeaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at, target string
		want       bool
	}{
		{"l", "a", false}, {"l", "/a", true}, {"l", "..", true}, {"l", "../a", true}, {"d/l", "../a", false}, {"d/l", "../../a", true},
		{"d/l", "x/../../a", false}, {"d/l", "x/../../../a", true}, {"l", "..a", false}, {"l", ".", false}, {"l", "", false},
	} {
		if got := leaves(c.at, c.target); got != c.want {
			t.Errorf("leaves(%q, %q) = %v", c.at, c.target, got)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	if got := printable("a\x1b]0;x\n\u202e\xff"); got != `a\x1b]0;x\n\u202e\xff` {
		t.Errorf("printable: %s", got)
	}
	if got := printable(strings.Repeat("\n", 5000)); len(got) > maxEvidence {
		t.Errorf("%d bytes of evidence", len(got))
	}
}
