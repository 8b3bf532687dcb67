package gitname

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
		if got := IsGit(name); got != want {
			t.Errorf("IsGit(%q) = %v", name, got)
		}
	}
}

func TestEscapeCanBeUndone(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{".git", "%.git", "%%.git", "%", "%%", "a", "a%", ".GIT", "git~1", "%git~1", " .git"} {
		e := Escape(name)
		if Forbidden(e) {
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

func TestUnescape(t *testing.T) {
	t.Parallel()
	for escaped, want := range map[string]string{
		"a/b": "a/b", "%%": "%", "%%%": "%%", "%%a/%%b": "%a/%b", "%.git/HEAD": "%.git/HEAD", "%%.git": "%%.git", "x/%.GIT": "x/%.GIT", "%git~1": "%git~1", "%": "%",
	} {
		if got := Unescape(escaped); got != want {
			t.Errorf("Unescape(%q) = %q, want %q", escaped, got, want)
		}
	}
}
