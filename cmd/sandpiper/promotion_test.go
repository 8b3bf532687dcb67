package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"
)

// lands has octavia put one file on main.
func (w *world) lands(path, text string) string {
	w.t.Helper()
	octavia := w.as("octavia")
	opts := &gh.RepositoryContentFileOptions{Message: gh.String("meanwhile"), Content: []byte(text), Branch: gh.String("main")}
	if file, _, _, err := octavia.Repositories.GetContents(w.t.Context(), "acme", "calc", path, nil); err == nil {
		opts.SHA = file.SHA
	}
	made, _, err := octavia.Repositories.CreateFile(w.t.Context(), "acme", "calc", path, opts)
	must(w.t, err)
	return made.GetSHA()
}

func (w *world) filesOf(pull int) []string {
	w.t.Helper()
	files, _, err := w.as("rita").PullRequests.ListFiles(w.t.Context(), "acme", "calc", pull, nil)
	must(w.t, err)
	names := []string{}
	for _, f := range files {
		names = append(names, f.GetFilename())
	}
	slices.Sort(names)
	return names
}

func (w *world) waits(times int) {
	w.t.Helper()
	w.until("the mission waits for people", func() bool { return strings.Count(w.bot.text(), `"next":"waiting"`) >= times })
}

// TestSelection leaves a file out of an open pull request and takes it back. The checks run on exactly what is shown.
func TestSelection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("echo 1 >sum.txt\necho debug >debug.log\n", ".github/sandpiper.yml",
		"agent: sh agent.sh\nchecks:\n  - {name: log, run: 'test ! -e debug.log', required: true}\n"))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	w.waits(1)
	first := w.pulls()[0]
	if diff := cmp.Diff([]string{"debug.log", "sum.txt"}, w.filesOf(first.GetNumber())); diff != "" || !first.GetDraft() {
		t.Errorf("draft %v (-want +got)\n%s", first.GetDraft(), diff)
	}
	w.say("octavia", n, "/sandpiper drop nothing.txt sum.txt debug.log")
	w.until("an empty selection is refused", func() bool { return w.said(n, "Nothing that the run changed would be left") })
	w.say("octavia", n, `/sandpiper drop "debug.log`)
	w.until("a typing mistake is told", func() bool { return w.said(n, "not closed") })

	w.say("rita", n, "/sandpiper drop *.log")
	w.waits(2)
	pulls := w.pulls()
	if len(pulls) != 1 || pulls[0].GetHead().GetSHA() == first.GetHead().GetSHA() {
		t.Fatalf("%d pull requests, head %s", len(pulls), pulls[0].GetHead().GetSHA())
	}
	if diff := cmp.Diff([]string{"sum.txt"}, w.filesOf(first.GetNumber())); diff != "" {
		t.Errorf("files (-want +got)\n%s", diff)
	}
	for _, want := range []string{"left out of this pull request", "- `debug.log` (added)", "on exactly this tree"} {
		if !strings.Contains(pulls[0].GetBody(), want) {
			t.Errorf("the pull request does not say %q:\n%s", want, pulls[0].GetBody())
		}
	}
	runs := w.checkRuns(pulls[0].GetHead().GetSHA())
	if i := slices.IndexFunc(runs, func(r *gh.CheckRun) bool { return r.GetName() == "sandpiper / log" }); i < 0 || runs[i].GetConclusion() != "success" {
		t.Errorf("checks of the selection: %v", runs)
	}
	w.say("rita", n, "/sandpiper promote all")
	w.waits(3)
	if diff := cmp.Diff([]string{"debug.log", "sum.txt"}, w.filesOf(first.GetNumber())); diff != "" {
		t.Errorf("what was left out is lost (-want +got)\n%s", diff)
	}
	w.nothingLeft()
}

// TestCase11And12BaseMovesDuringTheRun: a change elsewhere is merged, one in the same place makes a draft from the old base.
func TestCase11And12BaseMovesDuringTheRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  string
		draft bool
		says  string
	}{
		"elsewhere":      {"other.txt", false, "The base branch has moved since"},
		"the same place": {"sum.txt", true, "It does not merge"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc("while [ ! -e /sandpiper/go ]; do sleep 0.1; done\n"+fixes, ".github/sandpiper.yml",
				"agent: sh agent.sh\nchecks: [{name: both, run: 'grep -qx 1 sum.txt', required: true}]\n"))
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.until("the agent works", func() bool { return w.said(n, "the agent is at work") })
			tip := w.lands(c.path, "7\n")
			w.letGo()
			w.ended(n, "changed")
			pr := w.pulls()[0]
			if pr.GetDraft() != c.draft || !strings.Contains(pr.GetBody(), c.says) {
				t.Errorf("draft %v:\n%s", pr.GetDraft(), pr.GetBody())
			}
			commit, _, err := w.as("rita").Git.GetCommit(t.Context(), "acme", "calc", pr.GetHead().GetSHA())
			must(t, err)
			if onTip := commit.Parents[0].GetSHA() == tip; onTip == c.draft {
				t.Errorf("on the newest commit: %v", onTip)
			}
			if diff := cmp.Diff([]string{"sum.txt"}, w.filesOf(pr.GetNumber())); diff != "" {
				t.Errorf("files (-want +got)\n%s", diff)
			}
		})
	}
}

