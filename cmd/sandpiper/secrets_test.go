package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestCase07AndCase26NothingToFind has an agent look for credentials in what it can read, while every token that was minted before dies.
// The push, the pull request and the checks go on with new ones, and what it found is in the file env.txt of its change.
func TestCase07AndCase26NothingToFind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' >env.txt\nenv >>env.txt\n"+
		"cat .git/config $(git rev-parse --git-common-dir)/config ~/.gitconfig ~/.netrc ~/.git-credentials /run/secrets/* >>env.txt 2>/dev/null || true\n"+held))
	w.start()
	n := w.atWork()
	w.double.ExpireTokens()
	w.letGo()
	w.ended(n, "changed")
	w.waits(1)
	head := w.pulls()[0].GetHead().GetSHA()
	if got := len(w.checkRuns(head)); got != 2 {
		t.Errorf("%d Check Runs, want 2", got)
	}
	found := w.fileAt(head, "env.txt")
	if !strings.Contains(found, "SANDPIPER_PROMPT_FILE=") {
		t.Errorf("it did not see its own environment:\n%s", found)
	}
	for _, secret := range []string{secret, "ghs_", "PRIVATE KEY", "key.pem", "WEBHOOK_SECRET", w.double.URL()} {
		if strings.Contains(found, secret) {
			t.Errorf("it found %q:\n%s", secret, found)
		}
	}
}

// TestCase08TokensAreShownNowhere has an agent and a check print a token of the form ghs_<number>_<JWT>, whole and without its first
// characters, and a secret of the bot (claude-code-action#1564).
func TestCase08TokensAreShownNowhere(t *testing.T) {
	t.Parallel()
	token := "gh" + "s_123_ey" + "JhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.ey" + "J" + strings.Repeat("aB3dE-_7", 52) + "." + strings.Repeat("Zz9", 12)
	prints := "echo $(cat token.txt) and $(cut -c8- token.txt) and " + secret
	w := newWorld(t, calc("echo 1 >sum.txt\n"+prints+"\n", "token.txt", token+"\n", ".github/sandpiper.yml", fmt.Sprintf(
		"agent: sh agent.sh\nchecks:\n  - {name: leak, run: %q, required: true}\n", `echo "sum.txt:1: error: $(cat token.txt)"; `+prints+"; exit 1")))
	w.env = []string{"SANDPIPER_LOG_LEVEL=debug"}
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	w.waits(1)
	pr := w.pulls()[0]
	shown := map[string]string{"comments": strings.Join(w.comments(n), "\n"), "pull request": pr.GetBody(), "log": w.bot.text()}
	for _, run := range w.allRuns(pr.GetHead().GetSHA()) {
		annotations, _, err := w.as("octavia").Checks.ListCheckRunAnnotations(t.Context(), "acme", "calc", run.GetID(), nil)
		must(t, err)
		shown[run.GetName()] = string(must1(json.Marshal([]any{run, annotations}))(t))
	}
	shown["missions show"], _ = w.program("missions", "show", w.only().ID)
	if !strings.Contains(shown["sandpiper / leak"], "[secret") {
		t.Errorf("the check did not print it: %s", shown["sandpiper / leak"])
	}
	for where, text := range shown {
		for _, part := range []string{token, token[7:], secret} {
			if strings.Contains(text, part) {
				t.Errorf("%s: %d characters of it in\n%s", where, len(part), text)
			}
		}
	}
}

// TestCase12SecondMissionStartsFromTheNewestCommit: the store has what the first one fetched (kamp-us/phoenix#3621).
func TestCase12SecondMissionStartsFromTheNewestCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("cat other.txt >seen.txt || true\n"+fixes))
	w.start()
	w.opened()
	tip := w.lands("other.txt", "newer\n")
	n := w.openIssue("Sum again", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	for _, pr := range w.pulls() {
		if !strings.HasPrefix(pr.GetHead().GetRef(), fmt.Sprintf("sandpiper/%d-", n)) {
			continue
		}
		commit, _, err := w.as("rita").Git.GetCommit(t.Context(), "acme", "calc", pr.GetHead().GetSHA())
		must(t, err)
		if seen := w.fileAt(pr.GetHead().GetSHA(), "seen.txt"); seen != "newer\n" || commit.Parents[0].GetSHA() != tip {
			t.Errorf("the agent saw %q; the parent is %s, want %s", seen, commit.Parents[0].GetSHA(), tip)
		}
	}
}
