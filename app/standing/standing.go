// Package standing says what a person may do in a repository.
//
// It asks the collaborator permission API, each time it is called: never author_association, which does not show the membership of
// people who hide it, and never the payload of a webhook. The package must not decide what follows from an answer, and keeps none.
package standing

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
)

// Standing is what GitHub says that somebody may do.
type Standing struct {
	Permission string // admin, write, read or none; "" where nobody was asked about
	Role       string // admin, maintain, write, triage, read, or a custom role
}

// MayWrite says whether they could push.
func (s Standing) MayWrite() bool { return s.Permission == "admin" || s.Permission == "write" }

// Word is the standing in one word, for people: the role where there is one, else what it allows, else "no".
func (s Standing) Word() string { return cmp.Or(s.Role, s.Permission, "no") }

// Of asks what somebody may do; the zero Standing for the account "" that is gone. Apps and strangers have the permission none.
func Of(ctx context.Context, gh *github.Client, repo installation.Repo, login string) (Standing, error) {
	if login == "" {
		return Standing{}, nil
	}
	// By hand, since go-github v60 does not read role_name, without which maintain looks like write.
	request, err := gh.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/collaborators/%s/permission", repo.Owner, repo.Name, login), nil)
	if err != nil {
		return Standing{}, fmt.Errorf("permission of %s: %w", login, err)
	}
	var level struct {
		Permission string `json:"permission"`
		RoleName   string `json:"role_name"`
	}
	response, err := gh.Do(ctx, request, &level)
	if response != nil && response.StatusCode == http.StatusNotFound {
		return Standing{Permission: "none"}, nil // not a collaborator, or an App
	}
	if err != nil {
		return Standing{}, fmt.Errorf("permission of %s: %w", login, err)
	}
	return Standing{Permission: level.Permission, Role: level.RoleName}, nil
}
