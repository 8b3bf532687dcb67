package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// rounds is an agent that does in each round what its part says; the last part is done in all rounds after it. What it was given is
// kept in the file seen.md of its change.
func rounds(parts ...string) string {
	var b strings.Builder
	for i := len(parts) - 1; i > 0; i-- {
		fmt.Fprintf(&b, "if grep -q '^# Round %d' /sandpiper/task.md; then\n%s\nexit\nfi\n", i+1, parts[i])
	}
	return b.String() + parts[0] + "\n"
}

const (
	makesTwo  = "echo 2 >sum.txt\nprintf 'a\\nb\\nc\\n' >notes.txt"
	mendsSum  = "cp /sandpiper/task.md seen.md\necho 1 >sum.txt"
	waitsThen = "while [ ! -e /sandpiper/go ]; do sleep 0.1; done\n"
)

// opened has a mission open its pull request.
func (w *world) opened() (issue int, pr *gh.PullRequest) {
	w.t.Helper()
	issue = w.openIssue("Sum returns 0", "It should be 1.")
	w.label("octavia", issue)
	w.ended(issue, "changed")
	w.waits(1)
	return issue, w.pulls()[0]
}

// asks has a person review the pull request, with a comment on each line that is named as path:line:text.
func (w *world) asks(login string, pull int, event, body string, comments ...string) *gh.PullRequestReview {
	w.t.Helper()
	request := &gh.PullRequestReviewRequest{Event: &event, Body: &body}
	for _, c := range comments {
		var line int
		path, rest, _ := strings.Cut(c, ":")
		number, text, _ := strings.Cut(rest, ":")
		fmt.Sscan(number, &line)
		request.Comments = append(request.Comments, &gh.DraftReviewComment{Path: &path, Line: &line, Side: gh.String("RIGHT"), Body: &text})
	}
	review, _, err := w.as(login).PullRequests.CreateReview(w.t.Context(), "acme", "calc", pull, request)
	must(w.t, err)
	return review
}

// answers are the bot's replies in review threads, without their hidden marks.
func (w *world) answers(pull int) (texts []string) {
	w.t.Helper()
	list, _, err := w.as("rita").PullRequests.ListComments(w.t.Context(), "acme", "calc", pull, &gh.PullRequestListCommentsOptions{ListOptions: gh.ListOptions{PerPage: 100}})
	must(w.t, err)
	for _, c := range list {
		if c.GetUser().GetLogin() == w.app.BotLogin() {
			text, _, _ := strings.Cut(c.GetBody(), "\n")
			texts = append(texts, text)
		}
	}
	return texts
}

// resolved says of each thread, by its first words, whether it is.
func (w *world) resolved(pull int) map[string]bool {
	w.t.Helper()
	client := w.as("rita")
	request := must1(client.NewRequest("POST", "graphql", map[string]any{"query": fmt.Sprintf(`{repository(owner: "acme", name: "calc") { pullRequest(number: %d) {
		reviewThreads(first: 100) { nodes { isResolved comments(first: 1) { nodes { body } } } } } } }`, pull)}))(w.t)
	var answer struct {
		Data struct {
			Repository struct {
				PullRequest struct {
					ReviewThreads struct {
						Nodes []struct {
							IsResolved bool
							Comments   struct{ Nodes []struct{ Body string } }
						}
					}
				}
			}
		}
	}
	must1(client.Do(w.t.Context(), request, &answer))(w.t)
	all := map[string]bool{}
	for _, n := range answer.Data.Repository.PullRequest.ReviewThreads.Nodes {
		all[n.Comments.Nodes[0].Body] = n.IsResolved
	}
	return all
}

func (w *world) head(pull int) string {
	w.t.Helper()
	pr, _, err := w.as("rita").PullRequests.Get(w.t.Context(), "acme", "calc", pull)
	must(w.t, err)
	return pr.GetHead().GetSHA()
}

func (w *world) fileAt(commit, path string) string {
	w.t.Helper()
	file, _, _, err := w.as("rita").Repositories.GetContents(w.t.Context(), "acme", "calc", path, &gh.RepositoryContentGetOptions{Ref: commit})
	must(w.t, err)
	return must1(file.GetContent())(w.t)
}

