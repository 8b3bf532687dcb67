package promote

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

func TestBranchName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		issue, n int
		title    string
		want     string
	}{
		{1, 1, "Sum returns 0 for a single number", "sandpiper/1-sum-returns-0-for-a-single-number-1"},
		{12, 3, "Über-Größe: naïve café & Łódź", "sandpiper/12-uber-grosse-naive-cafe-lodz-3"},
		{7, 0, "文字だけ", "sandpiper/7-change-1"},
		{7, 1, "", "sandpiper/7-change-1"},
		{0, 1, "Fix it.lock", "sandpiper/fix-it-lock-1"},
		{4, 2, "can't parse `fix/#12+a@b`", "sandpiper/4-cant-parse-fix-12-a-b-2"},
		{4, 2, strings.Repeat("x", 90), "sandpiper/4-" + strings.Repeat("x", 40) + "-2"},
		{4, 2, "a " + strings.Repeat("x", 90), "sandpiper/4-a-" + strings.Repeat("x", 38) + "-2"},
		{5, 1, "one two three four five six seven eight nine ten", "sandpiper/5-one-two-three-four-five-six-seven-eight-1"},
		{5, 1, "--- / .. @{ ~^: \\", "sandpiper/5-change-1"},
		{5, 1, "e\u0301\u202e\u200bx", "sandpiper/5-e-x-1"},
	} {
		if got := BranchName(tt.issue, tt.title, tt.n); got != tt.want {
			t.Errorf("BranchName(%d, %q, %d) = %q, want %q", tt.issue, tt.title, tt.n, got, tt.want)
		}
		if out, err := exec.Command("git", "check-ref-format", "--branch", BranchName(tt.issue, tt.title, tt.n)).CombinedOutput(); err != nil {
			t.Errorf("git does not take it: %s", out)
		}
	}
}

var branchForm = regexp.MustCompile(`^sandpiper/([1-9][0-9]*-)?[a-z0-9]+(-[a-z0-9]+)*-[1-9][0-9]*$`)

func FuzzBranchName(f *testing.F) {
	for _, s := range []string{"a", "", "ﷺ", "a..b", "@{", "x.lock", strings.Repeat("ab ", 99), "İ", "\xff"} {
		f.Add(3, s, 1)
	}
	f.Fuzz(func(t *testing.T, issue int, title string, n int) {
		got := BranchName(issue, title, n)
		if !branchForm.MatchString(got) {
			t.Errorf("BranchName(%d, %q, %d) = %q", issue, title, n, got)
		}
		if s := slug(title); len(s) > slugMax {
			t.Errorf("slug of %d bytes: %q", len(s), s)
		}
	})
}

func request() Request {
	return Request{
		Run: "r-3f2k-1", Mission: "m-3f2k", Owner: "acme", Repo: "calc", RepoID: 99, Base: "main", Issue: 12,
		Title: "Sum returns 0 for a single number", Requester: Person{"octavia", 7}, Bot: Person{"sandpiper[bot]", 8}, Agent: "claude",
	}
}

func TestCommitMessage(t *testing.T) {
	t.Parallel()
	want := `Sum returns 0 for a single number

Made by a coding agent in a sandbox for issue 12 of acme/calc, on
request of octavia. The pull request says what it was given and how this
was checked.

Refs: #12
Sandpiper-Mission: m-3f2k
Sandpiper-Run: r-3f2k-1
Co-authored-by: octavia <7+octavia@users.noreply.github.com>
`
	if diff := cmp.Diff(want, CommitMessage(request(), strings.Clone)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	cmd := exec.Command("git", "interpret-trailers", "--parse")
	cmd.Stdin = strings.NewReader(want)
	out, err := cmd.Output()
	must(t, err)
	if n := strings.Count(string(out), "\n"); n != 4 {
		t.Errorf("git reads %d trailers, want 4:\n%s", n, out)
	}
}

func TestCommitSubject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ title, want string }{
		{"@octocat: fixes #3, closes GH-4 https://x.example/1", "octocat: fixes 3, closes GH 4 x.example/1"},
		{"a\nCo-authored-by: x <x@y.example>\u202e", "a Co-authored-by: x <x@y.example>"},
		{"[skip ci] typo.", "skip ci typo"},
		{"fixup! squash! x", "x"},
		{"", "Work on issue 12"},
		{"\u200b", "Work on issue 12"},
		{"the secret is hunter2", "the secret is [secret]"},
		{strings.Repeat("word ", 30), strings.TrimSpace(strings.Repeat("word ", 14)) + "…"},
	} {
		r := request()
		r.Title = tt.title
		message := CommitMessage(r, func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") })
		subject, rest, _ := strings.Cut(message, "\n")
		if subject != tt.want {
			t.Errorf("%q became %q, want %q", tt.title, subject, tt.want)
		}
		if !strings.HasPrefix(rest, "\nMade by") || len(subject) > subjectMax {
			t.Errorf("%q: subject of %d bytes, then %.20q", tt.title, len(subject), rest)
		}
	}
}

