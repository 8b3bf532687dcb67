package installation

import (
	"context"
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

// bearer adds the token that the context carries. It stands behind the host lock.
type bearer struct{ next http.RoundTripper }

type tokenInContext struct{}

func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	token, _ := req.Context().Value(tokenInContext{}).(redact.Secret)
	with := req.Clone(req.Context())
	with.Header.Set("Authorization", "Bearer "+token.Reveal())
	return answering(req)(b.next.RoundTrip(with))
}

func withToken(req *http.Request, token redact.Secret) *http.Request {
	return req.WithContext(context.WithValue(req.Context(), tokenInContext{}, token))
}

// fixed sends with one token.
type fixed struct {
	next  http.RoundTripper
	token redact.Secret
}

func (f *fixed) RoundTrip(req *http.Request) (*http.Response, error) {
	return f.next.RoundTrip(withToken(req, f.token))
}

// live sends with the live token of a repository and a purpose. It stands before the cap on concurrency: a mint tries its
// token in the same lane, and would wait for ever behind the callers that wait for it.
type live struct {
	next    http.RoundTripper
	tokens  *tokens
	repo    Repo
	purpose Purpose
}

func (l *live) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := l.tokens.get(req.Context(), l.repo, l.purpose)
	if err != nil {
		return nil, err
	}
	resp, err := l.next.RoundTrip(withToken(req, token.value))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		if err == nil && resp.StatusCode < http.StatusBadRequest {
			l.tokens.proved(token)
		}
		return resp, err
	}
	// The token died before its time: revoked, or the server is stricter than its own expiry. Nothing was done with it,
	// so the same request may go again, once.
	l.tokens.drop(l.repo, l.purpose, token)
	again := rewound(req)
	if again == nil {
		return resp, nil
	}
	if token, err = l.tokens.get(req.Context(), l.repo, l.purpose); err != nil {
		return nil, err
	}
	return l.next.RoundTrip(withToken(again, token.value))
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
