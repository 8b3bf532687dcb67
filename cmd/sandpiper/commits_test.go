package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"
)

// commitsOf are the messages of a pull request's commits without their trailers, oldest first.
func (w *world) commitsOf(pull int) (said []string, commits []*gh.RepositoryCommit) {
	w.t.Helper()
	commits, _, err := w.as("rita").PullRequests.ListCommits(w.t.Context(), "acme", "calc", pull, nil)
	must(w.t, err)
	for _, c := range commits {
		text, trailers, _ := strings.Cut(c.GetCommit().GetMessage(), "\n\nRefs: ")
		said = append(said, text)
		if !strings.Contains(trailers, "Sandpiper-Run: r-") || strings.Contains(trailers, "Reviewed-by") {
			w.t.Errorf("trailers of %q: %q", text, trailers)
		}
	}
	return said, commits
}

// TestCase17CommitsOfTheAgentAreKept: two commits with odd names, a copy and a rename, then a dirty work tree. By both
// transports, also where the base has moved; the tree is what was collected.
func TestCase17CommitsOfTheAgentAreKept(t *testing.T) {
	t.Parallel()
	const agent = `set -e
git config user.name 'Rita Reviewer'; git config user.email rita@example.org
cp long.txt copy.txt; git mv README.md READ.md; printf x >"$(printf 'a "q"\t')"
git add -A; git commit -qm 'fixup! Copy the list (fixes #1)

Because of @octavia.
  - indented

Reviewed-by: Rita <rita@example.org>'
echo 1 >sum.txt; git commit -qam 'Fix the sum'
echo dirty >dirty.txt
while [ ! -e /sandpiper/go ]; do sleep 0.1; done
`
	for _, transport := range []string{"push", "api"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(agent, "long.txt", strings.Repeat("line\n", 30), ".github/sandpiper.yml",
				"agent: sh agent.sh\nchecks: []\npromote: {commits: keep, transport: "+transport+"}\n"))
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.until("the agent works", func() bool { return w.said(n, "the agent is at work") })
			if transport == "api" {
				w.lands("other.txt", "7\n")
			}
			w.letGo()
			w.ended(n, "changed")
			pr := w.pulls()[0]
			said, commits := w.commitsOf(pr.GetNumber())
			want := []string{"Copy the list (fixes 1)\n\nBecause of octavia.\n  - indented", "Fix the sum"}
			if len(said) != 3 || cmp.Diff(want, said[:2]) != "" {
				t.Fatalf("commits (-want +got)\n%s\n%s", cmp.Diff(want, said), pr.GetBody())
			}
			for _, c := range commits {
				if author := c.GetCommit().GetAuthor().GetName(); author != w.app.BotLogin() {
					t.Errorf("author %q", author)
				}
				if v := c.GetCommit().GetVerification().GetVerified(); v != (transport == "api") {
					t.Errorf("signed %v", v)
				}
			}
			if diff := cmp.Diff([]string{"READ.md", "a \"q\"\t", "copy.txt", "dirty.txt", "sum.txt"}, w.filesOf(pr.GetNumber())); diff != "" {
				t.Errorf("files (-want +got)\n%s", diff)
			}
			if got := w.fileAt(pr.GetHead().GetSHA(), "copy.txt"); got != w.fileAt(pr.GetHead().GetSHA(), "long.txt") {
				t.Errorf("the copy is %q", got)
			}
			if !strings.Contains(pr.GetBody(), "In 3 commits, with the agent's words") {
				t.Errorf("the pull request does not tell its commits:\n%s", pr.GetBody())
			}
		})
	}
}

// TestKeptCommitsAreHeldToTheGates: a credential that one commit brings and the next takes away would be pushed.
func TestKeptCommitsAreHeldToTheGates(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_" + strings.Repeat("aB3d", 9)
	half := len(token) / 2
	w := newWorld(t, calc("git config user.name x; git config user.email x@y.z\nprintf 'KEY=%s%s\\n' "+token[:half]+" "+token[half:]+" >made.env\n"+
		"git add -A; git commit -qm one; git rm -q made.env; git commit -qm two\n"+fixes,
		".github/sandpiper.yml", "agent: sh agent.sh\nchecks: []\npromote: {commits: keep}\n"))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "blocked by policy")
	if len(w.pulls()) != 0 || !w.said(n, `made\.env`) {
		t.Errorf("%d pull requests, comments %q", len(w.pulls()), w.comments(n))
	}
}