// pushes has a person push a file onto a branch.
func (w *world) pushes(login, branch, path, text string) string {
	w.t.Helper()
	return must1(w.double.Push("acme/calc", github.CommitOptions{Branch: branch, Login: login, Message: "by hand", Files: map[string]string{path: text}}))(w.t)
}

// round waits until the bot says on the pull request how a round ended.
func (w *world) round(pull, n int, outcome string) {
	w.t.Helper()
	w.until(fmt.Sprintf("round %d ends with %q", n, outcome), func() bool { return w.said(pull, fmt.Sprintf("Round %d: **%s**", n, outcome)) })
}

// TestReviewStartsARoundOnTheBotsBranch follows a review from its threads to their answers.
func TestReviewStartsARoundOnTheBotsBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(makesTwo, mendsSum)))
	w.start()
	issue, first := w.opened()
	n := first.GetNumber()
	w.asks("rita", n, "REQUEST_CHANGES", "The sum is wrong.", "sum.txt:1:This has to be 1.", "notes.txt:2:What is this for?")
	w.round(n, 2, "changed")
	w.waits(2)

	pulls := w.pulls()
	head := pulls[0].GetHead().GetSHA()
	if len(pulls) != 1 || head == first.GetHead().GetSHA() || pulls[0].GetState() != "open" {
		t.Fatalf("%d pull requests, head %s", len(pulls), head)
	}
	commit, _, err := w.as("rita").Git.GetCommit(t.Context(), "acme", "calc", head)
	must(t, err)
	if got := commit.Parents[0].GetSHA(); got != first.GetHead().GetSHA() {
		t.Errorf("the round stands on %s, want the reviewed head %s", got, first.GetHead().GetSHA())
	}
	if got := w.fileAt(head, "sum.txt"); got != "1\n" {
		t.Errorf("sum.txt is %q", got)
	}
	if diff := cmp.Diff([]string{"notes.txt", "seen.md", "sum.txt"}, w.filesOf(n)); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}
	seen := w.fileAt(head, "seen.md")
	for _, want := range []string{
		"# Issue #", "It should be 1.", "# Round 2, on pull request #", "The sum is wrong.", "Asked for by rita (write)", "On sum.txt, line 1:", "+2",
		"This has to be 1.", "On notes.txt, line 2:", "What is this for?", "## Check sum did not pass", "exit status 1",
	} {
		if !strings.Contains(seen, want) {
			t.Errorf("the agent was not given %q:\n%s", want, seen)
		}
	}
	want := []string{
		fmt.Sprintf("`%.12s` changes these lines. Resolved with that; open it again if it is not what you meant.", head),
		fmt.Sprintf("`%.12s` does not change this file. Whether that answers this is for you to say.", head),
	}
	if diff := cmp.Diff(want, w.answers(n)); diff != "" {
		t.Errorf("answers (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"This has to be 1.": true, "What is this for?": false}, w.resolved(n)); diff != "" {
		t.Errorf("resolved (-want +got)\n%s", diff)
	}
	if body := pulls[0].GetBody(); !strings.Contains(body, head) || !strings.Contains(body, "`notes.txt`") || !strings.Contains(body, "`seen.md`") {
		t.Errorf("the page is not of the whole pull request:\n%s", body)
	}
	names := map[string]string{}
	for _, r := range w.allRuns(head) {
		names[r.GetName()] = r.GetConclusion()
	}
	if names["sandpiper / sum"] != "success" {
		t.Errorf("checks on the new head: %v", names)
	}
	if _, gated := names["sandpiper / review"]; !gated || names["sandpiper / review"] != "" {
		t.Errorf("the review gate of the new head: %v", names)
	}
	if !w.said(issue, "| round | 2 |") {
		t.Errorf("the status does not tell of the round: %q", w.comments(issue))
	}
	w.nothingLeft()
}

