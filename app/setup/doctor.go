package setup

import (
	"context"
	"errors"
	"net/http"

	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

// Doctor examines one machine with one set of settings.
type Doctor struct {
	Config   *config.Config
	Problems error  // what config.Load said
	Manifest []byte // app.yml
	// Transport carries the calls to GitHub; nil is the usual one.
	Transport http.RoundTripper
	// Sandbox says by doing what this machine can confine; nil is the usual one.
	Sandbox func(context.Context) []Check
	// Probe makes a round of probes on one backend; nil: the tiers of the backends are not told.
	Probe func(ctx context.Context, backend string) probe.Result
}

// Examine makes every check that can be made. It needs no GitHub settings: without them it looks at the sandbox only.
func (d *Doctor) Examine(ctx context.Context) *Report {
	r := &Report{Settings: d.Config.Describe()}
	add := func(checks ...Check) { r.Checks = append(r.Checks, checks...) }
	add(d.settings()...)
	add(gitVersion())
	sandbox := d.Sandbox
	if sandbox == nil {
		sandbox = boundary
	}
	add(sandbox(ctx)...)
	add(d.tiers(ctx)...)
	state := stateDir(d.Config.StateDir)
	add(state...)
	if len(state) > 0 && state[0].Status != Fail {
		add(database(ctx, d.Config.Database()))
	}
	add(d.github(ctx)...)
	return r
}

func (d *Doctor) settings() []Check {
	var checks []Check
	var bad *config.Error
	if errors.As(d.Problems, &bad) {
		for _, p := range bad.Problems {
			checks = append(checks, Check{p.Name, Fail, p.What, p.How})
		}
	}
	for _, p := range d.Config.Warnings() {
		checks = append(checks, Check{p.Name, Warn, p.What, p.How})
	}
	if len(checks) == 0 {
		checks = append(checks, Check{Name: "settings", Status: OK, Detail: "each can be read"})
	}
	return checks
}

// github examines the App, or says why it cannot.
func (d *Doctor) github(ctx context.Context) []Check {
	c := d.Config
	if c.AppID == 0 && c.PrivateKey.IsZero() && len(c.WebhookSecrets) == 0 && d.Problems == nil {
		return []Check{{"github", Skip, "no App is set, so only sandboxes on local repositories work here (sandpiper try, sandpiper sandbox); sandpiper setup makes one", ""}}
	}
	if d.Problems != nil {
		return []Check{{"github", Skip, "not asked while settings are wrong", ""}}
	}
	var missing *config.Error
	if errors.As(c.NeedGitHub(), &missing) {
		var checks []Check
		for _, p := range missing.Problems {
			checks = append(checks, Check{p.Name, Fail, p.What, p.How})
		}
		return checks
	}
	app, err := installation.New(installation.Config{AppID: c.AppID, Key: c.PrivateKey, APIURL: c.GitHubAPIURL, Transport: d.Transport})
	if err != nil {
		return []Check{{"app key", Fail, err.Error(), "use the whole .pem file that GitHub made for this App"}}
	}
	return (&appDoctor{app: app, client: app.AppClient(), config: c, manifest: d.Manifest}).examine(ctx)
}
