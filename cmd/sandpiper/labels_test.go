package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// labelled is the body of a delivery which says that somebody has put the trigger label on an issue.
func (w *world) labelled(issue int, login, kind string) []byte {
	w.t.Helper()
	repo, _, err := w.as("octavia").Repositories.Get(w.t.Context(), "acme", "calc")
	must(w.t, err)
	now, _, err := w.as("octavia").Issues.Get(w.t.Context(), "acme", "calc", issue)
	must(w.t, err)
	return fmt.Appendf(nil, `{"action":"labeled","label":{"name":"sandpiper"},
		"issue":{"number":%d,"title":%q,"state":"open","updated_at":%q,"user":{"login":"octavia","id":3,"type":"User"}},
		"repository":{"id":%d,"name":"calc","full_name":"acme/calc","owner":{"login":"acme"},"default_branch":"main"},
		"sender":{"login":%q,"id":99,"type":%q},"installation":{"id":%d}}`,
		issue, now.GetTitle(), now.GetUpdatedAt().Format("2006-01-02T15:04:05Z"), repo.GetID(), login, kind, w.install.ID)
}

// delivers sends the bot a delivery of issues, and gives the status of the answer.
func (w *world) delivers(id string, body []byte) int {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.bot.url+"/webhook", bytes.NewReader(body))
	if err != nil {
		return 0
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "X-GitHub-Event": "issues", "X-GitHub-Delivery": id,
		"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))} {
		request.Header.Set(name, value)
	}
	answer, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// handled waits until so many deliveries have been acted on.
func (w *world) handled(deliveries int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d deliveries are handled", deliveries), func() bool {
		return strings.Count(w.bot.text(), `"msg":"delivery handled"`) >= deliveries
	})
}

// TestCase03FiftyDeliveriesOfOneLabel come at once under one id, and fifty under others (llvm/llvm-project#209913).
func TestCase03FiftyDeliveriesOfOneLabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.double.AddHookFault(github.HookFault{Kind: github.Lose, Event: "issues", Action: "labeled"})
	w.label("octavia", n)
	body := w.labelled(n, "octavia", "User")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for _, id := range []string{"00000000-0000-0000-0000-000000000000", fmt.Sprintf("10000000-0000-0000-0000-0000000000%02d", i)} {
				if got := w.delivers(id, body); got != http.StatusAccepted {
					t.Errorf("status %d", got)
				}
			}
		})
	}
	wg.Wait()
	w.ended(n, "changed")
	w.waits(1)
	w.handled(51)
	if begun := strings.Count(w.bot.text(), " begun"); begun != 1 || len(w.pulls()) != 1 || len(w.comments(n)) != 1 {
		t.Errorf("%d missions, %d pull requests, said %q; want one of each", begun, len(w.pulls()), w.comments(n))
	}
}

// TestCase03AutomationAndPersonLabelAtOnce: the App may not start anything, and the label is taken off; the person's counts all the same
// (handarbeit/fabrik#1254).
func TestCase03AutomationAndPersonLabelAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.double.AddHookFault(github.HookFault{Kind: github.Lose, Event: "issues", Action: "labeled"})
	w.label("octavia", n)
	automation, person := w.labelled(n, "helper[bot]", "Bot"), w.labelled(n, "octavia", "User")
	w.delivers("00000000-0000-0000-0000-000000000001", automation)
	w.handled(1)
	w.delivers("00000000-0000-0000-0000-000000000002", person)
	w.ended(n, "changed")
	w.waits(1)
	if len(w.pulls()) != 1 || len(w.comments(n)) != 2 || !w.said(n, "@helper[bot] has none access") {
		t.Errorf("%d pull requests, said %q; want one, the status and the refusal", len(w.pulls()), w.comments(n))
	}
}

// TestCase02StrangersAreRefusedUpToANumber: each is told once, and not more of them in a thread than get answers there.
func TestCase02StrangersAreRefusedUpToANumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	const strangers = 23
	for i := range strangers {
		login := fmt.Sprintf("stranger%d", i)
		must1(w.double.AddUser(login))(t)
		must(t, w.double.SetRole("acme/calc", login, github.RoleRead))
		w.say(login, n, "/sandpiper run")
	}
	w.handled(strangers)
	if got := len(w.comments(n)); got != 20 {
		t.Errorf("%d refusals, want 20", got)
	}
}

