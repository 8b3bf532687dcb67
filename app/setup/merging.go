package setup

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
)

// reviewCheck is the Check Run by which people hold the bot's pull requests.
const reviewCheck = "sandpiper / review"

// baseRule is a rule in force for a branch, as far as it keeps the App from moving that
// (https://docs.github.com/rest/repos/rules#get-rules-for-a-branch).
type baseRule struct {
	Type       string
	Ruleset    int64 `json:"ruleset_id"`
	Parameters struct {
		Approvals int `json:"required_approving_review_count"`
		Checks    []struct {
			Context string
			App     int64 `json:"integration_id"`
		} `json:"required_status_checks"`
	}
}

// holds says whether the rule keeps an App, which cannot approve, from changing the branch by itself. A check that any source may
// report does not: the App has checks: write as well.
func (r baseRule) holds(app int64) bool {
	switch r.Type {
	case "update":
		return true
	case "pull_request":
		return r.Parameters.Approvals > 0
	case "required_status_checks":
		for _, c := range r.Parameters.Checks {
			if c.Context == reviewCheck && c.App == app {
				return true
			}
		}
	}
	return false
}

// merging looks whether GitHub's rules keep the App from merging: it has no code for that, but its contents: write would do.
func (d *appDoctor) merging(ctx context.Context, app int64) []Check {
	ids, err := d.app.Installations(ctx)
	if err != nil {
		return nil // said where labels are
	}
	var free []string
	asked := 0
	for _, id := range ids {
		err := d.app.Survey(ctx, id, func(ctx context.Context, client *github.Client, repo installation.Repo) error {
			if asked++; asked > mostLabels {
				return nil
			}
			held, err := held(ctx, client, repo, app)
			if err == nil && !held {
				free = append(free, repo.Owner+"/"+repo.Name)
			}
			return err
		})
		if err != nil {
			return []Check{{"merging", Skip, "not looked for: " + reason(err), ""}}
		}
	}
	switch {
	case asked == 0:
		return nil
	case len(free) > 0:
		return []Check{{"merging", Warn, "no ruleset keeps the App's contents: write from changing the default branch of " + some(free),
			fmt.Sprintf("add one for that branch which the App cannot bypass, with a required review, or with the check %q and this App as its only source; "+
				"the classic protection of branches may do it, but is shown to administrators only", reviewCheck)}}
	}
	return []Check{{"merging", OK, fmt.Sprintf("rules keep the App from merging in the %d repositories that were looked at", min(asked, mostLabels)), ""}}
}

// held says whether a rule that the App cannot bypass holds the default branch. The classic protection of branches is not shown to an App
// without administration (https://docs.github.com/rest/branches/branch-protection).
func held(ctx context.Context, client *github.Client, repo installation.Repo, app int64) (bool, error) {
	r, _, err := client.Repositories.Get(ctx, repo.Owner, repo.Name)
	if err != nil {
		return false, err
	}
	var rules []baseRule
	path := fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=100", repo.Owner, repo.Name, url.PathEscape(r.GetDefaultBranch()))
	if err := get(ctx, client, path, &rules); err != nil {
		return false, err
	}
	for _, rule := range rules {
		if !rule.holds(app) {
			continue
		}
		var set struct {
			Can string `json:"current_user_can_bypass"`
		}
		if err := get(ctx, client, fmt.Sprintf("repos/%s/%s/rulesets/%d", repo.Owner, repo.Name, rule.Ruleset), &set); err != nil {
			return false, err
		}
		if set.Can != "always" && set.Can != "exempt" && set.Can != "pull_requests_only" {
			return true, nil
		}
	}
	return false, nil
}

// get reads what go-github v60 has no type for. What a plan or a server does not have is nothing.
func get(ctx context.Context, client *github.Client, path string, into any) error {
	request, err := client.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(ctx, request, into)
	if resp != nil && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusForbidden) {
		return nil
	}
	return err
}

// some names the first of many.
func some(names []string) string {
	shown := strings.Join(names[:min(len(names), 5)], ", ")
	if more := len(names) - 5; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown
}