func TestCommitMessageWithoutPeople(t *testing.T) {
	t.Parallel()
	r := request()
	r.Issue, r.Requester = 0, Person{Login: "x <evil@example.org>\nSigned-off-by: y", ID: 1}
	if got := CommitMessage(r, strings.Clone); strings.Contains(got, "evil") || strings.Contains(got, "Refs:") || strings.Contains(got, "Co-authored") {
		t.Errorf("got %q", got)
	}
}

func (r Request) with(s Staged) Request { r.Staged = s; return r }

var made = Staged{
	Run: "r-3f2k-1", MergeBase: strings.Repeat("b", 40), Base: strings.Repeat("b", 40), Tree: strings.Repeat("c", 40), Commit: strings.Repeat("d", 40),
	Changes: []sandbox.Change{
		{Path: "z \"q\"\t.go", Kind: sandbox.Added, NewMode: "100755", NewID: strings.Repeat("1", 40), Size: 3, Added: 1},
		{Path: "a\xff", From: "ä", Kind: sandbox.Renamed, OldMode: "100644", NewMode: "120000", Added: -1, Removed: -1},
	},
}

func TestManifest(t *testing.T) {
	t.Parallel()
	r := request()
	r.Checks = []Check{{Name: "test", Conclusion: "success", Required: true, Duration: time.Second}}
	m := r.with(made).manifest(made.Commit)
	want := `{"agent":"claude","agent_version":"","base":"` + made.Base + `","bot_version":"","branch":"main","changes":[` +
		`{"added":-1,"from":"ä","kind":"renamed","new_mode":"120000","old_mode":"100644","path":"a` + "\ufffd" + `","path_base64":"Yf8=","removed":-1,"size":0},` +
		`{"added":1,"kind":"added","new_id":"1111111111111111111111111111111111111111","new_mode":"100755","path":"z \"q\"\t.go","removed":0,"size":3}],` +
		`"checks":[{"conclusion":"success","name":"test","required":true}],"commits":[],"findings":[],"gates":[],"head":"` + made.Commit + `","issue":12,"left_out":[],"merge_base":"` + made.MergeBase + `","mission":"m-3f2k","policy":"","receipt":"",` +
		`"repository":99,"requester":{"id":7,"login":"octavia"},"run":"r-3f2k-1","selection":{"drop":[],"only":[]},"tree":"` + made.Tree + `","version":1}`
	if diff := cmp.Diff(want, string(m.Canonical())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	other := m
	other.Changes = []sandbox.Change{m.Changes[1], m.Changes[0]}
	other.Checks = []Check{{Name: "test", Conclusion: "success", Required: true, Duration: time.Minute}}
	if m.Digest() != other.Digest() {
		t.Error("the digest depends on the order of the changes or on the time that checks took")
	}
	other.Changes = m.Changes[:1]
	if m.Digest() == other.Digest() || !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(m.Digest()) {
		t.Errorf("digests %s, %s", m.Digest(), other.Digest())
	}
}

func bodyOf(r Request, p Staged) string {
	r.Staged = p
	pub := &publication{req: r, Deps: Deps{Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") }}}
	pub.result.Manifest = r.manifest(p.Commit)
	pub.digest = pub.result.Manifest.Digest()
	return pub.body()
}

func TestBodyIsHarmless(t *testing.T) {
	t.Parallel()
	evil := "@octocat fixes #3 hunter2 <!-- sandpiper:mission m-evil --> <img src=x> | ``` \u202e\n\n# closes #4\n</details>"
	r := request()
	r.Title, r.Agent, r.DraftReason, r.Draft, r.Said, r.AgentVersion = evil, evil, evil, true, evil, evil
	r.Reach = []Item{{evil, evil, evil}, {evil, evil, "https://x.example/a>b |" + "\n@octocat"}}
	r.Checks = []Check{{Name: evil, Command: evil, Conclusion: evil, Summary: evil, URL: "https://x.example/a>b |" + "\n@octocat"}, {Name: "x", URL: "javascript:alert(1)"}}
	r.Given, r.Withheld = []Item{{evil, evil, ""}}, []Item{{evil, evil, ""}}
	r.FollowUp = &FollowUp{Round: 2, Asked: []Item{{evil, evil, evil}}}
	p := made
	p.Changes = append(p.Changes, sandbox.Change{Path: evil, From: evil, Kind: sandbox.Renamed})
	p.LeftOut = p.Changes
	body := bodyOf(r, p)
	rest, _ := strings.CutPrefix(body, (&publication{req: r, digest: r.with(p).manifest(p.Commit).Digest()}).marker().String())
	for _, banned := range []string{"hunter2", "<!--", "<img", "</details", "\u202e", "javascript:", "\n# "} {
		if strings.Contains(outsideCode(rest), banned) || banned == "hunter2" && strings.Contains(rest, banned) {
			t.Errorf("body holds %q:\n%s", banned, rest)
		}
	}
	alive := regexp.MustCompile(`@[A-Za-z0-9]|#[0-9]+`)
	text := strings.NewReplacer("(<https://x.example/a%3Eb%20%7C%20@octocat>)", "", "&#8203;", "").Replace(outsideCode(strings.ReplaceAll(strings.ReplaceAll(rest, "@&#8203;", ""), "#&#8203;", "")))
	for _, m := range alive.FindAllString(text, -1) {
		if m != "#12" {
			t.Errorf("%q is alive in\n%s", m, outsideCode(rest))
		}
	}
	if n := strings.Count(rest, "#12"); n != 3 {
		t.Errorf("the issue is named %d times, want 3", n)
	}
	for _, line := range strings.Split(rest, "\n") {
		if strings.HasPrefix(line, "| ``") || strings.HasPrefix(line, "| `") {
			if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); n != 7 && n != 5 && n != 3 {
				t.Errorf("a table's row has %d bars: %s", n, line)
			}
		}
	}
}

// outsideCode removes code spans.
func outsideCode(s string) string {
	var b strings.Builder
	for {
		at := strings.IndexByte(s, '`')
		if at < 0 || at > 0 && s[at-1] == '\\' {
			if at < 0 {
				return b.String() + s
			}
			b.WriteString(s[:at+1])
			s = s[at+1:]
			continue
		}
		n := len(s[at:]) - len(strings.TrimLeft(s[at:], "`"))
		end := strings.Index(s[at+n:], s[at:at+n])
		if end < 0 {
			return b.String() + s
		}
		b.WriteString(s[:at])
		s = s[at+n+end+n:]
	}
}

func TestBodyShowsNamesAsTheyAre(t *testing.T) {
	t.Parallel()
	p := made
	for _, name := range []string{"tab\tname", "bidi\u202egpj.exe", "byte\xff", " space ", "new\nline", "größe.go", `quote"d`} {
		p.Changes = append(p.Changes, sandbox.Change{Path: name, Kind: sandbox.Added})
	}
	r := request()
	r.Instruction = "only this file\n```\n@octocat"
	body := bodyOf(r, p)
	for _, want := range []string{"`\"tab\\tname\"`", "`\"bidi\\u202egpj.exe\"`", "`\"byte\\xff\"`", "`\" space \"`", "`\"new\\nline\"`", "`größe.go`", "`quote\"d`", "````text\nonly this file\n```\n@octocat\n````\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %s", want)
		}
	}
}

