package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// orderedLog remembers the order in which deliveries became durable.
type orderedLog struct {
	memoryLog
	order []string
}

func (l *orderedLog) Put(ctx context.Context, d Delivery) (bool, error) {
	fresh, err := l.memoryLog.Put(ctx, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	if fresh {
		l.order = append(l.order, d.ID)
	}
	return fresh, err
}

// commands decodes what is kept, in order, leaving out what the installation itself sent.
func (l *orderedLog) commands(t *testing.T, self Self) []string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, id := range l.order {
		commands, err := Decode(l.kept[id], self)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			if _, setup := c.(InstallationChanged); !setup {
				lines = append(lines, summary(c))
			}
		}
	}
	return lines
}

// What people do at a GitHub arrives as commands: signed, over HTTP, each once, also when it is delivered twice or again.
func TestDeliveriesOfGitHub(t *testing.T) {
	t.Parallel()
	log := &orderedLog{}
	h, err := Handler(Options{Secrets: secrets(newSecret), Log: log, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	hub, octavia, bot := newHub(t, server.URL)
	ctx := t.Context()

	hub.AddHookFault(github.HookFault{Kind: github.Duplicate, Event: "issues", Times: -1})
	_, _, err = octavia.Issues.Create(ctx, "octavia", "calc", &gh.IssueRequest{Title: gh.String("t"), Body: gh.String("b")})
	check(t, err)
	_, _, err = octavia.Issues.AddLabelsToIssue(ctx, "octavia", "calc", 1, []string{"sandpiper"})
	check(t, err)
	_, _, err = octavia.Issues.CreateComment(ctx, "octavia", "calc", 1, &gh.IssueComment{Body: gh.String("/sandpiper status\r\nplease")})
	check(t, err)
	_, _, err = bot.Issues.CreateComment(ctx, "octavia", "calc", 1, &gh.IssueComment{Body: gh.String("/sandpiper run")})
	check(t, err)
	head, err := hub.Push("octavia/calc", github.CommitOptions{Login: "octavia", Branch: "b", Message: "m", Files: map[string]string{"a": "a"}})
	check(t, err)
	_, _, err = bot.PullRequests.Create(ctx, "octavia", "calc", &gh.NewPullRequest{Title: gh.String("p"), Head: gh.String("b"), Base: gh.String("main")})
	check(t, err)
	check(t, hub.Flush(ctx))

	want := []string{
		"Ping hook=",
		`LabelAdded octavia/calc#1 pr=false label="sandpiper" head=`,
		"Slash octavia/calc#1 comment= line=1 status()",
		fmt.Sprintf("Pushed refs/heads/b 0000000..%.7s created=true deleted=false forced=false", head),
		fmt.Sprintf("PullRequestChanged octavia/calc#2 head=%.7s draft=false open=true merged=false base=false", head),
	}
	got := log.commands(t, Self{Slug: "sandpiper"})
	for i := range got {
		got[i] = withoutIDs.ReplaceAllString(got[i], "$1=")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	redeliverAll(t, hub)
	if again := log.commands(t, Self{Slug: "sandpiper"}); len(again) != len(want) {
		t.Errorf("after redelivery: %d commands, want %d", len(again), len(want))
	}
}

var withoutIDs = regexp.MustCompile(`(hook|comment)=\d+`)

// newHub is a GitHub with octavia/calc and the App Sandpiper on it, whose hook is at url, and two who act there.
func newHub(t *testing.T, url string) (hub *github.Server, octavia, bot *gh.Client) {
	t.Helper()
	hub, err := github.New(github.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, hub.Close()) })
	_, err = hub.AddUser("octavia")
	check(t, err)
	_, err = hub.AddRepo("octavia/calc", github.RepoOptions{Files: map[string]string{"README.md": "calc\n"}})
	check(t, err)
	_, err = hub.AddApp(github.AppOptions{
		Owner: "octavia", Name: "Sandpiper", HookURL: url, HookSecret: newSecret,
		Permissions: map[string]string{"contents": "write", "issues": "write", "pull_requests": "write", "checks": "write"},
		Events:      []string{"issues", "issue_comment", "pull_request", "check_suite", "push"},
	})
	check(t, err)
	installation, err := hub.Install("sandpiper", "octavia")
	check(t, err)
	octavia, err = hub.As("octavia")
	check(t, err)
	app, err := hub.AsApp("sandpiper")
	check(t, err)
	token, _, err := app.Apps.CreateInstallationToken(t.Context(), installation.ID, nil)
	check(t, err)
	return hub, octavia, hub.Client(token.GetToken())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// redeliverAll asks for every delivery again, as a sweep that knows nothing would.
func redeliverAll(t *testing.T, hub *github.Server) {
	t.Helper()
	app, err := hub.AsApp("sandpiper")
	check(t, err)
	list, _, err := app.Apps.ListHookDeliveries(t.Context(), &gh.ListCursorOptions{PerPage: 100})
	check(t, err)
	codes := map[int]int{}
	for _, d := range slices.Backward(list) {
		codes[d.GetStatusCode()]++
		_, _, err := app.Apps.RedeliverHookDelivery(t.Context(), d.GetID())
		if _, accepted := err.(*gh.AcceptedError); err != nil && !accepted {
			t.Fatal(err)
		}
	}
	if len(codes) != 1 || codes[202] == 0 {
		t.Errorf("answers by status: %v, want 202 for each", codes)
	}
	check(t, hub.Flush(t.Context()))
}
