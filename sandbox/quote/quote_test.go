package quote

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"plain text stays":       {"a\tb\nc", "a\tb\nc"},
		"control characters go":  {"a\x1b[31mb\x00\r\n\u0085c", "a[31mb\nc"},
		"invalid UTF-8 is shown": {"a\xffb", "a\ufffdb"},
		"bidi controls go":       {"a\u202eb\u2066c", "abc"},
		"zero width goes":        {"a\u200bb\ufeffc\u00add", "abcd"},
		"tag characters go":      {"a\U000e0041\U000e007fb", "ab"},
		"variation selectors go": {"a\U000e0100\ufe01b", "ab"},
		"emoji keep joiners":     {"👩\u200d💻 ❤\ufe0f", "👩\u200d💻 ❤\ufe0f"},
		"separators are spaces":  {"a\u2028b", "a b"},
		"other scripts stay":     {"名前 عربى", "名前 عربى"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Clean(tt.in)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "…"}, // the mark alone has three bytes
		{"ääää", 6, "ä…"},
		{"äää", 7, "äää"},
		{"äääää", 4, "…"},
	} {
		got := Cut(tt.in, tt.n, "…")
		if got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
		if len(got) > tt.n || !utf8.ValidString(got) {
			t.Errorf("Cut(%q, %d) = %q: %d bytes, valid %v", tt.in, tt.n, got, len(got), utf8.ValidString(got))
		}
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"a.go", "`a.go`"},
		{"", "_(empty)_"},
		{"a`b", "``a`b``"},
		{"`a`", "`` `a` ``"},
		{"a\nb", "`a b`"},
		{"@octocat closes #1", "`@octocat closes #1`"},
	} {
		if got := Code(tt.in); got != tt.want {
			t.Errorf("Code(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	if got, want := Cell("a|b`c"), "``a\\|b`c``"; got != want {
		t.Errorf("Cell = %q, want %q", got, want)
	}
}

func TestFenceCannotBeClosed(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"a\n```\n@all\n", "`````\n", "~~~\n```", "x", strings.Repeat("`", 70_000)} {
		lines := strings.Split(Fence(in), "\n")
		open := strings.TrimSuffix(lines[0], "text")
		if got := len(Fence(in)); got > len(in)+250 {
			t.Errorf("%d bytes became %d", len(in), got)
		}
		for _, l := range lines[1 : len(lines)-1] {
			if strings.HasPrefix(strings.TrimSpace(l), open) {
				t.Errorf("Fence(%q): line %q closes %q", in, l, open)
			}
		}
		if got := lines[len(lines)-1]; got != open {
			t.Errorf("Fence(%q) ends with %q, want %q", in, got, open)
		}
	}
}

func TestExact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", "```suggestion\n```"},
		{"\n", "```suggestion\n\n```"},
		{"a\t \n  b\n\n", "```suggestion\na\t \n  b\n\n```"},
		{"```go\nx\n```\n", "````suggestion\n```go\nx\n```\n````"},
		{"   ````` \n", "``````suggestion\n   ````` \n``````"},
		{"a", ""}, {"a\r\n", ""}, {"a\u200bb\n", ""}, {"\xff\n", ""}, {"\x1b[0m\n", ""},
		{strings.Repeat("`", 101) + "\n", ""},
	} {
		if got, ok := Exact("suggestion", tt.in); got != tt.want || ok != (tt.want != "") {
			t.Errorf("Exact(%q) = %q, %v, want %q", tt.in, got, ok, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"Sum returns 0", "Sum returns 0"},
		{"ask @octocat", "ask @&#8203;octocat"},
		{"Fixes #12, gh-3", `Fixes \#&#8203;12, gh\-&#8203;3`},
		{"https://github.com/a/b/issues/1", `https:&#8203;//github\.com/a/b/issues/1`},
		{"<!-- x --><img src=x>", `&lt;\!\-\- x \-\-&gt;&lt;img src\=x&gt;`},
		{"[a](b) `c` *d* &commat;e", "\\[a\\]\\(b\\) \\`c\\` \\*d\\* &amp;commat;e"},
		{"# head\n- item", `\# head \- item`},
	} {
		if diff := cmp.Diff(tt.want, Text(tt.in)); diff != "" {
			t.Errorf("Text(%q) (-want +got)\n%s", tt.in, diff)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"Sum returns 0 for a single number", "Sum returns 0 for a single number"},
		{"@acme/team fixes #3", "acme/team fixes 3"},
		{"closes acme/calc#12 and GH-4", "closes acme/calc12 and GH 4"},
		{"fixes https://github.com/a/b/issues/1", "fixes github.com/a/b/issues/1"},
		{"typo [skip ci] [CI-Skip]", "typo skip ci CI-Skip"},
		{"a\nSigned-off-by: x", "a Signed-off-by: x"},
		{"mail me@example.com", "mail me@example.com"},
		{"@@octocat ##1", "octocat 1"},
		{"fix " + strings.Repeat(":/", 500) + strings.Repeat("/", 500) + "@octocat #1", "fix octocat 1"},
		{"@https://@octo", "octo"},
		{"C# 12 and @ alone", "C# 12 and @ alone"},
		{"x skip-checks: true", "x skip checks true"},
	} {
		if diff := cmp.Diff(tt.want, Plain(tt.in)); diff != "" {
			t.Errorf("Plain(%q) (-want +got)\n%s", tt.in, diff)
		}
	}
}

// What must never be left in a commit message, whatever went in.
var alive = regexp.MustCompile(`(?i)(^|[^\pL\pN_.])@[a-z0-9]|#[0-9]|\bgh-[0-9]|://|\[\s*skip[ -]ci\s*\]`)

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"@a", "#1", "@#1", "x@@b", "gh-gh-1", "http://http://", "[[skip ci]skip ci]", "[\u200bskip ci]", "@\u200ba"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Plain(s)
		if m := alive.FindString(got); m != "" {
			t.Errorf("Plain(%q) = %q holds %q", s, got, m)
		}
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x00") {
			t.Errorf("Plain(%q) = %q", s, got)
		}
	})
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"@a", "#1", "\\@a", "GH-1", "<a>", "a\nb", "&#64;a", "http://x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if m := regexp.MustCompile(`(?i)@[^&]|#[0-9]+[^0-9;]|\bgh-[0-9]|://|[<>\n]`).FindString(got); m != "" {
			t.Errorf("Text(%q) = %q holds %q", s, got, m)
		}
	})
}
