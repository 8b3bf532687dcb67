package installation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
)

// What a client or a mint can end with, sorted by what the caller should do. Where GitHub answered, errors.As finds the
// *github.ErrorResponse as well. Answers that mean different things at different endpoints (404, 409, 410, 422, and other
// kinds of 403) are left to the caller as go-github's errors.
var (
	// ErrUnauthorized: the App's key is not accepted, or a token that was just minted is not. A person must look.
	ErrUnauthorized = errors.New("github does not accept who we are")
	// ErrSuspended: the installation is suspended. Stop until it is not.
	ErrSuspended = errors.New("the installation is suspended")
	// ErrWithdrawn: the repository or the whole installation is no longer ours to reach. Stop.
	ErrWithdrawn = errors.New("the installation does not reach this repository any more")
	// ErrArchived: the repository is read-only. Stop.
	ErrArchived = errors.New("the repository is archived")
	// ErrUnsupported: the server does not offer this at all. Do without it.
	ErrUnsupported = errors.New("the server does not support this")
	// ErrUnreachable: no answer came. What was asked may or may not have been done; reads were retried already.
	ErrUnreachable = errors.New("github cannot be reached")
)

// ErrPermission says that the installation does not grant what a call needs.
type ErrPermission struct {
	Missing string // such as "checks: write"; empty where GitHub does not say
	Err     error
}

func (e *ErrPermission) Error() string {
	return fmt.Sprintf("the installation lacks a permission (%s): %v", cmp.Or(e.Missing, "GitHub does not say which"), e.Err)
}

func (e *ErrPermission) Unwrap() error { return e.Err }

// ErrLimited says that GitHub does not take calls for a while. What was asked was not done.
type ErrLimited struct {
	RetryAfter time.Duration
	Err        error // nil when no call was made because the limit was known
}

func (e *ErrLimited) Error() string {
	return fmt.Sprintf("github takes no calls of this installation for %s", e.RetryAfter.Round(time.Second))
}

func (e *ErrLimited) Unwrap() error { return e.Err }

// kindError joins one of the sentinels above with what is known beside it.
type kindError struct {
	kind error
	note string
	err  error // may be nil
}

func (e *kindError) Error() string {
	text := e.kind.Error()
	if e.note != "" {
		text += " (" + e.note + ")"
	}
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *kindError) Unwrap() []error {
	if e.err == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.err}
}

// respond makes the error that go-github would make of an answer, and leaves the answer readable.
func respond(resp *http.Response) *github.ErrorResponse {
	e := &github.ErrorResponse{Response: resp}
	if err := json.Unmarshal(peek(resp), e); err != nil {
		return &github.ErrorResponse{Response: resp}
	}
	return e
}

// classify gives an answer its class; nil for one that the caller has to understand.
func classify(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return &kindError{ErrUnauthorized, skewNote(resp), respond(resp)}
	case http.StatusNotImplemented:
		return &kindError{ErrUnsupported, "", respond(resp)}
	case http.StatusNotFound:
		if always[resp.Request.Method+" "+lastSegments(resp.Request.URL.Path)] {
			return &kindError{ErrUnsupported, "", respond(resp)}
		}
	case http.StatusForbidden:
		return classifyForbidden(respond(resp))
	}
	return nil
}

// always are endpoints that GitHub has for every App, so that a 404 says that the server is not quite GitHub.
var always = map[string]bool{
	"GET hook/config":     true,
	"GET hook/deliveries": true,
}

func lastSegments(path string) string {
	_, tail, _ := strings.Cut(path, "/app/")
	return tail
}

func classifyForbidden(e *github.ErrorResponse) error {
	message := strings.ToLower(e.Message)
	switch {
	// "This installation has been suspended" comes when a token is minted, and with tokens from before:
	// https://github.com/ossf/allstar/issues/314
	case strings.Contains(message, "suspended"):
		return &kindError{ErrSuspended, "", e}
	case strings.Contains(message, "archived"):
		return &kindError{ErrArchived, "", e}
	case strings.Contains(message, "not accessible by integration"):
		// GitHub names the permissions that would do in a header on such answers:
		// https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api#resource-not-accessible
		missing := strings.ReplaceAll(e.Response.Header.Get("X-Accepted-GitHub-Permissions"), "=", ": ")
		return &ErrPermission{Missing: missing, Err: e}
	}
	return nil
}

// Skew is how far GitHub's clock is ahead of ours (negative: behind), by the Date header of an answer that has just come.
// Its precision is a second and the way of the answer.
func Skew(resp *http.Response) (time.Duration, bool) {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, false
	}
	return time.Until(date).Round(time.Second), true
}

// skewNote names a wrong clock, the usual reason why a good key is refused: GitHub takes an App's token from 60 seconds
// in the past at most, and never one from the future.
func skewNote(resp *http.Response) string {
	skew, ok := Skew(resp)
	switch {
	case !ok || skew.Abs() < 20*time.Second:
		return ""
	case skew > 0:
		return fmt.Sprintf("the clock of this machine is %s behind GitHub's", skew)
	}
	return fmt.Sprintf("the clock of this machine is %s ahead of GitHub's", -skew)
}
