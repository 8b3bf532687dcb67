package setup

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/app/installation"
)

// Creation makes the App at GitHub by its manifest: a person sees what it asks for, presses a button here and one at GitHub,
// and GitHub hands over id, key and webhook secret.
// https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
//
// Whoever could finish it in the person's place would bind the bot to an App of their own. So the page opens only with a token
// that was shown on the console, and what comes back must bring the state that was given to that browser.
type Creation struct {
	Config   *config.Config
	Manifest []byte // app.yml
	Org      string // whose App it becomes; empty: the person's own
	Browser  string // where the person's browser reaches the handler, without a slash at the end
	Made     func(config.App)
}

// creation is one that is under way.
type creation struct {
	Creation
	token, state string

	mu   sync.Mutex
	made bool
}

// Open gives the page, and its address for the person who makes the App; or it says what is missing.
func (c Creation) Open() (address string, page http.Handler, err error) {
	if c.Config.PublicURL == "" {
		return "", nil, &config.Error{Problems: []config.Problem{{Name: "SANDPIPER_PUBLIC_URL", What: "it is not set", How: "set it to the https address at which GitHub reaches the bot; deliveries will go to /webhook there"}}}
	}
	if c.Config.AppID != 0 {
		return "", nil, fmt.Errorf("there is an App already, %d; see it with `sandpiper doctor`, or set SANDPIPER_STATE_DIR to another directory for another bot", c.Config.AppID)
	}
	if _, err := ParseManifest(c.Manifest); err != nil {
		return "", nil, err
	}
	// Now, and not when the key is here, which GitHub shows once.
	for _, check := range stateDir(c.Config.StateDir) {
		if check.Status == Fail {
			return "", nil, fmt.Errorf("%s: %s; %s", check.Name, check.Detail, check.Fix)
		}
	}
	open := &creation{Creation: c, token: rand.Text(), state: rand.Text()}
	return c.Browser + pagePath + "?token=" + open.token, open.handler(), nil
}

// The paths of the page, and the cookie that binds the state to a browser.
const (
	pagePath, donePath = "/setup", "/setup/done"
	stateCookie        = "sandpiper_setup"
)

// handler serves the page, and what GitHub sends the browser back to.
func (c *creation) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pagePath, c.page)
	mux.HandleFunc("GET "+donePath, c.done)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer") // the address holds the token
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'self' "+c.Config.GitHubURL)
		mux.ServeHTTP(w, r)
	})
}

//go:embed create.html
var pageText string

var createPage = template.Must(template.New("setup").Parse(pageText))

func (c *creation) page(w http.ResponseWriter, r *http.Request) {
	if !same(r.URL.Query().Get("token"), c.token) {
		http.Error(w, "Open the address that `sandpiper setup` printed.", http.StatusForbidden)
		return
	}
	manifest, err := c.manifest()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// Lax: GitHub's redirect has to bring it along.
	http.SetCookie(w, &http.Cookie{Name: stateCookie, Value: c.state, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(c.Browser, "https:")})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = createPage.Execute(w, struct { // whoever asked has gone
		*Manifest
		Action, JSON, Owner string
	}{manifest, c.action(), string(text), c.Org})
}

// manifest is app.yml with what is this bot's own.
func (c *creation) manifest() (*Manifest, error) {
	m, err := ParseManifest(c.Manifest)
	if err != nil {
		return nil, err
	}
	m.URL, m.Redirect = c.Config.PublicURL, c.Browser+donePath
	m.Hook.URL, m.Hook.Active = c.Config.PublicURL+"/webhook", true
	return m, nil
}

func (c *creation) action() string {
	path := "/settings/apps/new"
	if c.Org != "" {
		path = "/organizations/" + url.PathEscape(c.Org) + path
	}
	return c.Config.GitHubURL + path + "?state=" + c.state
}

// codeForm is what a code may be made of: it becomes part of a path.
var codeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

func (c *creation) done(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie(stateCookie)
	if err != nil || !same(cookie.Value, c.state) || !same(r.URL.Query().Get("state"), c.state) {
		http.Error(w, "This does not come from the page that `sandpiper setup` opened in this browser. Nothing was done.", http.StatusForbidden)
		return
	}
	code := r.URL.Query().Get("code")
	if !codeForm.MatchString(code) {
		http.Error(w, "GitHub sent no code. Nothing was done.", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made {
		http.Error(w, "The App has been made already.", http.StatusConflict)
		return
	}
	app, err := c.convert(context.WithoutCancel(r.Context()), code) // a browser that goes away must not lose the key on its way
	if err == nil {
		err = config.SaveApp(c.Config.StateDir, app) // before anything else: GitHub shows the key once
	}
	if err != nil {
		http.Error(w, "The App could not be taken over: "+reason(err)+"\nOpen the address that `sandpiper setup` printed once more. If GitHub lists an App that nobody has the key of, delete it there.", http.StatusBadGateway)
		return
	}
	c.made = true
	http.Redirect(w, r, strings.TrimSuffix(app.URL, "/")+"/installations/new", http.StatusSeeOther)
	c.Made(app)
}

// convert exchanges the code, which GitHub takes once and for an hour.
func (c *creation) convert(ctx context.Context, code string) (config.App, error) {
	client := github.NewClient(&http.Client{Transport: installation.NewTransport(), Timeout: 30 * time.Second})
	client.UserAgent = installation.UserAgent
	base, err := url.Parse(c.Config.GitHubAPIURL + "/")
	if err != nil {
		return config.App{}, err
	}
	client.BaseURL = base
	made, _, err := client.Apps.CompleteAppManifest(ctx, code)
	if err != nil {
		return config.App{}, fmt.Errorf("exchange of the code: %w", err)
	}
	app := config.App{ID: made.GetID(), Name: made.GetName(), URL: made.GetHTMLURL(), PrivateKey: made.GetPEM(), WebhookSecret: made.GetWebhookSecret()}
	if app.ID == 0 || app.PrivateKey == "" || app.WebhookSecret == "" {
		return config.App{}, fmt.Errorf("GitHub's answer lacks the id, the key or the webhook secret of the App %q", app.Name)
	}
	return app, nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