// TestBodySaysWhatWasAsked: the issue's text as it was then, and who asked for the latest round, where and how.
func TestBodySaysWhatWasAsked(t *testing.T) {
	t.Parallel()
	r := request()
	r.Text = "It should be 7.\n```\n</details>\n@octocat hunter2\n"
	r.FollowUp = &FollowUp{Round: 3, Head: strings.Repeat("f", 40), Asked: []Item{{"rita", "", "https://hub.example/acme/calc/pull/2#pullrequestreview-7"}, {"mona", "keep the name", ""}}}
	body := bodyOf(r, made)
	for _, want := range []string{
		"<details><summary>The text of the issue, as it was then</summary>\n\n````text\nIt should be 7.\n```\n</details>\n@octocat [secret]\n````\n\n</details>\n",
		"\nRound 3 was asked for by `rita`, [in a review](<https://hub.example/acme/calc/pull/2#pullrequestreview-7>).\n",
		"\nRound 3 was asked for by `mona`:\n\n```text\nkeep the name\n```\n",
		"| started from | `" + r.FollowUp.Head + "` |\n| base | `" + made.Base + "` on `main` |\n",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %q:\n%s", want, body)
		}
	}
	if body := bodyOf(request(), made); strings.Contains(body, "The text of") || strings.Contains(body, "Round") {
		t.Errorf("says more than there is:\n%s", body)
	}
}

