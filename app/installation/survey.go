package installation

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// Installations lists the installations that are not suspended.
func (a *App) Installations(ctx context.Context) (ids []int64, err error) {
	page := &github.ListOptions{PerPage: 100}
	for {
		found, resp, err := a.app.Apps.ListInstallations(ctx, page)
		if err != nil {
			return nil, fmt.Errorf("installations: %w", err)
		}
		for _, one := range found {
			if one.SuspendedAt == nil {
				ids = append(ids, one.GetID())
			}
		}
		if resp.NextPage == 0 {
			return ids, nil
		}
		page.Page = resp.NextPage
	}
}

// Survey visits the repositories of an installation that can be written to, one after the other, with a client that reads
// their issues. Its token is for all of them, so that a survey costs one mint; it can read issues and pull requests and
// nothing else, and is revoked at the end. An error of visit is joined to the others and does not end the survey, unless
// GitHub limits or refuses the installation as a whole.
func (a *App) Survey(ctx context.Context, installation int64, visit func(context.Context, *github.Client, Repo) error) error {
	read := github.String("read")
	made, resp, err := a.app.Apps.CreateInstallationToken(ctx, installation, &github.InstallationTokenOptions{
		Permissions: &github.InstallationPermissions{Metadata: read, Issues: read, PullRequests: read},
	})
	if err != nil {
		return a.refusal(ctx, Repo{InstallationID: installation}, Issues, resp, err)
	}
	secret := redact.NewSecret(made.GetToken())
	t := &token{value: secret, forget: a.tokens.redactor.Add(secret), expires: made.GetExpiresAt().Time}
	defer t.forget()
	defer a.revoke(context.WithoutCancel(ctx), installation, t)
	client := a.with(installation, secret)
	var errs []error
	page := &github.ListOptions{PerPage: 100}
	for {
		found, resp, err := client.Apps.ListRepos(ctx, page)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("repositories of installation %d: %w", installation, err))...)
		}
		for _, r := range found.Repositories {
			if r.GetArchived() || r.GetDisabled() {
				continue
			}
			err := visit(ctx, client, Repo{InstallationID: installation, ID: r.GetID(), Owner: r.GetOwner().GetLogin(), Name: r.GetName()})
			if err != nil {
				errs = append(errs, err)
			}
			if errors.As(err, new(*ErrLimited)) || errors.Is(err, ErrSuspended) || ctx.Err() != nil {
				return errors.Join(errs...)
			}
		}
		if resp.NextPage == 0 {
			return errors.Join(errs...)
		}
		page.Page = resp.NextPage
	}
}
