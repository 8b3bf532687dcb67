package webhooks

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/fixtures/payloads"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const deliveryID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"

// summary is one command on one line: its type, and the members that tell it from others.
func summary(c Command) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", c), "webhooks.")
	switch c := c.(type) {
	case LabelAdded:
		return fmt.Sprintf("%s %s#%d pr=%v label=%q head=%.7s", kind, c.Repo.FullName, c.Number, c.IsPR, c.Label, c.HeadSHA)
	case IssueChanged:
		return fmt.Sprintf("%s %s#%d pr=%v state=%s moved=%q", kind, c.Repo.FullName, c.Number, c.IsPR, c.State, c.MovedTo.FullName)
	case Slash:
		return fmt.Sprintf("%s %s#%d comment=%d line=%d %s(%s)", kind, c.Repo.FullName, c.Number, c.CommentID, c.Line, c.Verb, c.Args)
	case PullRequestChanged:
		return fmt.Sprintf("%s %s#%d head=%.7s draft=%v open=%v merged=%v base=%v",
			kind, c.Repo.FullName, c.Number, c.HeadSHA, c.Draft, c.Open, c.Merged, c.BaseChanged)
	case ReviewSubmitted:
		return fmt.Sprintf("%s %s#%d %s by %s on %.7s", kind, c.Repo.FullName, c.Number, c.State, c.Author.Login, c.CommitID)
	case ReviewComment:
		return fmt.Sprintf("%s %s#%d %d on %s by %s", kind, c.Repo.FullName, c.Number, c.CommentID, c.Path, c.Author.Login)
	case CheckRerun:
		return fmt.Sprintf("%s %d %q head=%.7s suite=%d app=%d", kind, c.CheckRunID, c.Name, c.HeadSHA, c.SuiteID, c.AppID)
	case CheckAction:
		return fmt.Sprintf("%s %s of %d head=%.7s", kind, c.Identifier, c.CheckRunID, c.HeadSHA)
	case SuiteRerun:
		return fmt.Sprintf("%s %d head=%.7s branch=%s app=%d", kind, c.SuiteID, c.HeadSHA, c.HeadBranch, c.AppID)
	case Pushed:
		return fmt.Sprintf("%s %s %.7s..%.7s created=%v deleted=%v forced=%v", kind, c.Ref, c.Before, c.After, c.Created, c.Deleted, c.Forced)
	case InstallationChanged:
		return fmt.Sprintf("%s %d of %s +%d -%d", kind, c.InstallationID, c.Account.Login, len(c.Added), len(c.Removed))
	case MergeGroup:
		return fmt.Sprintf("%s %s head=%.7s", kind, c.HeadRef, c.HeadSHA)
	case Ping:
		return fmt.Sprintf("%s hook=%d", kind, c.HookID)
	case Ignored:
		return fmt.Sprintf("%s: %s", kind, c.Reason)
	}
	return kind
}

// Each published example, and what it is to us, in one table to read: testdata/examples.golden.
func TestDecodePublishedExamples(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, p := range payloads.All() {
		body, err := payloads.WithInstallation(p.Body)
		if err != nil {
			t.Fatal(err)
		}
		commands, err := Decode(Delivery{ID: deliveryID, Event: p.Event, Body: body}, Self{})
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		for _, c := range commands {
			fmt.Fprintf(&got, "%-48s %s\n", p.Name, summary(c))
			m := c.Origin()
			if m.DeliveryID != deliveryID || m.Event != p.Event || m.Action != p.Action || m.InstallationID == 0 || m.Sender.ID == 0 {
				t.Errorf("%s: origin %+v", p.Name, m)
			}
		}
	}
	const golden = "testdata/examples.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run with -update and read the difference (-want +got):\n%s", diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		event, body string
		want        error
	}{
		"empty":                {"issues", "", ErrNotJSON},
		"cut off":              {"issues", `{"action":"labeled"`, ErrNotJSON},
		"two values":           {"issues", `{} {}`, ErrNotJSON},
		"not UTF-8":            {"issues", "{\"action\":\"\xff\"}", ErrNotUTF8},
		"unknown, broken":      {"stars", "{", ErrNotJSON},
		"an array":             {"issues", "[]", ErrMalformed},
		"other types":          {"issues", `{"action":7}`, ErrMalformed},
		"no issue":             {"issues", `{"action":"labeled","repository":{"id":1}}`, ErrMalformed},
		"no label":             {"issues", `{"action":"labeled","issue":{"number":1},"repository":{"id":1}}`, ErrMalformed},
		"no repository":        {"issues", `{"action":"labeled","issue":{"number":1},"label":{"name":"x"}}`, ErrMalformed},
		"pull request no head": {"pull_request", `{"action":"opened","pull_request":{"number":1},"repository":{"id":1}}`, ErrMalformed},
		"comment without id":   {"issue_comment", `{"action":"created","issue":{"number":1},"comment":{},"repository":{"id":1}}`, ErrMalformed},
		"check run":            {"check_run", `{"action":"rerequested","repository":{"id":1}}`, ErrMalformed},
		"check suite":          {"check_suite", `{"action":"rerequested","repository":{"id":1}}`, ErrMalformed},
		"push":                 {"push", `{}`, ErrMalformed},
		"installation":         {"installation", `{"action":"created"}`, ErrMalformed},
		"repositories":         {"installation_repositories", `{"action":"added"}`, ErrMalformed},
		"merge group":          {"merge_group", `{"action":"checks_requested"}`, ErrMalformed},
		"review":               {"pull_request_review", `{"action":"submitted"}`, ErrMalformed},
		"review comment":       {"pull_request_review_comment", `{"action":"created"}`, ErrMalformed},
	} {
		commands, err := Decode(Delivery{Event: tc.event, Body: []byte(tc.body)}, Self{})
		if !errors.Is(err, tc.want) || commands != nil {
			t.Errorf("%s: got %v, %v; want %v", name, commands, err, tc.want)
		}
	}
}

