package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

const secret = "a webhook secret for tests"

// world is a GitHub with one organisation, and a bot that is installed there.
type world struct {
	t       *testing.T
	double  *github.Server
	app     *github.App
	install *github.Installation
	dir     string
	bot     *bot
	env     []string // of the next start
}

// newWorld makes acme with octavia (write), rita (write) and toby (read) in acme/calc, and an App that is installed on it.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	return newWorldOn(t, "main", files)
}

func newWorldOn(t *testing.T, branch string, files map[string]string) *world {
	t.Helper()
	double, err := github.New(github.Options{})
	must(t, err)
	must(t, double.Start("127.0.0.1:0"))
	t.Cleanup(func() { double.Close() })
	w := &world{t: t, double: double, dir: stateParent(t)}
	for _, login := range []string{"olga", "octavia", "rita", "toby"} {
		must1(double.AddUser(login))(t)
	}
	must1(double.AddOrg("acme", "olga"))(t)
	w.addRepo("acme/calc", branch, files)
	w.app = must1(double.AddApp(github.AppOptions{
		Owner: "acme", Name: "Sandpiper Test", HookSecret: secret,
		Permissions: map[string]string{"contents": "write", "issues": "write", "pull_requests": "write", "checks": "write", "metadata": "read", "merge_queues": "read"},
		Events:      []string{"issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment", "check_run", "check_suite", "push", "merge_group"},
	}))(t)
	w.install = must1(double.Install(w.app.Slug, "acme"))(t)
	return w
}

func (w *world) addRepo(name, branch string, files map[string]string) {
	w.t.Helper()
	must1(w.double.AddRepo(name, github.RepoOptions{DefaultBranch: branch, Files: files}))(w.t)
	for login, role := range map[string]string{"octavia": "write", "rita": "write", "toby": "read"} {
		r, ok := github.ParseRole(role)
		if !ok {
			w.t.Fatalf("no role %s", role)
		}
		must(w.t, w.double.SetRole(name, login, r))
	}
}

// bot is a running `sandpiper serve`.
type bot struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	log  bytes.Buffer
	url  string
}

// start starts the bot and points the webhooks at it.
func (w *world) start() {
	w.t.Helper()
	key := filepath.Join(w.dir, "key.pem")
	must(w.t, os.WriteFile(key, w.app.PrivateKeyPEM(), 0o600))
	b := &bot{done: make(chan struct{})}
	b.cmd = exec.Command(program, "serve")
	b.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "SANDPIPER_STATE_DIR=" + filepath.Join(w.dir, "state"), "SANDPIPER_LISTEN=127.0.0.1:0",
		"SANDPIPER_GITHUB_URL=" + w.double.URL(), "SANDPIPER_GITHUB_API_URL=" + w.double.URL(), fmt.Sprintf("SANDPIPER_APP_ID=%d", w.app.ID),
		"SANDPIPER_PRIVATE_KEY_FILE=" + key, "SANDPIPER_WEBHOOK_SECRETS=" + secret, "SANDPIPER_WRITE_PACE=0s", "SANDPIPER_LOG_FORMAT=json",
	}, w.env...)
	stderr := must1(b.cmd.StderrPipe())(w.t)
	must(w.t, b.cmd.Start())
	listening := make(chan string, 1)
	go func() {
		defer close(b.done)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			b.mu.Lock()
			b.log.Write(append(lines.Bytes(), '\n'))
			b.mu.Unlock()
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
				listening <- line.Address
			}
		}
		b.cmd.Wait()
	}()
	w.bot = b
	w.t.Cleanup(func() { b.kill() })
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("log of the bot:\n%s", b.text())
		}
	})
	select {
	case address := <-listening:
		b.url = "http://" + address
	case <-b.done:
		w.t.Fatalf("the bot ended:\n%s", b.text())
	case <-time.After(time.Minute):
		w.t.Fatal("the bot does not listen")
	}
	must(w.t, w.double.SetHook(w.app.Slug, b.url+"/webhook", secret))
	w.until("the bot is ready", func() bool { return w.get("/readyz") == http.StatusOK })
}

func (w *world) get(path string) int {
	answer, err := http.Get(w.bot.url + path)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

func (b *bot) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

// kill ends the bot as a power cut would.
func (b *bot) kill() { b.cmd.Process.Signal(syscall.SIGKILL); <-b.done }

// stop asks the bot to end and returns its exit status.
func (b *bot) stop() int {
	b.cmd.Process.Signal(syscall.SIGTERM)
	<-b.done
	return b.cmd.ProcessState.ExitCode()
}

// until polls; the deadline is generous because it only matters when something is broken.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("waited in vain until %s", what)
		case <-ticker.C:
		}
	}
}

