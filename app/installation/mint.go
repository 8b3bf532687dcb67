package installation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// A token that was just made is unknown to some of GitHub's machines for seconds, which shows as 401, 403, or 404 for a
// private repository; narrow tokens are hit more: https://github.com/akuity/kargo/pull/6630
var settling = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}

// validate tries a token on its repository, and sees that the name still belongs to the repository.
func (a *App) validate(ctx context.Context, repo Repo, purpose Purpose, t *token) error {
	client := a.with(repo.InstallationID, t.value)
	for attempt := 0; ; attempt++ {
		found, resp, err := client.Repositories.Get(ctx, repo.Owner, repo.Name)
		switch {
		case err == nil && found.GetID() != repo.ID:
			note := fmt.Sprintf("%s/%s is another repository now", repo.Owner, repo.Name)
			return &kindError{ErrWithdrawn, note, nil}
		case err == nil:
			return nil
		}
		lagging := isStatus(resp, err, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound) &&
			!errors.As(err, new(*ErrLimited)) && !errors.Is(err, ErrSuspended)
		if lagging && attempt < len(settling) {
			if err := wait(ctx, settling[attempt]); err != nil {
				return fmt.Errorf("try the new token: %w", err)
			}
			continue
		}
		if isStatus(resp, err, http.StatusNotFound) {
			return &kindError{ErrWithdrawn, "", err}
		}
		return fmt.Errorf("try the new token for %s: %w", purpose, err)
	}
}

// refusal says why no token was made.
func (a *App) refusal(ctx context.Context, repo Repo, purpose Purpose, resp *github.Response, err error) error {
	switch {
	case isStatus(resp, err, http.StatusNotFound):
		return &kindError{ErrWithdrawn, "the installation is gone", err}
	case !isStatus(resp, err, http.StatusUnprocessableEntity):
		return fmt.Errorf("mint a token for %s: %w", purpose, err)
	}
	// 422 has two reasons: "The permissions requested are not granted to this installation", and "There is at least one
	// repository that does not exist or is not accessible to the parent installation".
	var e *github.ErrorResponse
	if errors.As(err, &e) && strings.Contains(e.Message, "permission") {
		return &ErrPermission{Missing: a.missing(ctx, repo.InstallationID, purpose), Err: err}
	}
	return &kindError{ErrWithdrawn, "", err}
}

// missing compares what a purpose needs with what the installation grants; empty when that cannot be found out.
func (a *App) missing(ctx context.Context, installation int64, purpose Purpose) string {
	found, _, err := a.app.Apps.GetInstallation(ctx, installation)
	if err != nil {
		return ""
	}
	var lacking []string
	need := reflect.ValueOf(purpose.permissions()).Elem()
	have := reflect.ValueOf(found.GetPermissions()).Elem()
	for i := range need.NumField() {
		want, _ := need.Field(i).Interface().(*string)
		got, _ := have.Field(i).Interface().(*string)
		if want != nil && (got == nil || (*want == "write" && *got == "read")) {
			name, _, _ := strings.Cut(need.Type().Field(i).Tag.Get("json"), ",")
			lacking = append(lacking, name+": "+*want)
		}
	}
	return strings.Join(lacking, ", ")
}