// TestCase35RoundsAreCapped over the mission's whole life, restarts included; then it is said, once, that a person is needed.
func TestCase35RoundsAreCapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(makesTwo, "echo 3 >sum.txt"), ".github/sandpiper.yml",
		"agent: sh agent.sh\nbudget: {rounds: 2}\nchecks:\n  - {name: sum, run: 'grep -qx 1 sum.txt', required: true}\n"))
	w.start()
	issue, pr := w.opened()
	n := pr.GetNumber()
	w.asks("rita", n, "REQUEST_CHANGES", "No.")
	w.round(n, 2, "changed")
	w.waits(2)
	w.bot.kill()
	w.start()
	head := w.head(n)
	w.asks("rita", n, "REQUEST_CHANGES", "Still no.")
	w.asks("octavia", n, "REQUEST_CHANGES", "No.")
	w.until("a person is asked for", func() bool { return w.said(n, "It needs a person now") })
	w.say("rita", n, "/sandpiper status")
	w.until("the bot has come to the command after them", func() bool { return w.said(n, "mission `m-") })
	said := 0
	for _, c := range w.comments(n) {
		said += strings.Count(c, "It needs a person now")
	}
	if said != 1 || w.head(n) != head {
		t.Errorf("said %d times, head %s → %s", said, head, w.head(n))
	}
	w.say("rita", n, "/sandpiper discard")
	w.until("it is discarded", func() bool {
		p, _, err := w.as("rita").PullRequests.Get(t.Context(), "acme", "calc", n)
		return err == nil && p.GetState() == "closed"
	})
	w.until("the issue says by whom", func() bool { return w.said(issue, "discarded by rita") })
	w.until("it has heard that it was closed", func() bool { return strings.Contains(w.bot.text(), `"action":"closed"`) })
	if w.said(issue, "closed by sandpiper") {
		t.Errorf("the bot is said to have closed it: %q", w.comments(issue))
	}
}

// TestCase14ForeignPushStopsTheBot until somebody hands the branch back, before a round and in the middle of one.
func TestCase14ForeignPushStopsTheBot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(makesTwo, waitsThen+"echo 3 >sum.txt", "echo 1 >sum.txt")))
	w.start()
	_, pr := w.opened()
	n, branch := pr.GetNumber(), pr.GetHead().GetRef()
	w.say("rita", n, "/sandpiper fix it")
	w.until("the agent of the round is at work", func() bool { return len(w.working()) == 1 })
	hers := w.pushes("rita", branch, "mine.txt", "by rita\n")
	w.until("it is said that the branch moved", func() bool { return w.said(n, "Somebody else has pushed, so Sandpiper leaves it alone") })
	w.goOn()
	w.round(n, 2, "blocked by rule")
	w.waits(2)
	if got := w.head(n); got != hers || !w.said(n, "branch moved") || !w.said(n, "is kept in the store") {
		t.Errorf("head %s, want rita's %s; said %q", got, hers, w.comments(n))
	}
	w.asks("octavia", n, "REQUEST_CHANGES", "This is not right yet.")
	w.say("rita", n, "/sandpiper status")
	w.until("the bot has come to the command after it", func() bool { return w.said(n, "mission `m-") })
	if got := w.head(n); got != hers {
		t.Errorf("a review moved the branch from %s to %s", hers, got)
	}
	moved := 0
	for _, c := range w.comments(n) {
		moved += strings.Count(c, "The branch moved")
	}
	if moved != 1 {
		t.Errorf("said %d times that the branch moved, want once", moved)
	}
	w.say("rita", n, "/sandpiper continue")
	w.round(n, 3, "changed")
	if !w.said(n, fmt.Sprintf("Round 3 begins, on `%.12s`", hers)) {
		t.Error("a review began a round on a branch that had moved")
	}
	head := w.head(n)
	if w.fileAt(head, "mine.txt") != "by rita\n" || w.fileAt(head, "sum.txt") != "1\n" {
		t.Error("the round does not stand on rita's commit")
	}
	// Her commit lies below the bot's, and is still not hers to approve.
	w.review("octavia", n, "APPROVE") // takes back what she asked for
	w.review("rita", n, "APPROVE")
	w.review("olga", n, "APPROVE")
	w.gateIs(head, "success")
	if text := w.runNamed(head, "review").GetOutput().GetSummary(); !strings.Contains(text, "rita: wrote a commit of this") || !strings.Contains(text, "Approved by olga.") {
		t.Errorf("the gate says\n%s", text)
	}
	w.waits(3)
	w.nothingLeft()
}

// goOn lets the agent go on that waits for a file beside its task.
func (w *world) goOn() {
	w.t.Helper()
	run := filepath.Dir(filepath.Dir(filepath.Dir(w.working()[0])))
	must(w.t, os.WriteFile(filepath.Join(run, "task", "go"), nil, 0o644))
}

