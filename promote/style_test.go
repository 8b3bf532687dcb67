package promote

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func history(lines ...string) []string {
	var all []string
	for range 5 {
		all = append(all, lines...)
	}
	return all
}

func TestStyleOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subjects []string
		title    string
		paths    []string
		want     Style
	}{
		"no convention":         {history("Fix the sum", "Add a list", "docs: x"), "Sum returns 0", []string{"sum.go"}, Style{}},
		"conventional, a fix":   {history("fix: the sum", "feat(list)!: add", "Merge pull request #1"), "Sum returns 0", []string{"sum.go"}, Style{"fix: {title}", true}},
		"conventional, capital": {history("fix: The sum", "feat: Add it"), "Add a list", []string{"sum.go"}, Style{"feat: {title}", false}},
		"conventional, docs":    {history("fix: the sum", "docs: say it"), "Typo", []string{"docs/a.txt", "README.md"}, Style{"docs: {title}", true}},
		"conventional, tests":   {history("fix: the sum", "test: it"), "Flaky", []string{"a/sum_test.go"}, Style{"test: {title}", true}},
		"follows it already":    {history("fix: the sum", "feat: add"), "feat: a list", []string{"sum.go"}, Style{}},
		"by place":              {history("net/http: close the body", "cmd/go, go/build: stop"), "Sum returns 0", []string{"net/url/a.go", "net/url/b.go"}, Style{"net/url: {title}", true}},
		"by the last of it":     {history("http: close the body", "url: stop"), "Sum returns 0", []string{"net/url/a.go"}, Style{"url: {title}", true}},
		"by place, at the root": {history("net/http: close the body", "net/url: stop"), "Sum returns 0", []string{"a.go"}, Style{}},
		"by place, not a word":  {history("http: close the body", "url: stop"), "Sum returns 0", []string{"fixes #1 @octavia/a.go"}, Style{}},
		"by place, a reference": {history("net/http: close the body", "net/url: stop"), "Sum returns 0", []string{"closes/GH-1/a.go"}, Style{}},
		"too little is known":   {[]string{"fix: the sum"}, "Sum returns 0", []string{"sum.go"}, Style{}},
	} {
		if diff := cmp.Diff(c.want, StyleOf(c.subjects, c.title, c.paths)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTitleInStyle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		style       Style
		title, want string
	}{
		{Style{"fix: {title}", true}, "Sum returns 0.", "fix: sum returns 0"},
		{Style{"fix: {title}", true}, "API returns 0", "fix: API returns 0"},
		{Style{"fix: {title}", false}, "Sum returns 0", "fix: Sum returns 0"},
		{Style{"fix: {title}", true}, "feat(list): Add one", "feat(list): Add one"},
		{Style{"[#{issue}] {title}", false}, "Sum", "[#12] Sum"},
		{Style{}, "Sum", "Sum"},
	} {
		r := request()
		r.Title, r.Style = c.title, c.style
		if got := title(r, subjectMax, strings.Clone); got != c.want {
			t.Errorf("%+v of %q: %q, want %q", c.style, c.title, got, c.want)
		}
	}
}

func TestStyleForRules(t *testing.T) {
	t.Parallel()
	rule := func(operator, pattern string) Rules {
		r := Rule{Type: "commit_message_pattern"}
		r.Parameters.Operator, r.Parameters.Pattern = operator, pattern
		return Rules{Base: []Rule{r}}
	}
	for name, c := range map[string]struct {
		rules Rules
		want  Style
	}{
		"no rules":      {Rules{}, Style{}},
		"conventional":  {rule("regex", `^(feat|fix|chore)(\(.+\))?: .+`), Style{"fix: {title}", false}},
		"small letters": {rule("regex", `^(feat|fix): [a-z]`), Style{"fix: {title}", true}},
		"a number":      {rule("regex", `^#\d+: `), Style{"#{issue}: {title}", false}},
		"a word":        {rule("starts_with", "calc:"), Style{"calc:{title}", false}},
		"met already":   {rule("contains", "Sandpiper-Mission"), Style{}},
		"not to be met": {rule("regex", `^JIRA-\d+ `), Style{}},
	} {
		if diff := cmp.Diff(c.want, c.rules.StyleFor(request())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
