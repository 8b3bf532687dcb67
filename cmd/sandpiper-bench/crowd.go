package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

const (
	crowdSecret = "a webhook secret for load"
	noChange    = "no change needed"
)

// crowd is a GitHub with many repositories in several installations. Between it and the bot stand a counter of calls and a relay
// of deliveries.
type crowd struct {
	double       *github.Server
	app          *github.App
	repositories []string // owner/name
	servers      []*http.Server
	relay        string // address for webhooks
	url          string // of the double
	target       string // the bot's address for webhooks
	client       *http.Client
	delivered    atomic.Int64
	said         chan string // repositories whose status comment tells the end
	sending      sync.WaitGroup

	mu    sync.Mutex
	calls map[string]int // by owner/name
	reads map[string]int // of the repository itself, which also try tokens
	mints map[int64]int  // by repository id
	ids   map[string]int64
}

func newCrowd(dir string, repositories, inOne int) (*crowd, error) {
	w := &crowd{
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, said: make(chan string, repositories),
		calls: map[string]int{}, reads: map[string]int{}, mints: map[int64]int{}, ids: map[string]int64{},
	}
	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w.url = "http://" + api.Addr().String()
	if w.double, err = github.New(github.Options{Dir: filepath.Join(dir, "github"), PublicURL: w.url}); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	hook, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, api.Close())
	}
	w.relay = "http://" + hook.Addr().String()
	w.serve(api, http.HandlerFunc(w.count))
	w.serve(hook, http.HandlerFunc(w.forward))
	return w, w.populate(repositories, inOne)
}

func (w *crowd) serve(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	w.servers = append(w.servers, server)
	go server.Serve(l) // until close
}

func (w *crowd) close() {
	for _, s := range w.servers {
		_ = s.Close()
	}
	w.sending.Wait()
	_ = w.double.Close()
}

// populate makes the accounts, the App, and the repositories, whose agent does nothing.
func (w *crowd) populate(repositories, inOne int) error {
	if _, err := w.double.AddUser("octavia"); err != nil {
		return err
	}
	var err error
	w.app, err = w.double.AddApp(github.AppOptions{
		Owner: "octavia", Name: "Sandpiper Load", HookSecret: crowdSecret,
		Permissions: map[string]string{"contents": "write", "issues": "write", "pull_requests": "write", "checks": "write", "metadata": "read"},
		Events:      []string{"issues", "issue_comment"},
	})
	if err != nil {
		return err
	}
	for i := range repositories {
		owner := fmt.Sprintf("org-%d", i/inOne)
		if i%inOne == 0 {
			if _, err := w.double.AddOrg(owner, "octavia"); err != nil {
				return err
			}
			if _, err := w.double.Install(w.app.Slug, owner); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("%s/calc-%d", owner, i)
		made, err := w.double.AddRepo(name, github.RepoOptions{DefaultBranch: "main", Files: map[string]string{
			"sum.txt": "0\n", ".github/sandpiper.yml": "agent: /bin/true\n",
		}})
		if err != nil {
			return err
		}
		w.repositories = append(w.repositories, name)
		w.ids[name] = made.ID
	}
	return nil
}

var repoPath = regexp.MustCompile(`^/repos/([^/]+/[^/]+)(/.*)?$`)

// count counts what the bot asks of the API. People are on another way.
func (w *crowd) count(rw http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/access_tokens") && r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var asked struct {
			IDs []int64 `json:"repository_ids"`
		}
		if json.Unmarshal(body, &asked) == nil {
			w.mu.Lock()
			for _, id := range asked.IDs {
				w.mints[id]++
			}
			w.mu.Unlock()
		}
	}
	if m := repoPath.FindStringSubmatch(r.URL.Path); m != nil {
		w.mu.Lock()
		switch {
		case m[2] == "":
			w.reads[m[1]]++
		case m[2] == "/issues" && r.Method == http.MethodGet: // the sweep, which looks for labels now and then
		default:
			w.calls[m[1]]++
		}
		w.mu.Unlock()
	}
	w.double.ServeHTTP(rw, r)
}

// callsOf are the calls of a repository's mission. Each token that is minted is tried by a read of the repository.
func (w *crowd) callsOf(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[name] + max(w.reads[name]-w.mints[w.ids[name]], 0)
}

// forward passes a delivery on to the bot, that of a label four times at once, as if GitHub or a person delivered it again.
func (w *crowd) forward(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	var event struct {
		Action  string
		Comment struct{ Body string }
		Repo    struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
	}
	_ = json.Unmarshal(body, &event)
	if strings.Contains(event.Comment.Body, "**"+noChange+"**") {
		select {
		case w.said <- event.Repo.FullName:
		default: // told more than once
		}
	}
	times := 1
	if event.Action == "labeled" {
		times = 4
	}
	for range times {
		w.sending.Go(func() { w.send(r.Header, body) })
	}
}

func (w *crowd) send(header http.Header, body []byte) {
	request, err := http.NewRequest(http.MethodPost, w.target, bytes.NewReader(body))
	if err != nil {
		return
	}
	request.Header = header.Clone()
	answer, err := w.client.Do(request)
	if err != nil {
		fmt.Fprintln(os.Stderr, "a delivery was lost:", err) // a mission will be missing, or the sweep finds it
		return
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	w.delivered.Add(1)
}

// run opens the issues, talks about them, labels all of them, and waits until each has its end told.
func (w *crowd) run(ctx context.Context, b *botProcess) (time.Duration, error) {
	if err := w.double.SetHook(w.app.Slug, w.relay, crowdSecret); err != nil { // there is nobody to deliver to before
		return 0, err
	}
	people, err := w.double.As("octavia")
	if err != nil {
		return 0, err
	}
	text := "It should be 7.\n\n" + strings.Repeat("The total of a single number is 0, as of the last release. ", 100)
	for _, name := range w.repositories {
		owner, repo, _ := strings.Cut(name, "/")
		if _, _, err := people.Issues.Create(ctx, owner, repo, &gh.IssueRequest{Title: gh.String("Sum returns 0"), Body: &text}); err != nil {
			return 0, err
		}
		for range 2 {
			if _, _, err := people.Issues.CreateComment(ctx, owner, repo, 1, &gh.IssueComment{Body: &text}); err != nil {
				return 0, err
			}
		}
	}
	began := time.Now()
	for _, name := range w.repositories {
		owner, repo, _ := strings.Cut(name, "/")
		if _, _, err := people.Issues.AddLabelsToIssue(ctx, owner, repo, 1, []string{"sandpiper"}); err != nil {
			return 0, err
		}
	}
	shown := &progress{out: os.Stderr, all: len(w.repositories)}
	ended := map[string]bool{}
	for len(ended) < len(w.repositories) {
		select {
		case name := <-w.said:
			if !ended[name] {
				ended[name] = true
				shown.add()
			}
		case <-b.done:
			return 0, errors.New("the bot has ended")
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d missions have ended: %w", len(ended), len(w.repositories), context.Cause(ctx))
		}
	}
	return time.Since(began), w.double.Flush(ctx)
}

// comments counts those of the bot in the issue of a repository.
func (w *crowd) comments(ctx context.Context, name string) (n int) {
	people, err := w.double.As("octavia")
	if err != nil {
		return -1
	}
	owner, repo, _ := strings.Cut(name, "/")
	all, _, err := people.Issues.ListComments(ctx, owner, repo, 1, nil)
	if err != nil {
		return -1
	}
	for _, c := range all {
		if strings.HasSuffix(c.GetUser().GetLogin(), "[bot]") {
			n++
		}
	}
	return n
}