// TestCase04OwnLabelStartsNothing: the policy has the bot put the trigger label on its own pull request.
func TestCase04OwnLabelStartsNothing(t *testing.T) {
	t.Parallel()
	files := calc(fixes)
	files[".github/sandpiper.yml"] += "promote: {labels: [sandpiper, made by an agent]}\n"
	w := newWorld(t, files)
	w.start()
	_, pr := w.opened()
	w.until("the bot has heard of its own label", func() bool { return strings.Contains(w.bot.text(), `"outcome":"ignored: our own label"`) })
	if got := w.comments(pr.GetNumber()); len(got) != 0 || strings.Count(w.bot.text(), " begun") != 1 {
		t.Errorf("said %q on its own pull request, want nothing and no mission there", got)
	}
}

// TestCase05LabelsThatAnIssueIsOpenedWith, or that replace those which it has; in whatever case the label was made.
func TestCase05LabelsThatAnIssueIsOpenedWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	issue, _, err := w.as("octavia").Issues.Create(t.Context(), "acme", "calc", &gh.IssueRequest{Title: gh.String("Sum"), Labels: &[]string{"bug", "SandPiper", "later"}})
	must(t, err)
	w.ended(issue.GetNumber(), "changed")
	n := w.openIssue("Sum again", "")
	_, _, err = w.as("octavia").Issues.ReplaceLabelsForIssue(t.Context(), "acme", "calc", n, []string{"bug", "sandpiper", "later"})
	must(t, err)
	w.ended(n, "changed")
}

// TestCase32NamesThatAPathWouldTakeForItsOwn has a default branch and a label with what an address means something by
// (anthropics/claude-code-action#1486), and commits by both ways.
func TestCase32NamesThatAPathWouldTakeForItsOwn(t *testing.T) {
	t.Parallel()
	for branch, transport := range map[string]string{"fix/#12+a@b": "api", "größe/ü%20&=": "push"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			w := newWorldOn(t, branch, calc(fixes, ".github/sandpiper.yml",
				"agent: sh agent.sh\nchecks: [{name: 'sum/ü #1?', run: grep -qx 1 sum.txt}]\ntriggers: {labels: ['needs agent/now #1? 100% ü']}\npromote: {transport: "+transport+"}\n"))
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.put("octavia", n, "Needs agent/now #1? 100% Ü")
			w.ended(n, "changed")
			w.waits(1)
			issue, _, err := w.as("rita").Issues.Get(t.Context(), "acme", "calc", n)
			must(t, err)
			pr := w.pulls()[0]
			if pr.GetBase().GetRef() != branch || len(issue.Labels) != 0 || len(w.checkRuns(pr.GetHead().GetSHA())) != 1 {
				t.Errorf("base %q, labels %v, Check Runs %v", pr.GetBase().GetRef(), issue.Labels, w.checkRuns(pr.GetHead().GetSHA()))
			}
		})
	}
}

// TestCase28LabelsAreHeldToThePermission: an App and the triage role may put labels on, and start nothing by that; the policy may want more
// than write access of everybody but admins. Each refusal is said, and takes the label off.
func TestCase28LabelsAreHeldToThePermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes, ".github/sandpiper.yml", "agent: sh agent.sh\nchecks: []\ntriggers: {who: maintain}\n"))
	must1(w.double.AddUser("trudy"))(t)
	must(t, w.double.SetRole("acme/calc", "trudy", github.RoleTriage))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	for login, c := range map[string]struct {
		client *gh.Client
		says   string
	}{"an App": {w.helper(), "@helper[bot] has none access"}, "trudy": {w.as("trudy"), "@trudy has triage access"}, "octavia": {w.as("octavia"), "and octavia has write access"}} {
		_, _, err := c.client.Issues.AddLabelsToIssue(t.Context(), "acme", "calc", n, []string{"sandpiper"})
		must(t, err)
		w.until(login+" is refused", func() bool { return w.said(n, c.says) })
		w.until("the label is off", func() bool {
			issue, _, err := w.as("rita").Issues.Get(t.Context(), "acme", "calc", n)
			return err == nil && len(issue.Labels) == 0
		})
	}
	if strings.Contains(w.bot.text(), `"next":"queue"`) {
		t.Error("one of them has started a mission")
	}
	w.label("olga", n)
	w.ended(n, "changed")
}

// helper is another App of acme's, as its own token lets it act.
func (w *world) helper() *gh.Client {
	w.t.Helper()
	app := must1(w.double.AddApp(github.AppOptions{Owner: "acme", Name: "Helper", Permissions: map[string]string{"issues": "write", "metadata": "read"}}))(w.t)
	install := must1(w.double.Install(app.Slug, "acme"))(w.t)
	token, _, err := must1(w.double.AsApp(app.Slug))(w.t).Apps.CreateInstallationToken(w.t.Context(), install.ID, nil)
	must(w.t, err)
	client := gh.NewClient(nil).WithAuthToken(token.GetToken())
	must(w.t, setURL(client, w.double.URL()+"/"))
	return client
}
