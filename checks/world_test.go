package checks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v60/github"

	double "github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// world is a repository at the double, the App's client for it, and a Reporter that does not wait.
type world struct {
	server   *double.Server
	gh       *github.Client
	app      int64
	target   Target
	reporter *Reporter
	key      ExternalID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := double.New(double.Options{})
	must(t, err)
	must(t, s.Start("127.0.0.1:0"))
	t.Cleanup(func() { must(t, s.Close()) })
	_, err = s.AddUser("octavia")
	must(t, err)
	_, err = s.AddRepo("octavia/calc", double.RepoOptions{Files: map[string]string{"sum.go": "package calc\n"}})
	must(t, err)
	app, err := s.AddApp(double.AppOptions{Owner: "octavia", Name: "sandpiper", Permissions: map[string]string{"checks": "write", "contents": "read"}})
	must(t, err)
	inst, err := s.Install("sandpiper", "octavia")
	must(t, err)
	head, err := s.BranchHead("octavia/calc", "main")
	must(t, err)
	return &world{
		server: s, gh: client(t, s, "sandpiper", inst.ID), app: app.ID,
		target: Target{Owner: "octavia", Repo: "calc", HeadSHA: head, DetailsURL: "https://sandpiper.example/m-1"},
		reporter: NewReporter(ReporterOptions{
			AppID: app.ID, Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[secret]") },
			Wait: func(context.Context, time.Duration) error { return nil },
		}),
		key: ExternalID{Mission: "m-1", Run: "r-1-1", Check: "test", Attempt: 1},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, s *double.Server, slug string, inst int64) *github.Client {
	t.Helper()
	app, err := s.AsApp(slug)
	must(t, err)
	token, _, err := app.Apps.CreateInstallationToken(t.Context(), inst, nil)
	must(t, err)
	gh := github.NewClient(nil).WithAuthToken(token.GetToken())
	gh.BaseURL, err = gh.BaseURL.Parse(s.URL() + "/")
	must(t, err)
	return gh
}

func (w *world) runs(t *testing.T) []*github.CheckRun {
	t.Helper()
	list, _, err := w.gh.Checks.ListCheckRunsForRef(t.Context(), w.target.Owner, w.target.Repo, w.target.HeadSHA, &github.ListCheckRunsOptions{Filter: github.String("all")})
	must(t, err)
	return list.CheckRuns
}

func (w *world) annotations(t *testing.T, id int64) []string {
	t.Helper()
	var all []string
	for o := (&github.ListOptions{PerPage: 100}); ; {
		page, resp, err := w.gh.Checks.ListCheckRunAnnotations(t.Context(), w.target.Owner, w.target.Repo, id, o)
		must(t, err)
		for _, a := range page {
			all = append(all, a.GetMessage())
		}
		if resp.NextPage == 0 {
			return all
		}
		o.Page = resp.NextPage
	}
}

func annotations(n int) ([]*github.CheckRunAnnotation, []string) {
	var list []*github.CheckRunAnnotation
	var messages []string
	for i := range n {
		m := fmt.Sprintf("problem %d", i+1)
		messages = append(messages, m)
		list = append(list, &github.CheckRunAnnotation{Path: github.String("sum.go"), StartLine: github.Int(1), EndLine: github.Int(1), AnnotationLevel: github.String("failure"), Message: &m})
	}
	return list, messages
}

var began = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func failed(list []*github.CheckRunAnnotation) Result {
	return Result{
		Check: Check{Name: "test", Run: "go test ./..."}, Conclusion: Failure, Summary: "exit status 1", Annotations: list,
		LogTail: "--- FAIL: TestSum\n", Started: began, Completed: began.Add(time.Minute), Duration: time.Minute,
	}
}

// outsideCode removes fenced blocks and code spans, as far as these tests make them.
func outsideCode(s string) string {
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(s) {
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3 && strings.HasSuffix(strings.TrimSpace(line), "text"):
			fence = ticks
		case fence != "" && strings.TrimSpace(line) == fence:
			fence = ""
		case fence == "":
			for {
				at := strings.IndexByte(line, '`')
				if at < 0 {
					break
				}
				n := len(line[at:]) - len(strings.TrimLeft(line[at:], "`"))
				end := strings.Index(line[at+n:], line[at:at+n])
				if end < 0 {
					break
				}
				b.WriteString(line[:at])
				line = line[at+n+end+n:]
			}
			b.WriteString(line)
		}
	}
	return b.String()
}
