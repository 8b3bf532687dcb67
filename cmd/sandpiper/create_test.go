package main

import (
	"bufio"
	"context"
	"encoding/json"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/config"
)

// TestSetupCommand makes an App as a person with a browser does, and runs a mission with nothing set but where GitHub is.
func TestSetupCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "SANDPIPER_STATE_DIR=" + filepath.Join(w.dir, "state"), "SANDPIPER_LISTEN=127.0.0.1:0",
		"SANDPIPER_GITHUB_URL=" + w.double.URL(), "SANDPIPER_PUBLIC_URL=https://bot.example.com",
	}
	first := exec.CommandContext(t.Context(), program, "setup", "--org", "acme")
	first.Env = env
	out := must1(first.StdoutPipe())(t)
	must(t, first.Start())
	lines := bufio.NewScanner(out)
	lines.Scan()
	browser := &http.Client{Jar: must1(cookiejar.New(nil))(t), CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.Contains(r.URL.Path, "/installations/new") {
			return http.ErrUseLastResponse // the command ends now
		}
		return nil
	}}
	page := string(must1(io.ReadAll(must1(browser.Get(strings.TrimSpace(strings.TrimPrefix(lines.Text(), "open"))))(t).Body))(t))
	form := regexp.MustCompile(`(?s)action="([^"]*)".*name="manifest" value="([^"]*)"`).FindStringSubmatch(page)
	if form == nil {
		t.Fatalf("there is no form:\n%s", page)
	}
	done := must1(browser.PostForm(html.UnescapeString(form[1]), url.Values{"manifest": {html.UnescapeString(form[2])}}))(t)
	done.Body.Close()
	if !strings.HasSuffix(done.Header.Get("Location"), "/installations/new") {
		t.Fatalf("it leads on to %q: %s", done.Header.Get("Location"), done.Status)
	}
	rest := string(must1(io.ReadAll(out))(t))
	if err := first.Wait(); err != nil || !strings.Contains(rest, "made ") || strings.Contains(rest, "PRIVATE") {
		t.Fatalf("%v: %s", err, rest)
	}

	again := exec.CommandContext(t.Context(), program, "setup")
	again.Env = env
	if text, err := again.CombinedOutput(); err == nil || !strings.Contains(string(text), "there is an App already") {
		t.Errorf("a second App: %v: %s", err, text)
	}
	must1(w.double.Install("sandpiper", "acme", "acme/calc"))(t)
	w.env = []string{"SANDPIPER_APP_ID=", "SANDPIPER_PRIVATE_KEY_FILE=", "SANDPIPER_WEBHOOK_SECRETS="}
	w.start()
	var kept config.App
	file := config.AppFile(filepath.Join(w.dir, "state"))
	must(t, json.Unmarshal(must1(os.ReadFile(file))(t), &kept))
	must(t, w.double.SetHook("sandpiper", w.bot.url+"/webhook", kept.WebhookSecret)) // as a proxy would lead there
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.until("there is a pull request", func() bool { return len(w.pulls()) == 1 })
	if got := w.pulls()[0].GetUser().GetLogin(); got != "sandpiper[bot]" {
		t.Errorf("the pull request is by %s", got)
	}
	if info := must1(os.Stat(file))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the key: %s", info.Mode())
	}
}

// TestSetupEndsWithTheKeyOnItsWay: whoever stops the command while GitHub answers has an App all the same, and is told so.
func TestSetupEndsWithTheKeyOnItsWay(t *testing.T) {
	t.Parallel()
	listener := must1(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	made := make(chan config.App, 1)
	asked := make(chan error, 1)
	go func() {
		answer, err := http.Get("http://" + listener.Addr().String())
		if err == nil {
			err = answer.Body.Close()
		}
		asked <- err
	}()
	app, err := serveUntil(ctx, listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		stop()
		made <- config.App{ID: 7}
	}), made)
	must(t, <-asked)
	if err != nil || app.ID != 7 {
		t.Errorf("App %d: %v", app.ID, err)
	}
}
