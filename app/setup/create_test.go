package setup

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// visitor is a person with a browser that keeps cookies and stops at redirects.
type visitor struct {
	*http.Client
	t *testing.T
}

func newVisitor(t *testing.T) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &visitor{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, t}
}

// get gives the status, the text and where it leads on.
func (v *visitor) get(address string) (int, string, string) {
	v.t.Helper()
	answer, err := v.Get(address)
	must(v.t, err)
	return v.read(answer)
}

func (v *visitor) read(answer *http.Response) (int, string, string) {
	v.t.Helper()
	text, err := io.ReadAll(answer.Body)
	must(v.t, err)
	answer.Body.Close()
	return answer.StatusCode, string(text), answer.Header.Get("Location")
}

var action, manifestField = regexp.MustCompile(`action="([^"]*)"`), regexp.MustCompile(`name="manifest" value="([^"]*)"`)

// press presses the button of the page, and Create at GitHub, and gives where GitHub sends the browser.
func (v *visitor) press(page string) string {
	v.t.Helper()
	to, field := action.FindStringSubmatch(page), manifestField.FindStringSubmatch(page)
	if to == nil || field == nil {
		v.t.Fatalf("there is no form:\n%s", page)
	}
	answer, err := v.PostForm(html.UnescapeString(to[1]), url.Values{"manifest": {html.UnescapeString(field[1])}})
	must(v.t, err)
	code, text, back := v.read(answer)
	if code != http.StatusFound {
		v.t.Fatalf("GitHub says %d %s", code, text)
	}
	return back
}

// creating is a page under way, at a double with the organisation acme.
func creating(t *testing.T) (double *github.Server, c *config.Config, address string, made chan config.App) {
	t.Helper()
	double, err := github.New(github.Options{})
	must(t, err)
	t.Cleanup(func() { _ = double.Close() })
	must(t, double.Start("127.0.0.1:0"))
	_, err = double.AddUser("olga")
	must(t, err)
	_, err = double.AddOrg("acme", "olga")
	must(t, err)
	c, err = config.Load([]string{"SANDPIPER_STATE_DIR=" + filepath.Join(t.TempDir(), "state"), "SANDPIPER_GITHUB_URL=" + double.URL(), "SANDPIPER_PUBLIC_URL=https://bot.example.com"})
	must(t, err)
	made = make(chan config.App, 1)
	var page http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	address, page, err = Creation{Config: c, Manifest: sandpiper.AppManifest, Org: "acme", Browser: server.URL, Made: func(a config.App) { made <- a }}.Open()
	must(t, err)
	return double, c, address, made
}

func TestAppIsMade(t *testing.T) {
	t.Parallel()
	double, c, address, made := creating(t)
	v := newVisitor(t)
	code, page, _ := v.get(address)
	if code != http.StatusOK || !strings.Contains(page, "<td>contents</td><td>write</td>") || !strings.Contains(page, "acme") {
		t.Fatalf("%d\n%s", code, page)
	}
	back := v.press(page)
	code, text, next := v.get(back)
	if code != http.StatusSeeOther || !strings.HasSuffix(next, "/installations/new") {
		t.Fatalf("%d to %s: %s", code, next, text)
	}
	app := <-made
	info, err := os.Stat(config.AppFile(c.StateDir))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key can be read by others: %s", info.Mode())
	}
	if code, _, _ := v.get(back); code != http.StatusConflict {
		t.Errorf("a second time: %d", code)
	}

	// What serve and doctor read is what was made, and it is good at GitHub.
	settings := []string{"SANDPIPER_STATE_DIR=" + c.StateDir, "SANDPIPER_GITHUB_URL=" + double.URL()}
	now, err := config.Load(settings)
	must(t, err)
	if err := now.NeedGitHub(); err != nil || now.AppID != app.ID {
		t.Errorf("App %d, want %d: %v", now.AppID, app.ID, err)
	}
	_, err = double.Install("sandpiper", "acme")
	must(t, err)
	report := (&Doctor{Config: now, Manifest: sandpiper.AppManifest, Sandbox: nothing}).Examine(t.Context())
	for _, name := range []string{"app key", "installation acme"} {
		if got := status(report)[name]; got != OK {
			t.Errorf("%s: %s, %s", name, got, detail(report, name))
		}
	}
	if _, _, err := (Creation{Config: now, Manifest: sandpiper.AppManifest}).Open(); err == nil || !strings.Contains(err.Error(), "SANDPIPER_PUBLIC_URL") {
		t.Errorf("without a public address: %v", err)
	}
	now.PublicURL = "https://bot.example.com"
	if _, _, err := (Creation{Config: now, Manifest: sandpiper.AppManifest}).Open(); err == nil || !strings.Contains(err.Error(), "there is an App already") {
		t.Errorf("a second App: %v", err)
	}
	file := filepath.Join(c.StateDir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, _, err := (Creation{Config: &config.Config{PublicURL: "https://bot.example.com", StateDir: file}, Manifest: sandpiper.AppManifest}).Open(); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("where nothing can be kept: %v", err)
	}
	if err := config.SaveApp(c.StateDir, config.App{ID: 7}); err == nil {
		t.Error("an App was written over")
	}
}

