package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/app/installation"
)

// skewWarn is when a wrong clock becomes a danger: GitHub refuses an App's token from more than a minute in the past or
// from the future, and tokens here are dated half a minute back.
const skewWarn = 20 * time.Second

// laterFix is for a GitHub that knows the App and fails at something else.
const laterFix = "try again in a while: the key was accepted, so this is GitHub's"

// appDoctor examines the App at GitHub.
type appDoctor struct {
	app      *installation.App
	client   *github.Client
	config   *config.Config
	manifest []byte
}

func (d *appDoctor) examine(ctx context.Context) []Check {
	start := time.Now()
	app, resp, err := d.client.Apps.Get(ctx, "")
	took := time.Since(start).Round(time.Millisecond)
	switch {
	case errors.Is(err, installation.ErrUnreachable):
		return []Check{{"github", Fail, reason(err), "see whether this machine reaches " + d.config.GitHubAPIURL + ": name, proxy (HTTPS_PROXY), certificate"}}
	case errors.Is(err, installation.ErrUnauthorized):
		return []Check{
			{"github", OK, fmt.Sprintf("%s answers in %s", d.config.GitHubAPIURL, took), ""},
			{"app key", Fail, reason(err), "see that SANDPIPER_APP_ID and the key belong to one App, that the key was not deleted, and that the clock is right"},
		}
	case err != nil:
		return []Check{{"github", Fail, reason(err), "see whether SANDPIPER_GITHUB_API_URL is the root of the REST API"}}
	}
	checks := []Check{
		{"github", OK, fmt.Sprintf("%s answers in %s", d.config.GitHubAPIURL, took), ""},
		{"app key", OK, fmt.Sprintf("accepted: App %s (%d)", app.GetName(), app.GetID()), ""},
		clock(resp),
	}
	checks = append(checks, d.installations(ctx, app)...)
	checks = append(checks, d.labels(ctx)...)
	checks = append(checks, d.merging(ctx, app.GetID())...)
	return append(checks, d.hook(ctx)...)
}

// reason is an error without the method and address that net/http puts before it.
func reason(err error) string {
	var call *url.Error
	if errors.As(err, &call) {
		return call.Err.Error()
	}
	return err.Error()
}

func clock(resp *github.Response) Check {
	skew, ok := installation.Skew(resp.Response)
	switch {
	case !ok:
		return Check{"clock", Skip, "GitHub does not tell the time", ""}
	case skew.Abs() > skewWarn:
		return Check{"clock", Warn, fmt.Sprintf("it differs from GitHub's by %s", skew.Abs()), "set the clock of this machine by NTP; GitHub refuses tokens from another time"}
	}
	return Check{"clock", OK, "within " + skewWarn.String() + " of GitHub's", ""}
}

func (d *appDoctor) installations(ctx context.Context, app *github.App) []Check {
	want, err := ParseManifest(d.manifest)
	if err != nil {
		return []Check{{"installations", Fail, err.Error(), "this is a bug in sandpiper; please report it"}}
	}
	var checks []Check
	for page := 1; page > 0; {
		found, resp, err := d.installed(ctx, page)
		if err != nil {
			return append(checks, Check{"installations", Fail, reason(err), laterFix})
		}
		for _, one := range found {
			checks = append(checks, compare(one, want))
		}
		page = resp.NextPage
	}
	if len(checks) == 0 {
		checks = append(checks, Check{"installations", Warn, "the App is installed nowhere", "install it at " + strings.TrimSuffix(app.GetHTMLURL(), "/") + "/installations/new"})
	}
	return checks
}

