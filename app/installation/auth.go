package installation

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// hostLock lets a request pass to the API's host only, so that no credential can be added for another.
type hostLock struct {
	next http.RoundTripper
	base *url.URL
}

func (h *hostLock) RoundTrip(req *http.Request) (*http.Response, error) {
	if !sameHost(req.URL, h.base) {
		return nil, fmt.Errorf("%s is not the API's host; nothing is sent to it", req.URL.Host)
	}
	return h.next.RoundTrip(req)
}

// signed signs a request in as the App.
type signed struct{ next http.RoundTripper }

func (s *signed) RoundTrip(req *http.Request) (*http.Response, error) {
	// AppsTransport sets headers on the request it is given, which a RoundTripper must not do.
	return answering(req)(s.next.RoundTrip(req.Clone(req.Context())))
}

// fixedAuth sends with one token.
type fixedAuth struct {
	next  http.RoundTripper
	token redact.Secret
}

func (f *fixedAuth) RoundTrip(req *http.Request) (*http.Response, error) {
	return send(f.next, req, f.token)
}

// tokenAuth sends with the live token of a repository and a purpose.
type tokenAuth struct {
	next    http.RoundTripper
	tokens  *tokens
	repo    Repo
	purpose Purpose
}

func (t *tokenAuth) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := t.tokens.get(req.Context(), t.repo, t.purpose)
	if err != nil {
		return nil, err
	}
	resp, err := send(t.next, req, token.value)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	// The token died before its time: revoked, or the server is stricter than its own expiry. Nothing was done with it,
	// so the same request may go again, once.
	t.tokens.drop(t.repo, t.purpose, token)
	again := rewound(req)
	if again == nil {
		return resp, nil
	}
	if token, err = t.tokens.get(req.Context(), t.repo, t.purpose); err != nil {
		return nil, err
	}
	return send(t.next, again, token.value)
}

func send(next http.RoundTripper, req *http.Request, token redact.Secret) (*http.Response, error) {
	with := req.Clone(req.Context())
	with.Header.Set("Authorization", "Bearer "+token.Reveal())
	return answering(req)(next.RoundTrip(with))
}

// answering makes the answer point at the request without its credential: errors of go-github carry the answer around.
func answering(req *http.Request) func(*http.Response, error) (*http.Response, error) {
	return func(resp *http.Response, err error) (*http.Response, error) {
		if resp != nil {
			resp.Request = req
		}
		return resp, err
	}
}

// isStatus says whether a call ended with one of the statuses, whichever way it came back.
func isStatus(resp *github.Response, err error, statuses ...int) bool {
	var e *github.ErrorResponse
	if errors.As(err, &e) && e.Response != nil {
		return slices.Contains(statuses, e.Response.StatusCode)
	}
	return resp != nil && slices.Contains(statuses, resp.StatusCode)
}
