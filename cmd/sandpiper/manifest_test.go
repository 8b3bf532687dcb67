package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/promote"
)

// cloned is a clone of the repository with all its branches.
func (w *world) cloned() string {
	w.t.Helper()
	dir := filepath.Join(w.dir, "clone")
	for _, args := range [][]string{{"init", "-q", dir}, {"-C", dir, "fetch", "-q", w.double.URL() + "/acme/calc.git", "+refs/heads/*:refs/remotes/o/*"}} {
		cmd := exec.Command("git", append([]string{"-c", "http.extraHeader=Authorization: Basic " + w.basic("rita")}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// TestManifestVerifyOfAPullRequest reads it at GitHub, by number and by address: as the bot made it, with a text that somebody
// changed, and with a branch that somebody pushed to.
func TestManifestVerifyOfAPullRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	pr := w.pulls()[0]
	clone := w.cloned()
	w.env = append(w.env, "SANDPIPER_GITHUB_URL="+w.double.URL(), "SANDPIPER_GITHUB_API_URL="+w.double.URL(), "GITHUB_TOKEN="+must1(w.double.PersonalToken("rita"))(t))
	verify := func(what string, code int, says string) {
		t.Helper()
		out, got := w.program("manifest", "verify", what, "--repo", clone)
		if got != code || !strings.Contains(out, says) {
			t.Errorf("%s: exit status %d, want %d and %q:\n%s", what, got, code, says, out)
		}
	}
	number := fmt.Sprintf("acme/calc#%d", pr.GetNumber())
	verify(number, 0, "all is as the manifest says")
	verify(fmt.Sprintf("%s/acme/calc/pull/%d", w.double.URL(), pr.GetNumber()), 0, pr.GetHead().GetSHA())
	verify("https://github.example/acme/calc/pull/2", 2, "set SANDPIPER_GITHUB_URL=https://github.example")
	verify("acme/calc#99", 1, "404")

	edit := func(body string) {
		t.Helper()
		_, _, err := w.as("octavia").PullRequests.Edit(t.Context(), "acme", "calc", pr.GetNumber(), &gh.PullRequest{Body: &body})
		must(t, err)
	}
	edit(strings.Replace(pr.GetBody(), "```json", "```", 1))
	verify(number, 1, "there is no manifest")
	edit(forged(t, pr.GetBody(), `"new_mode":"100644"`, `"new_mode":"100755"`))
	verify(number, 1, `"sum.txt" is`)
	edit(forged(t, pr.GetBody(), `"path":"sum.txt"`, `"path":"other.txt"`))
	verify(number, 1, `"other.txt" is in the manifest, and has not changed`)
	edit(pr.GetBody())
	verify(number, 0, "all is as the manifest says")

	w.pushes("rita", pr.GetHead().GetRef(), "more.txt", "more\n")
	verify(number, 1, "somebody has pushed since")
}

// forged is the text of a pull request with another word in its manifest.
func forged(t *testing.T, body, old, new string) string {
	t.Helper()
	text, ok := promote.FindEnvelope(body)
	if !ok {
		t.Fatal("no manifest in the pull request")
	}
	var e promote.Envelope
	must(t, json.Unmarshal(text, &e))
	payload := string(must1(base64.StdEncoding.DecodeString(e.Payload))(t))
	if !strings.Contains(payload, old) {
		t.Fatalf("no %s in %s", old, payload)
	}
	changed := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(payload, old, new)))
	return strings.Replace(body, e.Payload, changed, 1)
}
