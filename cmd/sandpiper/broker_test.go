package main

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/fixtures/agents"
	"github.com/sandpiper-bot/sandpiper/fixtures/model"
)

// modelKey is a canary: it may be at the model's API and in the file that the settings name, and nowhere else.
const modelKey = "sk-canary-c41f7b02e9d85a6310fe"

// modelWorld is a world with a model's API, and a bot that has the key for it.
func modelWorld(t *testing.T, agent string, api http.Handler) *world {
	t.Helper()
	return modelWorldOf(t, calc(agent), api)
}

func modelWorldOf(t *testing.T, files map[string]string, api http.Handler) *world {
	t.Helper()
	w := newWorld(t, files)
	upstream := httptest.NewServer(api)
	t.Cleanup(upstream.Close)
	key := filepath.Join(w.dir, "model.key")
	must(t, os.WriteFile(key, []byte(modelKey+"\n"), 0o600))
	for _, name := range []string{"ANTHROPIC", "OPENAI", "GEMINI"} {
		w.env = append(w.env, "SANDPIPER_MODEL_"+name+"_URL="+upstream.URL, "SANDPIPER_MODEL_"+name+"_KEY_FILE="+key)
	}
	return w
}

// nowhere looks for the key where it must not be: in the state of the bot, its logs, the answers of GitHub's double, and what
// processes show of themselves.
func (w *world) nowhere(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // things come and go while the bot works
		}
		if data, _ := os.ReadFile(path); bytes.Contains(data, []byte(modelKey)) {
			t.Errorf("the key is in %s", path)
		}
		return nil
	})
	must(t, err)
	if strings.Contains(w.bot.text(), modelKey) {
		t.Error("the key is in the log of the bot")
	}
	if n := shownByProcesses(modelKey); len(n) > 0 {
		t.Errorf("the key is shown by %v", n)
	}
}

func shownByProcesses(text string) (found []string) {
	for _, kind := range []string{"environ", "cmdline"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + kind)
		for _, f := range files {
			if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(text)) {
				found = append(found, f)
			}
		}
	}
	return found
}

// asks is an agent that speaks to the model by itself, with nothing but a shell, and fetches the history of its repository. It waits for
// leave to go on, so that something can happen meanwhile.
const asks = `set -eu
touch begun
while ! test -e /sandpiper/go; do sleep 0.1; done
body='{"model":"claude-sonnet-4-6","messages":[]}'
host=${SANDPIPER_MODEL_ANTHROPIC_URL#http://}; path=/${host#*/}; host=${host%%/*}
bash -c 'exec 3<>/dev/tcp/${0%:*}/${0#*:}
printf "POST $1/v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nX-Api-Key: none\r\nContent-Length: ${#2}\r\n\r\n$2" >&3
cat <&3' "$host" "$path" "$body" >answer
grep -q 'Done.' answer
git fetch -q origin
git log --format=%s origin/main >>answer
if git push -q origin HEAD:main 2>push; then exit 3; fi
grep -q 403 push
env | sort
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' || true
echo 1 >sum.txt
rm -f answer push begun go
`

// The supervisor serves the broker: a command goes on to have its model when the bot is killed, and a bot that comes back finds it.
func TestModelThroughTheBrokerSurvivesTheBot(t *testing.T) {
	t.Parallel()
	api := model.New(model.Options{Key: modelKey})
	w := modelWorld(t, asks, api)
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	task := ""
	w.until("the agent has begun", func() bool {
		found, _ := filepath.Glob(filepath.Join(w.dir, "state", "runs", "*", "*", "begun"))
		if len(found) == 1 {
			task = filepath.Join(filepath.Dir(filepath.Dir(found[0])), "task")
		}
		return len(found) == 1
	})
	w.nowhere(t)
	w.bot.kill()
	must(t, os.WriteFile(filepath.Join(task, "go"), nil, 0o644)) // seen inside as /sandpiper/go
	w.until("the model is asked with no bot there", func() bool { return len(api.Requests()) == 1 })
	w.start()
	w.ended(n, "changed")
	if len(w.pulls()) != 1 {
		t.Errorf("%d pull requests", len(w.pulls()))
	}
	if got := api.Requests()[0].Header.Get("X-Api-Key"); got != modelKey {
		t.Errorf("the model was asked with %q", got)
	}
	w.nowhere(t)
	archive := must1(filepath.Glob(filepath.Join(w.dir, "state", "*", "*", "exec", "agent", "broker.jsonl")))(t)
	if len(archive) != 1 {
		t.Fatalf("records: %v", archive)
	}
	records := string(must1(os.ReadFile(archive[0]))(t))
	for _, part := range []string{`"action":"model.anthropic.messages"`, `"action":"git.refs"`, `"rule":"git.push"`, `"credential":"sha256:`} {
		if !strings.Contains(records, part) {
			t.Errorf("the records lack %s:\n%s", part, records)
		}
	}
}