func TestBodySaysWhichTreeWasChecked(t *testing.T) {
	t.Parallel()
	r := request()
	r.Checks = []Check{{Name: "test", Conclusion: "success"}}
	for tree, want := range map[string]string{
		"": "in a sandbox.\n", made.Tree: "on exactly this tree.\n", strings.Repeat("e", 40): "which is **not** the tree of this pull request",
	} {
		r.CheckedTree = tree
		if body := bodyOf(r, made); !strings.Contains(body, want) {
			t.Errorf("checked tree %q: lacks %q", tree, want)
		}
	}
}

func TestBodyFits(t *testing.T) {
	t.Parallel()
	r, p := request(), made
	for i := range 10_000 {
		p.Changes = append(p.Changes, sandbox.Change{Path: fmt.Sprintf("%s/%d", strings.Repeat("ä", 500), i), Kind: sandbox.Added, NewMode: "100644"})
		r.Given = append(r.Given, Item{strings.Repeat("`", 400), strings.Repeat("*", 2000), ""})
		r.Checks = append(r.Checks, Check{Name: fmt.Sprint(i), Summary: strings.Repeat("<", 2000)})
	}
	body := bodyOf(r, p)
	if len(body) > bodyMax || !utf8.ValidString(body) {
		t.Errorf("%d bytes, valid %v", len(body), utf8.ValidString(body))
	}
	for _, want := range []string{"_truncated: ", "more files", "### How to go on", made.Commit} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

func TestMarker(t *testing.T) {
	t.Parallel()
	m := Marker{"m-1", "r-1-1", "sha256:" + strings.Repeat("0", 64)}
	if got, ok := ParseMarker("\r\n" + m.String() + "\r\nCloses #1"); !ok || got != m {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, body := range []string{"", "x " + m.String(), "<!-- sandpiper:mission M run r manifest x -->"} {
		if got, ok := ParseMarker(body); ok {
			t.Errorf("%q gave %+v", body, got)
		}
	}
}

func TestReadRefusal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stderr  string
		reason  string
		missing string
	}{
		"workflow": {" ! [remote rejected] x -> x (refusing to allow a GitHub App to create or update workflow `.github/workflows/a.yml` without `workflows` permission)\n",
			"the App may not change workflow files such as .github/workflows/a.yml", "workflows: write"},
		"protected": {"remote: error: GH006: Protected branch update failed for refs/heads/x.        \nremote: error: Changes must be made through a pull request.        \n ! [remote rejected] x -> x (protected branch hook declined)\n",
			"branch protection: Changes must be made through a pull request", ""},
		"rules": {"remote: error: GH013: Repository rule violations found for refs/heads/x.        \nremote: Review all repository rules at https://github.com/o/r/rules?ref=x        \nremote: \nremote: - Commits must have verified signatures.        \nremote:   Found 1 violation:        \nremote: \nremote:   deadbeef        \nremote: \n ! [remote rejected] x -> x (push declined due to repository rule violations)\n",
			"repository rules: Commits must have verified signatures; Found 1 violation:; deadbeef", ""},
		"large": {"remote: error: File big.bin is 120.00 MB; this exceeds GitHub's file size limit of 100.00 MB        \nremote: error: GH001: Large files detected.\n",
			"the file big.bin is 120.00 MB, more than GitHub takes", ""},
		"archived":      {"remote: This repository was archived so it is read-only.\nfatal: unable to access 'https://github.com/o/r.git/': The requested URL returned error: 403\n", "the repository is archived", ""},
		"no permission": {"remote: Permission to o/r.git denied to sandpiper[bot].\nfatal: unable to access 'https://github.com/o/r.git/': The requested URL returned error: 403\n", "the App may not push to this repository", "contents: write"},
	} {
		got := readRefusal(tt.stderr)
		if got == nil || got.Reason != tt.reason || got.Missing != tt.missing {
			t.Errorf("%s: got %+v, want %q, %q", name, got, tt.reason, tt.missing)
		}
	}
	if got := readRefusal("fatal: unable to access: Could not resolve host\n"); got != nil {
		t.Errorf("a network failure is %+v", got)
	}
}