func TestDecodeOddities(t *testing.T) {
	t.Parallel()
	repo := `"repository":{"id":7,"name":"r","full_name":"o/r"},"sender":{"login":"p","id":3,"type":"User"}`
	for name, tc := range map[string]struct{ event, body, want string }{
		"unknown event":        {"stars", `{"action":"created"}`, `Ignored: event "stars" is not handled`},
		"unknown event, odd":   {"stars", `{"sender":"text","label":7}`, `Ignored: event "stars" is not handled`},
		"unknown action":       {"issues", `{"action":"typed","issue":{"number":1},` + repo + `}`, `Ignored: action "typed" of issues is not handled`},
		"issue without body":   {"issues", `{"action":"labeled","issue":{"number":1,"body":null,"user":null},"label":{"name":"x"},` + repo + `}`, `LabelAdded o/r#1 pr=false label="x" head=`},
		"fork deleted":         {"pull_request", `{"action":"synchronize","pull_request":{"number":2,"head":{"sha":"abcdef0123","repo":null}},` + repo + `}`, `PullRequestChanged o/r#2 head=abcdef0 draft=false open=false merged=false base=false`},
		"base changed":         {"pull_request", `{"action":"edited","changes":{"base":{"ref":{"from":"x"}}},"pull_request":{"number":2,"head":{"sha":"abcdef0123"}},` + repo + `}`, `PullRequestChanged o/r#2 head=abcdef0 draft=false open=false merged=false base=true`},
		"branch deleted":       {"push", `{"ref":"refs/heads/a/b","before":"1111111","after":"0000000","deleted":true,` + repo + `}`, `Pushed refs/heads/a/b 1111111..0000000 created=false deleted=true forced=false`},
		"merge group gone":     {"merge_group", `{"action":"destroyed","merge_group":{"head_sha":"abcdef0123","head_ref":"refs/heads/q"},` + repo + `}`, `MergeGroup refs/heads/q head=abcdef0`},
		"command in a comment": {"issue_comment", commentBody("created", "octavia", "User", "/sandpiper run quickly"), `Slash o/r#1 comment=5 line=1 run(quickly)`},
		"edited comment":       {"issue_comment", commentBody("edited", "octavia", "User", "/sandpiper run"), `Ignored: edited comment`},
		"talk":                 {"issue_comment", commentBody("created", "octavia", "User", "hello"), `Ignored: comment without a command`},
		"deleted account":      {"issue_comment", commentBody("created", "", "", "/sandpiper run"), `Ignored: comment by a deleted account`},
	} {
		commands, err := Decode(Delivery{Event: tc.event, Body: []byte(tc.body)}, Self{})
		if err != nil || len(commands) != 1 {
			t.Errorf("%s: got %v, %v", name, commands, err)
			continue
		}
		if got := summary(commands[0]); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}

func commentBody(action, author, kind, text string) string {
	return fmt.Sprintf(`{"action":%q,"issue":{"number":1},"comment":{"id":5,"body":%q,"user":{"login":%q,"id":9,"type":%q}},
		"repository":{"id":7,"name":"r","full_name":"o/r"},"sender":{"login":"p","id":3,"type":"User"}}`, action, text, author, kind)
}

// The bot's own help text holds the words that it listens for, and other bots quote them.
func TestCase01OwnAndOtherBotsAreNotHeard(t *testing.T) {
	t.Parallel()
	self := Self{AppID: 99, Slug: "sandpiper-acme"}
	via := strings.Replace(commentBody("created", "octavia", "User", "/sandpiper run"), `"id":5,`, `"id":5,"performed_via_github_app":{"id":%d},`, 1)
	sender := strings.Replace(commentBody("created", "octavia", "User", "/sandpiper run"), `"login":"p","id":3,"type":"User"`, `"login":"helper[bot]","id":3,"type":"Bot"`, 1)
	for name, tc := range map[string]struct{ body, want string }{
		"own login":         {commentBody("created", "sandpiper-acme[bot]", "Bot", "/sandpiper run"), "Ignored: our own comment"},
		"own App":           {fmt.Sprintf(via, 99), "Ignored: our own comment"},
		"other bot":         {commentBody("created", "claude[bot]", "Bot", "/sandpiper run"), "Ignored: comment by a bot: claude[bot]"},
		"bot by its name":   {commentBody("created", "claude[bot]", "User", "/sandpiper run"), "Ignored: comment by a bot: claude[bot]"},
		"sent by a bot":     {sender, "Ignored: comment sent by a bot: helper[bot]"},
		"person via an App": {fmt.Sprintf(via, 98), "Slash o/r#1 comment=5 line=1 run()"},
	} {
		commands, err := Decode(Delivery{Event: "issue_comment", Body: []byte(tc.body)}, self)
		if err != nil || len(commands) != 1 {
			t.Errorf("%s: got %v, %v", name, commands, err)
			continue
		}
		if got := summary(commands[0]); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// A review is one command and its text may hold more; the same for a comment on lines.
func TestReviewsAndTheirCommands(t *testing.T) {
	t.Parallel()
	const text = "I would not.\n\n/sandpiper fix rename it\n> /sandpiper run"
	pr := `"pull_request":{"number":2,"title":"t","head":{"sha":"abcdef0123","ref":"b","repo":{"id":8}}},"repository":{"id":7,"name":"r","full_name":"o/r"}`
	author := `"user":{"login":"%s","id":9,"type":"%s"}`
	review := `{"action":"%s","review":{"id":5,"state":"CHANGES_REQUESTED","commit_id":"abcdef0123","body":` + fmt.Sprintf("%q", text) + `,` + author + `},` + pr + `}`
	lines := `{"action":"%s","comment":{"id":6,"path":"a.go","body":` + fmt.Sprintf("%q", text) + `,` + author + `},` + pr + `}`
	for name, tc := range map[string]struct {
		event, body string
		want        []string
	}{
		"submitted": {"pull_request_review", fmt.Sprintf(review, "submitted", "octavia", "User"), []string{
			"ReviewSubmitted o/r#2 changes_requested by octavia on abcdef0", "Slash o/r#2 comment=5 line=3 fix(rename it)"}},
		"dismissed": {"pull_request_review", fmt.Sprintf(review, "dismissed", "octavia", "User"), []string{
			"ReviewSubmitted o/r#2 changes_requested by octavia on abcdef0"}},
		"edited review": {"pull_request_review", fmt.Sprintf(review, "edited", "octavia", "User"), []string{
			`Ignored: action "edited" of pull_request_review is not handled`}},
		"by a bot": {"pull_request_review", fmt.Sprintf(review, "submitted", "x[bot]", "Bot"), []string{
			"Ignored: comment by a bot: x[bot]"}},
		"lines": {"pull_request_review_comment", fmt.Sprintf(lines, "created", "octavia", "User"), []string{
			"ReviewComment o/r#2 6 on a.go by octavia", "Slash o/r#2 comment=6 line=3 fix(rename it)"}},
		"lines by a bot": {"pull_request_review_comment", fmt.Sprintf(lines, "created", "x[bot]", "Bot"), []string{
			"Ignored: comment by a bot: x[bot]"}},
	} {
		commands, err := Decode(Delivery{Event: tc.event, Body: []byte(tc.body)}, Self{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, c := range commands {
			got = append(got, summary(c))
			if s, ok := c.(Slash); ok && (!s.IsPR || s.Title != "t") {
				t.Errorf("%s: %+v", name, s.Issue)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// check_suite.pull_requests is empty for ever when the head is in a fork, so no command carries that list: whoever acts
// has the commit to look pull requests up by.
func TestCase37RerunsNameTheCommitOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []Command{CheckRerun{}, SuiteRerun{}} {
		kind := reflect.TypeOf(c)
		if _, has := kind.FieldByName("HeadSHA"); !has {
			t.Errorf("%s has no HeadSHA", kind)
		}
		for i := range kind.NumField() {
			if strings.Contains(kind.Field(i).Name, "Pull") {
				t.Errorf("%s.%s: the list cannot be trusted", kind, kind.Field(i).Name)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, p := range payloads.All() {
		if strings.HasSuffix(p.Name, "-1") {
			f.Add(p.Event, p.Body)
		}
	}
	f.Fuzz(func(t *testing.T, event string, body []byte) {
		before := bytes.Clone(body)
		commands, err := Decode(Delivery{ID: deliveryID, Event: event, Body: body}, Self{AppID: 1, Slug: "s"})
		if (err == nil) != (len(commands) > 0) {
			t.Errorf("%d commands and error %v", len(commands), err)
		}
		if !bytes.Equal(before, body) {
			t.Error("the body was changed")
		}
		for _, c := range commands {
			if m := c.Origin(); m.DeliveryID != deliveryID || m.Event != event {
				t.Errorf("origin %+v", m)
			}
		}
	})
}