// spends asks the model until it is told that enough is enough, and writes down how often that went well.
const spends = `set -eu
host=${SANDPIPER_MODEL_ANTHROPIC_URL#http://}; path=/${host#*/}; host=${host%%/*}
body='{"model":"claude-opus-5","messages":[]}'
n=0
while test $n -lt 50; do
  bash -c 'exec 3<>/dev/tcp/${0%:*}/${0#*:}
  printf "POST $1/v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${#2}\r\n\r\n$2" >&3
  cat <&3' "$host" "$path" "$body" >answer
  grep -q 'Done.' answer || break
  n=$((n+1))
done
grep -q 'HTTP/1.1 400' answer && grep -q 'the budget is used up: the 0.01 US dollars' answer
rm answer
echo 1 >sum.txt; echo $n >calls.txt
`

// What a mission may spend is a matter of its policy.
func TestBudgetOfAMission(t *testing.T) {
	t.Parallel()
	api := model.New(model.Options{Key: modelKey})
	w := modelWorldOf(t, calc(spends, ".github/sandpiper.yml", "agent: sh agent.sh\nchecks: []\nbudget: {money: 0.01 USD}\n"), api)
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	// Each call costs 0.00082 dollars by the list: the thirteenth is the last to begin.
	if got := len(api.Requests()); got != 13 {
		t.Errorf("%d requests reached the model", got)
	}
}

// An agent that ends badly once the budget is gone was ended by the budget.
func TestBudgetEndsAMission(t *testing.T) {
	t.Parallel()
	w := modelWorldOf(t, calc(spends+"exit 1\n", ".github/sandpiper.yml", "agent: sh agent.sh\nchecks: []\nbudget: {money: 0.01 USD}\n"), model.New(model.Options{Key: modelKey}))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.ended(n, "out of budget")
	if len(w.pulls()) != 0 || !w.said(n, `0\.01 USD`) {
		t.Errorf("%d pull requests; %v", len(w.pulls()), w.comments(n))
	}
}

// The command line gives a command a model in the same way.
func TestSandboxExecWithAModel(t *testing.T) {
	t.Parallel()
	// A key of its own: a person's environment may show it, and other tests look for theirs in every process meanwhile.
	const ownKey = "sk-canary-of-the-command-line"
	api := model.New(model.Options{Key: ownKey})
	upstream := httptest.NewServer(api)
	t.Cleanup(upstream.Close)
	repo := t.TempDir()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = repo
		must(t, cmd.Run())
	}
	state := stateParent(t)
	call := func(args ...string) string {
		cmd := exec.Command(program, append([]string{"sandbox"}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + state, "SANDPIPER_STATE_DIR=" + filepath.Join(state, "state"),
			"SANDPIPER_MODEL_OPENAI_URL=" + upstream.URL, "SANDPIPER_MODEL_OPENAI_KEY=" + ownKey}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return strings.TrimSpace(string(out))
	}
	id := call("create", "--repo", repo, "--base", "HEAD")
	script := `echo "$SANDPIPER_MODEL_OPENAI_URL"; bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf "GET /model/openai/v1/models HTTP/1.0\r\n\r\n" >&3; head -1 <&3'`
	if got := call("exec", id, "--model", "openai", "--", "sh", "-c", script); !strings.Contains(got, "http://127.0.0.1:3128/model/openai") || !strings.Contains(got, "200 OK") {
		t.Errorf("%s", got)
	}
	if got := call("exec", id, "--model", "gemini", "--", "true"); !strings.Contains(got, "no key for the model endpoint gemini") {
		t.Errorf("%s", got)
	}
}

// TestRealAgentsMakePullRequests has each agent that is installed work on an issue, from the label to the pull request.
func TestRealAgentsMakePullRequests(t *testing.T) {
	for _, name := range policy.Profiles() {
		t.Run(name, func(t *testing.T) {
			prefix, ok, how := agents.Installed(name)
			if !ok {
				t.Skip(how)
			}
			var mu sync.Mutex
			var shown []string
			api := model.New(model.Options{Key: modelKey, Shell: []string{"git fetch -q origin && echo 1 >sum.txt"}, Say: "Mended."})
			files := calc("", ".github/sandpiper.yml", "agent: "+name+"\nchecks:\n  - {name: sum, run: grep -qx 1 sum.txt, required: true}\n")
			w := modelWorldOf(t, files, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				shown = append(shown, shownByProcesses(modelKey)...)
				mu.Unlock()
				api.ServeHTTP(rw, r)
			}))
			w.env = append(w.env, "SANDPIPER_SYSTEM_PATHS="+prefix)
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.ended(n, "changed")
			if len(w.pulls()) != 1 || len(api.Requests()) == 0 {
				t.Errorf("%d pull requests after %d requests", len(w.pulls()), len(api.Requests()))
			}
			mu.Lock()
			defer mu.Unlock()
			if len(shown) > 0 {
				t.Errorf("the key was shown by %v", shown)
			}
			w.nowhere(t)
		})
	}
}
