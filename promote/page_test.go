package promote

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"
)

func TestOwners(t *testing.T) {
	t.Parallel()
	const file = "# all\n* @acme/all @root\n*.js @js # comment\n/build/ @build\ndocs/* docs@acme.example @docs\napps/ @apps\n/scripts/x.sh\n/a\\ b/*.c @spaced\t# not @eve\n"
	for path, want := range map[string]string{
		"README":       "root +all",
		"a/b.js":       "js",
		"build/x/y.js": "build",
		"docs/a.md":    "docs",
		"docs/a/b.md":  "root +all",
		"x/apps/y":     "apps",
		"scripts/x.sh": "",
		"a b/x.c":      "spaced",
	} {
		people, teams := owners(file, []string{path})
		got := strings.Join(people, " ")
		if len(teams) > 0 {
			got += " +" + strings.Join(teams, " +")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// A matcher that tries each ** at each place does not come back from this.
func TestOwnersDoNotExplode(t *testing.T) {
	t.Parallel()
	file, deep := strings.Repeat("**/a/", 60)+"x @octavia\n", strings.Repeat("a/", 200)
	if f, x := OwnersOf(file, deep+"f"), OwnersOf(file, deep+"x"); len(f) != 0 || len(x) != 1 {
		t.Errorf("owners of f: %v, of x: %v", f, x)
	}
}

func TestTemplateIsHarmless(t *testing.T) {
	t.Parallel()
	got := harmless("<!-- read\nCONTRIBUTING -->\n## What\r\n\n\n\n- [x] tested\n- [ ] closes #12, asked @acme/team\n\u202e<!-- open")
	want := "## What\n\n- [ ] tested\n- [ ] closes #&#8203;12, asked @&#8203;acme/team"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestPage has a pull request carry labels, reviewers and the template, once, however often it is published.
func TestPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before(map[string]string{"CODEOWNERS": "* @octavia @mona @nobody\n", ".github/PULL_REQUEST_TEMPLATE.md": "## Checklist\n- [x] I have read it\n"})
	octavia, err := w.server.As("octavia")
	must(t, err)
	_, _, err = octavia.Issues.CreateLabel(t.Context(), "octavia", "calc", &github.Label{Name: github.String("agent"), Color: github.String("ededed")})
	must(t, err)
	w.req.Labels, w.req.Reviewers, w.req.Took = []string{"agent"}, true, "3s of the agent"
	for range 2 {
		_, err = w.publish()
		must(t, err)
	}
	pull, _, err := octavia.PullRequests.Get(t.Context(), "octavia", "calc", w.pulls()[0].GetNumber())
	must(t, err)
	var asked []string
	for _, u := range pull.RequestedReviewers {
		asked = append(asked, u.GetLogin())
	}
	if diff := cmp.Diff([]string{"mona"}, asked); diff != "" {
		t.Errorf("asked for a review; the requester and strangers are not (-want +got)\n%s", diff)
	}
	if len(pull.Labels) != 1 || pull.Labels[0].GetName() != "agent" {
		t.Errorf("labels %v", pull.Labels)
	}
	for _, want := range []string{"## Checklist\n- [ ] I have read it", "`3s of the agent`", "/sandpiper drop PATH"} {
		if !strings.Contains(pull.GetBody(), want) {
			t.Errorf("body lacks %q:\n%s", want, pull.GetBody())
		}
	}
	if n := slices.Index(strings.Split(pull.GetBody(), "\n"), "Closes #1"); n != 1 {
		t.Errorf("the closing line is line %d", n)
	}
}

// TestTicksOfPeopleStay when the body is written anew; the bot makes none, and a box that is worded anew is open.
func TestTicksOfPeopleStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before(map[string]string{".github/PULL_REQUEST_TEMPLATE.md": "- [ ] read\n- [ ] tested\n- [ ] tested\n"})
	_, err := w.publish()
	must(t, err)
	mona, err := w.server.As("mona")
	must(t, err)
	pull := w.pulls()[0]
	body := strings.Replace(pull.GetBody(), "- [ ] tested\n- [ ] tested", "- [ ] tested\r\n- [X] tested", 1)
	_, _, err = mona.PullRequests.Edit(t.Context(), "octavia", "calc", pull.GetNumber(), &github.PullRequest{Body: &body})
	must(t, err)
	w.req.Run, w.req.Previous, w.made.files = "r-3f2k-2", &Branch{Name: pull.GetHead().GetRef(), Head: pull.GetHead().GetSHA()}, map[string]string{"sum.go": "package calc // again\n"}
	_, err = w.publish()
	must(t, err)
	if got := w.pulls()[0].GetBody(); !strings.Contains(got, "- [ ] read\n- [ ] tested\n- [x] tested\n") || !strings.Contains(got, "r-3f2k-2") {
		t.Errorf("the body is\n%s", got)
	}
	if got := keepTicks("- [ ] a\n", "- [x] a\n"); got != "- [ ] a\n" {
		t.Errorf("a box that is not of the template's: %q", got)
	}
}

// TestLongCodeowners: GitHub reads such a file up to 3 MB.
func TestLongCodeowners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before(map[string]string{"CODEOWNERS": strings.Repeat("# a line of many\n", 10_000) + "* @mona\n"})
	p := &publication{Deps: w.deps, req: w.req}
	text, err := p.first(t.Context(), w.made.base, ownersFiles)
	must(t, err)
	if own := OwnersOf(text, "sum.go"); !slices.Equal(own, []string{"@mona"}) {
		t.Errorf("owners %q of %d bytes", own, len(text))
	}
}