// installed is a page of installations. It is not read by go-github, whose type has no merge_queues in v60.
func (d *appDoctor) installed(ctx context.Context, page int) (found []grant, resp *github.Response, err error) {
	request, err := d.client.NewRequest(http.MethodGet, fmt.Sprintf("app/installations?per_page=100&page=%d", page), nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err = d.client.Do(ctx, request, &found)
	return found, resp, err
}

// grant is an installation and what it lets the App do.
type grant struct {
	Account struct {
		Login string `json:"login"`
	} `json:"account"`
	Suspended   time.Time         `json:"suspended_at"`
	Selection   string            `json:"repository_selection"`
	Permissions map[string]string `json:"permissions"` // by GitHub's names
	Events      []string          `json:"events"`
}

// compare holds what an installation grants against what the bot needs.
func compare(one grant, want *Manifest) Check {
	check := Check{Name: "installation " + one.Account.Login, Status: OK}
	if !one.Suspended.IsZero() {
		check.Status, check.Detail, check.Fix = Warn, "suspended since "+one.Suspended.Format(time.DateOnly), "an owner of the account can lift that in its settings"
		return check
	}
	have := one.Permissions
	var lacking []string
	for _, name := range slices.Sorted(maps.Keys(want.Permissions)) {
		if level := want.Permissions[name]; have[name] != level && have[name] != "admin" && (level != "read" || have[name] != "write") {
			lacking = append(lacking, name+": "+level)
		}
	}
	var unheard []string
	for _, event := range want.Events {
		if !slices.Contains(one.Events, event) {
			unheard = append(unheard, event)
		}
	}
	switch {
	case len(lacking) > 0:
		check.Status = Fail
		check.Detail = "it does not grant " + strings.Join(lacking, ", ")
		check.Fix = "give the App these permissions in its settings at GitHub, then accept them for this installation"
	case len(unheard) > 0:
		check.Status = Warn
		check.Detail = "it does not send the events " + strings.Join(unheard, ", ")
		check.Fix = "subscribe the App to them in its settings at GitHub"
	default:
		check.Detail = fmt.Sprintf("%s repositories, all permissions and events", one.Selection)
	}
	return check
}

func (d *appDoctor) hook(ctx context.Context) []Check {
	hook, _, err := d.client.Apps.GetHookConfig(ctx)
	switch {
	case errors.Is(err, installation.ErrUnsupported):
		return []Check{{"webhook", Skip, "this server does not tell its webhook", ""}}
	case err != nil:
		return []Check{{"webhook", Fail, reason(err), laterFix}}
	case hook.GetURL() == "":
		return []Check{{"webhook", Fail, "the App has no webhook address, so nothing will ever reach the bot", "set it in the App's settings at GitHub to the public address of the bot with /webhook"}}
	}
	check := Check{"webhook", OK, hook.GetURL(), ""}
	if want := d.config.PublicURL + "/webhook"; d.config.PublicURL != "" && hook.GetURL() != want {
		check.Status, check.Fix = Warn, "SANDPIPER_PUBLIC_URL says that it should be "+want
	}
	return []Check{check, d.deliveries(ctx)}
}

// deliveries looks at the last ones: a hook that fails fails silently, for GitHub does not try again.
func (d *appDoctor) deliveries(ctx context.Context) Check {
	last, _, err := d.client.Apps.ListHookDeliveries(ctx, &github.ListCursorOptions{PerPage: 30})
	switch {
	case errors.Is(err, installation.ErrUnsupported):
		return Check{"deliveries", Skip, "this server does not tell its deliveries", ""}
	case err != nil:
		return Check{"deliveries", Warn, reason(err), ""}
	case len(last) == 0:
		return Check{"deliveries", Warn, "GitHub has delivered nothing in the last three days", "label an issue; if that brings nothing, see that the App is subscribed to events and that its webhook is active"}
	}
	failed := 0
	for _, one := range last {
		if code := one.GetStatusCode(); code < 200 || code > 299 {
			failed++
		}
	}
	if last[0].GetStatusCode() == http.StatusUnauthorized {
		return Check{"deliveries", Fail, fmt.Sprintf("the bot did not believe the newest (401), %d of the last %d failed", failed, len(last)),
			"the secret in the App's settings at GitHub is none of SANDPIPER_WEBHOOK_SECRETS; set the same at both"}
	}
	if newest := last[0]; newest.GetStatusCode() < 200 || newest.GetStatusCode() > 299 {
		return Check{"deliveries", Warn, fmt.Sprintf("the newest failed (%d %s), %d of the last %d did", newest.GetStatusCode(), newest.GetStatus(), failed, len(last)),
			"see that the bot runs, that its address is reached from GitHub, and that the secrets agree"}
	}
	return Check{"deliveries", OK, fmt.Sprintf("the newest arrived; %d of the last %d failed", failed, len(last)), ""}
}

// mostLabels is how many repositories are asked for the label: enough to see what an organisation has forgotten.
const mostLabels = 100

// labels looks whether people can put the trigger label on at all: GitHub offers only labels that a repository has.
func (d *appDoctor) labels(ctx context.Context) []Check {
	ids, err := d.app.Installations(ctx)
	if err != nil {
		return []Check{{"label", Warn, reason(err), ""}}
	}
	var lacking []string
	asked := 0
	for _, id := range ids {
		err := d.app.Survey(ctx, id, func(ctx context.Context, client *github.Client, repo installation.Repo) error {
			if asked++; asked > mostLabels {
				return nil
			}
			_, resp, err := client.Issues.GetLabel(ctx, repo.Owner, repo.Name, d.config.Label)
			if resp != nil && resp.StatusCode == http.StatusNotFound {
				lacking = append(lacking, repo.Owner+"/"+repo.Name)
				return nil
			}
			return err
		})
		if err != nil {
			return []Check{{"label", Skip, "not looked for: " + reason(err), ""}}
		}
	}
	switch {
	case asked == 0:
		return nil // said where installations are
	case len(lacking) == 0:
		return []Check{{"label", OK, fmt.Sprintf("%q is in the %d repositories that were looked at", d.config.Label, min(asked, mostLabels)), ""}}
	}
	return []Check{{"label", Warn, fmt.Sprintf("there is no label %q in %s", d.config.Label, some(lacking)), "make it there, or people cannot choose it; /sandpiper run in a comment works without"}}
}