// as is GitHub as a person sees it.
func (w *world) as(login string) *gh.Client {
	token := must1(w.double.PersonalToken(login))(w.t)
	client := gh.NewClient(nil).WithAuthToken(token)
	must(w.t, setURL(client, w.double.URL()+"/"))
	return client
}

// openIssue opens an issue of acme/calc and gives its number.
func (w *world) openIssue(title, body string) int {
	issue, _, err := w.as("octavia").Issues.Create(w.t.Context(), "acme", "calc", &gh.IssueRequest{Title: &title, Body: &body})
	must(w.t, err)
	return issue.GetNumber()
}

func (w *world) label(login string, number int) { w.put(login, number, "sandpiper") }

func (w *world) put(login string, number int, labels ...string) {
	_, _, err := w.as(login).Issues.AddLabelsToIssue(w.t.Context(), "acme", "calc", number, labels)
	must(w.t, err)
}

func (w *world) say(login string, number int, text string) {
	_, _, err := w.as(login).Issues.CreateComment(w.t.Context(), "acme", "calc", number, &gh.IssueComment{Body: &text})
	must(w.t, err)
}

// comments are what the bot has said on an issue.
func (w *world) comments(number int) (texts []string) {
	list, _, err := w.as("octavia").Issues.ListComments(w.t.Context(), "acme", "calc", number, &gh.IssueListCommentsOptions{ListOptions: gh.ListOptions{PerPage: 100}})
	must(w.t, err)
	for _, c := range list {
		if c.GetUser().GetLogin() == w.app.BotLogin() {
			texts = append(texts, c.GetBody())
		}
	}
	return texts
}

func (w *world) said(number int, part string) bool {
	return slices.ContainsFunc(w.comments(number), func(c string) bool { return strings.Contains(c, part) })
}

func (w *world) pulls() []*gh.PullRequest {
	list, _, err := w.as("octavia").PullRequests.List(w.t.Context(), "acme", "calc", &gh.PullRequestListOptions{State: "all", ListOptions: gh.ListOptions{PerPage: 100}})
	must(w.t, err)
	return list
}

// checkRuns are the Check Runs of commands on a commit; the gates that people hold have tests of their own.
func (w *world) checkRuns(sha string) []*gh.CheckRun {
	return slices.DeleteFunc(w.allRuns(sha), func(r *gh.CheckRun) bool {
		return r.GetName() == "sandpiper / review" || r.GetName() == "sandpiper / gates"
	})
}

func (w *world) allRuns(sha string) []*gh.CheckRun {
	list, _, err := w.as("octavia").Checks.ListCheckRunsForRef(w.t.Context(), "acme", "calc", sha, &gh.ListCheckRunsOptions{Filter: gh.String("all")})
	must(w.t, err)
	return list.CheckRuns
}

// ended waits until the issue's last mission says its outcome.
func (w *world) ended(number int, outcome string) {
	w.t.Helper()
	w.until(fmt.Sprintf("issue %d says %q", number, outcome), func() bool { return w.said(number, "**"+outcome+"**") })
}

// runs lists the directories of sandboxes, but for those of probes that were killed: these are the reaper's after ten minutes.
func (w *world) runs() (names []string) {
	entries, err := os.ReadDir(filepath.Join(w.dir, "state", "runs"))
	must(w.t, err)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "probe-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// nothingLeft says what missions that are over have left on the machine.
func (w *world) nothingLeft() {
	w.t.Helper()
	for _, run := range w.runs() {
		w.t.Errorf("left behind: run directory %s", run)
	}
	locks := must1(filepath.Glob(filepath.Join(w.dir, "state", "stores", "*", "*.lock")))(w.t)
	worktrees := must1(filepath.Glob(filepath.Join(w.dir, "state", "stores", "*", "worktrees", "*")))(w.t)
	for _, f := range append(locks, worktrees...) {
		w.t.Errorf("left behind: %s", f)
	}
	// A supervisor writes the exit status before it ends itself.
	w.until("no process is left", func() bool { return len(processesOf(w.dir)) == 0 })
}

// processesOf lists the processes that name a directory in their command line, but for the bot itself.
func processesOf(dir string) (found []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range lines {
		text, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(text, []byte(dir)) {
			continue
		}
		found = append(found, f+" "+string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
	}
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func setURL(c *gh.Client, url string) error {
	u, err := c.BaseURL.Parse(url)
	c.BaseURL = u
	return err
}