// working are the agents that run.
func (w *world) working() []string {
	return must1(filepath.Glob(filepath.Join(w.dir, "state/runs/*/exec/agent/log")))(w.t)
}

// TestTwoReviewersAtOnce are both answered, and neither starts a round of the other's work.
func TestTwoReviewersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(makesTwo, "cat /sandpiper/task.md >>seen.md\necho 1 >sum.txt", "cat /sandpiper/task.md >>seen.md")))
	w.double.AddHookFault(github.HookFault{Kind: "duplicate", Times: 4})
	w.start()
	_, pr := w.opened()
	n := pr.GetNumber()
	var wg sync.WaitGroup
	for login, text := range map[string]string{"rita": "sum.txt:1:Rita says 1.", "octavia": "notes.txt:1:Octavia asks why."} {
		wg.Go(func() { w.asks(login, n, "REQUEST_CHANGES", "By "+login, text) })
	}
	wg.Wait()
	must(t, w.double.Flush(t.Context()))
	w.until("both have their answer", func() bool { return len(w.answers(n)) >= 2 })
	w.until("the first round is told", func() bool { return w.said(n, "Round 2: **changed**") })
	// A review whose thread the other's round has answered already may have a round of its own for its words.
	w.until("both were given whole", func() bool {
		seen := w.fileAt(w.head(n), "seen.md")
		return !slices.ContainsFunc([]string{"Rita says 1.", "Octavia asks why.", "By rita", "By octavia"}, func(want string) bool { return !strings.Contains(seen, want) })
	})
	w.until("nothing is asked any more", func() bool {
		return len(w.working()) == 0 && len(must1(os.ReadDir(filepath.Join(w.dir, "state", "runs")))(t)) == 0
	})
	if got := len(w.answers(n)); got != 2 {
		t.Errorf("%d answers, want 2: %q", got, w.answers(n))
	}
	if w.said(n, "Round 4") {
		t.Error("two reviews made more than two rounds")
	}
}

// TestKilledInARound at two moments: its agent at work, and right after. The round is finished once.
func TestKilledInARound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(makesTwo, waitsThen+"echo 1 >sum.txt")))
	w.start()
	_, pr := w.opened()
	n := pr.GetNumber()
	w.asks("rita", n, "REQUEST_CHANGES", "", "sum.txt:1:This has to be 1.")
	w.until("the agent of the round is at work", func() bool { return len(w.working()) == 1 })
	w.bot.kill()
	w.goOn()
	w.start()
	w.until("something of the round is at GitHub", func() bool { return w.head(n) != pr.GetHead().GetSHA() })
	w.bot.kill()
	w.start()
	w.round(n, 2, "changed")
	w.waits(1)
	commits, _, err := w.as("rita").PullRequests.ListCommits(t.Context(), "acme", "calc", n, nil)
	must(t, err)
	said := slices.DeleteFunc(w.comments(n), func(c string) bool { return !strings.Contains(c, "Round 2") })
	if len(commits) != 2 || len(w.answers(n)) != 1 || len(said) != 1 {
		t.Errorf("%d commits, answers %q, said %q", len(commits), w.answers(n), said)
	}
	w.nothingLeft()
}

// TestRoundWithoutAResult leaves the pull request as it was, and open.
func TestRoundWithoutAResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(rounds(makesTwo, "echo 'GAVE UP: I cannot count'", "exec sleep 600")))
	w.start()
	issue, pr := w.opened()
	n := pr.GetNumber()
	w.say("rita", n, "/sandpiper fix it")
	w.until("the round has ended", func() bool { return w.said(n, "The pull request is as it was.") })
	w.waits(2)
	w.say("rita", n, "/sandpiper fix it again")
	w.until("the agent of the round is at work", func() bool { return len(w.working()) == 1 })
	w.say("rita", n, "/sandpiper cancel")
	w.round(n, 3, "cancelled")
	w.waits(3)
	if p := w.pulls()[0]; p.GetState() != "open" || p.GetHead().GetSHA() != pr.GetHead().GetSHA() {
		t.Errorf("the pull request is %s at %s", p.GetState(), p.GetHead().GetSHA())
	}
	if !w.said(issue, "starts another round") {
		t.Errorf("the status does not say how to go on: %q", w.comments(issue))
	}
	w.nothingLeft()
}
