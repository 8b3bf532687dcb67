package outcome

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/agent"
	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// How often a step is tried, with the waits below.
const (
	MostTries   = 250 // when it fails for a reason that passes: about four hours, since GitHub can be away for as long
	keyTries    = 65  // when GitHub does not accept the key: about an hour, for somebody is rotating it, or sets the clock
	MostDefects = 3   // when the reason is not known to pass: a defect of ours more likely than weather
)

// Wait is how long to wait before try n+1: 1 s, 2 s, 4 s … at most a minute.
func Wait(failures int) time.Duration {
	return min(time.Second<<min(failures, 6), time.Minute)
}

// Judge sorts the error of a step: retry at some time, or end the work with an outcome. failures is how many of its kind there were
// before, in a row: of those that pass, or of others.
func Judge(err error, failures int) (retry time.Duration, final *Ended) {
	var limited *installation.ErrLimited
	switch {
	case errors.As(err, &final):
		return 0, final
	case errors.As(err, &limited):
		return max(limited.RetryAfter, time.Second), nil
	}
	if final := Class(err); final != nil {
		return 0, final
	}
	tries := MostTries
	switch {
	case errors.Is(err, installation.ErrUnauthorized):
		tries = keyTries
	case !Passes(err):
		tries = MostDefects
	}
	if failures+1 >= tries {
		return 0, &Ended{Infrastructure, fmt.Sprintf("this failed %d times in a row: %s", tries, Plain(err)), err}
	}
	return Wait(failures), nil
}

// Class names the errors that no repetition mends; nil for all others.
func Class(err error) *Ended {
	if limited := (*installation.ErrLimited)(nil); errors.As(err, &limited) {
		return nil // it holds a 403, which without the limit would be for good
	}
	var refused *promote.ErrRefused
	var profile *agent.ErrNeedsModel
	var unavailable *sandbox.ErrUnavailable
	classes := []struct {
		match   bool
		outcome Outcome
		message string
	}{
		{errors.Is(err, installation.ErrSuspended), BlockedByHost, "the installation of this App is suspended; an owner can lift that in the App's settings"},
		{errors.Is(err, installation.ErrWithdrawn), BlockedByHost, "this repository is no longer among those that the App may reach"},
		{permissionLacking(err) != "", BlockedByHost, permissionLacking(err)},
		{errors.Is(err, installation.ErrUnsupported), BlockedByHost, "this GitHub does not answer a call that the bot needs"},
		{errors.Is(err, installation.ErrArchived), BlockedByRule, "the repository is archived, so nothing can be written to it"},
		{errors.Is(err, promote.ErrNothing) || errors.Is(err, sandbox.ErrNothing), NoChange, "nothing differs from the base"},
		{errors.As(err, &refused), BlockedByRule, ""},
		{errors.Is(err, promote.ErrBaseGone), BlockedByRule, "the branch that this started from is gone"},
		{errors.Is(err, promote.ErrBranchMoved), BlockedByRule, BranchMoved + ": somebody else has pushed to the branch of this promotion; their commits were left alone, and what this run made is kept in the store"},
		{errors.Is(err, git.ErrEmpty), BlockedByRule, "the repository has no commits yet"},
		{errors.Is(err, git.ErrPath), BlockedByRule, "the base cannot be checked out: " + gitReason(err)},
		{errors.Is(err, git.ErrNoRef), BlockedByRule, "the branch or commit to start from is gone"},
		{errors.Is(err, git.ErrAuth), BlockedByHost, "git was not let in with the App's token"},
		{errors.Is(err, git.ErrNotFound), BlockedByHost, "git does not find this repository at the host"},
		{errors.As(err, &profile), BlockedByPolicy, ""},
		{errors.As(err, &unavailable), Infrastructure, "this machine cannot provide the sandbox; whoever runs the bot sees why with `sandpiper doctor`"},
	}
	for _, c := range classes {
		if !c.match {
			continue
		}
		if c.message == "" {
			c.message = Plain(err)
		}
		return &Ended{c.outcome, c.message, err}
	}
	return goneClass(err)
}

// gitReason is what git said, if the error is of git.
func gitReason(err error) string {
	var failed *git.Error
	if !errors.As(err, &failed) {
		return ""
	}
	return failed.Reason()
}

// permissionLacking says which permission is not granted, if that is the reason.
func permissionLacking(err error) string {
	var permission *installation.ErrPermission
	if !errors.As(err, &permission) {
		return ""
	}
	which := "a permission"
	if permission.Missing != "" {
		which = "the permission " + permission.Missing
	}
	return "the App lacks " + which + " here; an owner has to accept it in the installation's settings"
}

// goneClass reads GitHub's own words for things that are no more.
func goneClass(err error) *Ended {
	var response *github.ErrorResponse
	if !errors.As(err, &response) || response.Response == nil {
		return nil
	}
	switch response.Response.StatusCode {
	case http.StatusGone:
		return &Ended{BlockedByHost, "the issue has been deleted", err}
	case http.StatusNotFound:
		return &Ended{BlockedByHost, "GitHub does not show this to the bot any more (deleted, transferred, or out of the App's reach)", err}
	case http.StatusNotImplemented:
		return &Ended{BlockedByHost, "this GitHub does not answer a call that the bot needs", err}
	case http.StatusForbidden, http.StatusUnprocessableEntity:
		return &Ended{BlockedByHost, "GitHub refused: " + response.Message, err}
	}
	return nil
}

// Passes says whether an error is of the kind that time, or the people who run the bot, mend.
func Passes(err error) bool {
	var response *github.ErrorResponse
	if errors.As(err, &response) && response.Response != nil {
		return response.Response.StatusCode >= 500
	}
	return errors.As(err, new(Passing)) || errors.Is(err, installation.ErrUnauthorized) || errors.Is(err, git.ErrNetwork) || errors.Is(err, installation.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sandbox.ErrBusy) || store.Away(err)
}

// Plain is the innermost sentence of an error that a person can use: GitHub's words, a reason, or its last part.
func Plain(err error) string {
	if errors.Is(err, installation.ErrUnauthorized) {
		return "GitHub does not accept the App's key; whoever runs the bot sees why with `sandpiper doctor`"
	}
	var response *github.ErrorResponse
	if errors.As(err, &response) {
		return "GitHub said " + response.Message
	}
	var refused *promote.ErrRefused
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return err.Error()
}