// TestSetUpOfAnotherApp: who does not have the console's token, or the state in the same browser, binds no App to the bot
// (TracecatHQ/tracecat#1340).
func TestSetUpOfAnotherApp(t *testing.T) {
	t.Parallel()
	double, c, address, _ := creating(t)
	page, err := url.Parse(address)
	must(t, err)
	at := func(path string, query url.Values) string {
		u := *page
		u.Path, u.RawQuery = path, query.Encode()
		return u.String()
	}
	mine, err := double.SubmitManifest("olga", `{"name":"Mine","default_permissions":{"issues":"write"},"default_events":["issues"],"hook_attributes":{"url":"http://127.0.0.1:1/"}}`)
	must(t, err)
	person := newVisitor(t)
	_, text, _ := person.get(address)
	back, err := url.Parse(person.press(text))
	must(t, err)
	good := back.Query()
	for name, try := range map[string]struct {
		who     *visitor
		address string
		code    int
	}{
		"page without the token":  {newVisitor(t), at("/setup", nil), http.StatusForbidden},
		"page with a wrong token": {newVisitor(t), at("/setup", url.Values{"token": {"x"}}), http.StatusForbidden},
		"another browser":         {newVisitor(t), at("/setup/done", good), http.StatusForbidden},
		"no state":                {person, at("/setup/done", url.Values{"code": {mine}}), http.StatusForbidden},
		"wrong state":             {person, at("/setup/done", url.Values{"code": {mine}, "state": {"x"}}), http.StatusForbidden},
		"a code that is a path":   {person, at("/setup/done", url.Values{"code": {"../app"}, "state": {good.Get("state")}}), http.StatusBadRequest},
		"a code that is unknown":  {person, at("/setup/done", url.Values{"code": {"nothing"}, "state": {good.Get("state")}}), http.StatusBadGateway},
	} {
		if code, text, _ := try.who.get(try.address); code != try.code {
			t.Errorf("%s: %d, want %d: %s", name, code, try.code, text)
		}
	}
	if _, err := os.Stat(config.AppFile(c.StateDir)); err == nil {
		t.Error("an App was bound")
	}
	if code, text, _ := person.get(back.String()); code != http.StatusSeeOther {
		t.Errorf("the person's own, after all that: %d %s", code, text)
	}
}

// TestAppOutlivesTheBrowser: GitHub takes a code once and shows a key once, so the exchange goes on when the browser has gone away.
func TestAppOutlivesTheBrowser(t *testing.T) {
	t.Parallel()
	double, err := github.New(github.Options{})
	must(t, err)
	t.Cleanup(func() { _ = double.Close() })
	must(t, double.Start("127.0.0.1:0"))
	_, err = double.AddUser("olga")
	must(t, err)
	code, err := double.SubmitManifest("olga", `{"name":"Mine","default_permissions":{"issues":"write"},"default_events":["issues"],"hook_attributes":{"url":"http://127.0.0.1:1/"}}`)
	must(t, err)
	c := &config.Config{StateDir: t.TempDir(), GitHubAPIURL: double.URL()}
	made := make(chan config.App, 1)
	open := &creation{Creation: Creation{Config: c, Made: func(a config.App) { made <- a }}, state: "state"}
	gone, leave := context.WithCancel(t.Context())
	leave()
	back := httptest.NewRequestWithContext(gone, http.MethodGet, donePath+"?state=state&code="+code, nil)
	back.AddCookie(&http.Cookie{Name: stateCookie, Value: "state"})
	answer := httptest.NewRecorder()
	open.done(answer, back)
	if _, err := os.Stat(config.AppFile(c.StateDir)); answer.Code != http.StatusSeeOther || err != nil || len(made) != 1 {
		t.Errorf("%d %s (%v)", answer.Code, answer.Body, err)
	}
}