// letGo lets an agent go on that waits for a file of that name in its workspace.
func (w *world) letGo() {
	w.t.Helper()
	run := must1(filepath.Glob(filepath.Join(w.dir, "state/runs/*")))(w.t)[0]
	must(w.t, os.WriteFile(filepath.Join(run, "task", "go"), nil, 0o644)) // seen inside as /sandpiper/go
}

// gatesOf is the Check Run `sandpiper / gates` of a commit.
func (w *world) gatesOf(sha string) (conclusion, title string, annotations int) {
	w.t.Helper()
	for _, r := range w.allRuns(sha) {
		if r.GetName() == "sandpiper / gates" {
			return r.GetConclusion(), r.GetOutput().GetTitle(), r.GetOutput().GetAnnotationsCount()
		}
	}
	w.t.Fatal("no Check Run sandpiper / gates")
	return "", "", 0
}

// TestCase09WorkflowFileIsHeldAndTheRestPromoted: what GitHub would refuse is found before the push, and nothing is lost.
func TestCase09WorkflowFileIsHeldAndTheRestPromoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("mkdir -p .github/workflows\necho on: push >.github/workflows/ci.yml\n"+fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "blocked by rule")
	w.waits(1)
	if !w.said(n, "workflows: write") || len(w.pulls()) != 0 || len(w.comments(n)) != 1 {
		t.Errorf("%d pull requests, comments %q", len(w.pulls()), w.comments(n))
	}
	w.say("octavia", n, "/sandpiper allow workflows")
	w.until("what GitHub refuses cannot be allowed", func() bool { return w.said(n, "of these: `protected`.") })
	w.say("octavia", n, "/sandpiper drop .github/workflows/**")
	w.ended(n, "changed")
	w.waits(2)
	pr := w.pulls()[0]
	if diff := cmp.Diff([]string{"sum.txt"}, w.filesOf(pr.GetNumber())); diff != "" || pr.GetDraft() {
		t.Errorf("draft %v, files (-want +got)\n%s", pr.GetDraft(), diff)
	}
	if got, _, _ := w.gatesOf(pr.GetHead().GetSHA()); got != "success" {
		t.Errorf("gates: %s", got)
	}
	w.nothingLeft()
}

// TestGatesWaitForAPerson has a secret keep a pull request from being opened and a manifest make it a draft, until a person
// says that they may be.
func TestGatesWaitForAPerson(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_" + strings.Repeat("aB3d", 9)
	half := len(token) / 2
	w := newWorld(t, calc("printf 'a\\nKEY=%s%s\\n' "+token[:half]+" "+token[half:]+" >made.env\necho module x >go.mod\n"+fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "blocked by policy")
	w.waits(1)
	if len(w.pulls()) != 0 || !w.said(n, `made\.env`) || strings.Contains(strings.Join(w.comments(n), ""), token) {
		t.Errorf("%d pull requests, comments %q", len(w.pulls()), w.comments(n))
	}
	w.say("rita", n, "/sandpiper allow all")
	w.until("gates are named", func() bool { return w.said(n, "of these: `secrets`, `dependencies`") })
	w.say("toby", n, "/sandpiper allow secrets")
	w.until("not by everybody", func() bool { return w.said(n, "toby has read access") })
	w.say("rita", n, "/sandpiper allow secrets")
	w.ended(n, "changed")
	w.waits(2)
	pr := w.pulls()[0]
	if !pr.GetDraft() || strings.Contains(pr.GetBody(), token) || !strings.Contains(pr.GetBody(), "allowed by `rita`") {
		t.Errorf("draft %v:\n%s", pr.GetDraft(), pr.GetBody())
	}
	if got, title, annotations := w.gatesOf(pr.GetHead().GetSHA()); got != "failure" || !strings.Contains(title, "dependencies") || annotations != 2 {
		t.Errorf("gates: %s, %q, %d annotations", got, title, annotations)
	}
	if review := w.reviewOf(pr.GetHead().GetSHA()); !strings.Contains(review, "settle dependencies") {
		t.Errorf("the review gate: %s", review)
	}
	w.say("rita", n, "/sandpiper allow dependencies")
	w.waits(3)
	again := w.pulls()[0]
	if again.GetDraft() || again.GetHead().GetSHA() != pr.GetHead().GetSHA() || len(w.pulls()) != 1 {
		t.Errorf("draft %v, head %s, was %s", again.GetDraft(), again.GetHead().GetSHA(), pr.GetHead().GetSHA())
	}
	if got, _, _ := w.gatesOf(pr.GetHead().GetSHA()); got != "success" {
		t.Errorf("gates: %s", got)
	}
	if review := w.reviewOf(pr.GetHead().GetSHA()); strings.Contains(review, "settle") {
		t.Errorf("the review gate: %s", review)
	}
}

// reviewOf is the title of the Check Run `sandpiper / review` of a commit.
func (w *world) reviewOf(sha string) string {
	w.t.Helper()
	for _, r := range w.allRuns(sha) {
		if r.GetName() == "sandpiper / review" {
			return r.GetOutput().GetTitle()
		}
	}
	return ""
}

// TestCase16RequiredSignatures: where commits have to be signed, GitHub makes them; also for a change that only objects can
// express, and for another selection of it.
func TestCase16RequiredSignatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("echo x >tool\nchmod +x tool\nln -s tool link\n"+fixes))
	must(t, w.double.AddRuleset("acme/calc", "signed", []string{"~ALL"}, "required_signatures"))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	w.waits(1)
	w.signed("link", "sum.txt", "tool")
	w.say("octavia", n, "/sandpiper promote only sum.txt")
	w.waits(2)
	w.signed("sum.txt")
}

// signed holds the one pull request to these files and a commit that GitHub signed.
func (w *world) signed(files ...string) {
	w.t.Helper()
	pulls := w.pulls()
	if len(pulls) != 1 {
		w.t.Fatalf("%d pull requests", len(pulls))
	}
	if diff := cmp.Diff(files, w.filesOf(pulls[0].GetNumber())); diff != "" {
		w.t.Errorf("files (-want +got)\n%s", diff)
	}
	commit, _, err := w.as("rita").Git.GetCommit(w.t.Context(), "acme", "calc", pulls[0].GetHead().GetSHA())
	must(w.t, err)
	if !commit.GetVerification().GetVerified() {
		w.t.Errorf("the commit is not signed: %v", commit)
	}
}

// TestPreflight ends missions before the agent works for nothing.
func TestPreflight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule, policy, says string
	}{
		"no branches":       {"creation", "", "create no branch"},
		"pushes not signed": {"required_signatures", "promote: {transport: push}\n", "have to be signed"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(fixes, ".github/sandpiper.yml", "agent: sh agent.sh\nchecks: []\n"+c.policy))
			must(t, w.double.AddRuleset("acme/calc", "rules", []string{"refs/heads/sandpiper/**/*"}, c.rule))
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.ended(n, "blocked by rule")
			if !w.said(n, c.says) || len(w.comments(n)) != 1 {
				t.Errorf("comments %q", w.comments(n))
			}
			if strings.Contains(w.bot.text(), `"detail":"agent"`) {
				t.Error("the agent was started")
			}
		})
	}
}

// TestManifestVerify holds the manifest of a real pull request against a clone, by the command line.
func TestManifestVerify(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	private := filepath.Join(w.dir, "sign.pem")
	public := makeKey(t, private)
	w.env = []string{"SANDPIPER_SIGNING_KEY_FILE=" + private}
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	pr := w.pulls()[0]
	clone := w.cloned()
	body := filepath.Join(w.dir, "body.md")
	must(t, os.WriteFile(body, []byte(pr.GetBody()), 0o600))
	v, err := verifyManifest(t.Context(), nil, body, clone, public)
	must(t, err)
	if !v.OK || v.Head != pr.GetHead().GetSHA() || v.Changes != 1 || !strings.HasPrefix(v.Signature, "by the key") {
		t.Errorf("verdict: %+v", v)
	}
	other := makeKey(t, filepath.Join(w.dir, "other.pem"))
	if v, err := verifyManifest(t.Context(), nil, body, clone, other); err != nil || v.OK {
		t.Errorf("with another key: %+v, %v", v, err)
	}
	must(t, os.WriteFile(body, []byte("no manifest here"), 0o600))
	if _, err := verifyManifest(t.Context(), nil, body, clone, ""); err == nil {
		t.Error("a text without a manifest was verified")
	}
}

// makeKey writes a private key and gives the file of its public half.
func makeKey(t *testing.T, file string) (public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	der := must1(x509.MarshalPKCS8PrivateKey(key))(t)
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	der = must1(x509.MarshalPKIXPublicKey(pub))(t)
	must(t, os.WriteFile(file+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	return file + ".pub"
}

// basic is how a person's git signs in.
func (w *world) basic(login string) string {
	return base64.StdEncoding.EncodeToString([]byte(login + ":" + must1(w.double.PersonalToken(login))(w.t)))
}
