package installation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

const (
	// callTimeout is for one exchange with its body. GitHub itself ends a request after 10 seconds:
	// https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api#timeouts
	callTimeout = 30 * time.Second
	// maxAnswer bounds what one answer may take of memory. The largest that is asked for are diffs and file lists.
	maxAnswer = 64 << 20
	// readAttempts is how often a read is tried when no good answer comes.
	readAttempts = 3
	maxRedirects = 5
)

// chain is what differs between clients.
type chain struct {
	installation int64
	sign         bool                                           // as the App
	token        func(next http.RoundTripper) http.RoundTripper // or with a token
	pace         time.Duration
	etags        *etags // nil: none
}

func (a *App) client(c chain) *github.Client {
	lane := a.lane(c.installation)
	var rt http.RoundTripper = &bearer{next: a.exchange}
	if c.sign {
		rt = &signed{next: a.jwt}
	}
	rt = &hostLock{next: rt, base: a.base}
	rt = &logged{next: rt, log: a.log, installation: c.installation}
	rt = &watched{next: rt, watch: a.watch, installation: c.installation}
	if c.sign {
		rt = &keyed{next: rt, refused: &a.refused}
	}
	if c.etags != nil {
		rt = &conditional{next: rt, etags: c.etags, installation: c.installation}
	}
	rt = &capped{next: rt, lane: lane}
	if c.token != nil {
		rt = c.token(rt)
	}
	if c.pace > 0 {
		rt = &paced{next: rt, lane: lane, pace: c.pace}
	}
	rt = &retried{next: rt}
	rt = &limited{next: rt, lane: lane, log: a.log}
	rt = &classified{next: rt}

	client := github.NewClient(&http.Client{Transport: rt, CheckRedirect: a.checkRedirect})
	client.BaseURL, client.UploadURL, client.UserAgent = a.base, a.base, UserAgent
	return client
}

// with is a client for one token, outside of the cache.
func (a *App) with(installation int64, token redact.Secret) *github.Client {
	return a.client(chain{installation: installation, token: func(next http.RoundTripper) http.RoundTripper {
		return &fixed{next: next, token: token}
	}})
}

// NewTransport is the transport of an App that is given none.
func NewTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: callTimeout,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   maxConcurrent,
		ForceAttemptHTTP2:     true,
	}
}

// checkRedirect follows a renamed repository and nothing else.
func (a *App) checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case !sameHost(req.URL, a.base):
		return fmt.Errorf("redirect to another host, %s, is not followed", req.URL.Host)
	case req.Method != via[0].Method:
		return fmt.Errorf("redirect would turn %s into %s and is not followed", via[0].Method, req.Method)
	}
	return nil
}

func sameHost(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// answer is a body that is in memory, so that every transport can look at it and none has to care for the connection.
type answer struct {
	*bytes.Reader
	data []byte
}

func (*answer) Close() error { return nil }

func newAnswer(data []byte) *answer { return &answer{bytes.NewReader(data), data} }

func peek(resp *http.Response) []byte {
	if body, ok := resp.Body.(*answer); ok {
		return body.data
	}
	return nil
}

// rewound is req with its body at the start, for another attempt; nil if that cannot be.
func rewound(req *http.Request) *http.Request {
	again := req.Clone(req.Context())
	if req.Body == nil || req.Body == http.NoBody {
		return again
	}
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	again.Body = body
	return again
}

func isRead(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}

// wait is time.Sleep that ends with its context.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exchange sends one request and reads the whole answer within a time.
type exchange struct {
	next    http.RoundTripper
	timeout time.Duration
}

func (e *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), e.timeout)
	defer cancel()
	resp, err := e.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, e.unreachable(req, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, e.unreachable(req, err)
	}
	if len(data) > maxAnswer {
		return nil, fmt.Errorf("answer to %s %s has more than %d MiB", req.Method, req.URL.Path, maxAnswer>>20)
	}
	if why := garbled(resp, data); why != nil {
		return nil, e.unreachable(req, why)
	}
	resp.Body = newAnswer(data)
	return resp, nil
}

// garbled says that a good status came with what is no answer of GitHub's: the page of a proxy, or half of one. go-github takes an empty
// body for an issue without a state, and for somebody without a permission.
func garbled(resp *http.Response, data []byte) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated:
		return nil
	case kind == "text/html":
		return errors.New("a web page came instead of an answer")
	case kind == "application/json" && !json.Valid(data), kind == "" && len(data) == 0:
		return fmt.Errorf("%d bytes came that are no whole answer", len(data))
	}
	return nil
}

func (e *exchange) unreachable(req *http.Request, err error) error {
	if ended := req.Context().Err(); ended != nil {
		return ended // the caller's own end, not GitHub's
	}
	return &kindError{ErrUnreachable, "", err}
}

// logged writes one line for each exchange: no header, no query, no body.
type logged struct {
	next         http.RoundTripper
	log          *slog.Logger
	installation int64
}

func (l *logged) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := l.next.RoundTrip(req)
	attrs := []slog.Attr{
		slog.String("method", req.Method),
		slog.String("path", req.URL.Path),
		slog.Int64("installation", l.installation),
		slog.Duration("took", time.Since(start)),
	}
	level := slog.LevelDebug
	switch {
	case err != nil:
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("error", err))
	default:
		attrs = append(attrs, slog.Int("status", resp.StatusCode))
		if id := resp.Header.Get("X-GitHub-Request-Id"); id != "" { // what GitHub's support asks for
			attrs = append(attrs, slog.String("request", id))
		}
		if resp.StatusCode >= 500 {
			level = slog.LevelWarn
		}
	}
	l.log.LogAttrs(req.Context(), level, "github call", attrs...)
	return resp, err
}

// retried repeats a read that got no good answer. A write is never repeated here: it may have been done.
type retried struct{ next http.RoundTripper }

func (r *retried) RoundTrip(req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := r.next.RoundTrip(req.Clone(req.Context()))
		bad := errors.Is(err, ErrUnreachable) || (err == nil && resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented)
		if !bad || !isRead(req) || attempt == readAttempts {
			return resp, err
		}
		pause := time.Duration(attempt*attempt) * 200 * time.Millisecond
		if err := wait(req.Context(), pause+rand.N(pause)); err != nil {
			return nil, err
		}
	}
}

// classified turns answers with a class of their own into errors, and moves.
type classified struct{ next http.RoundTripper }

func (c *classified) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := classify(resp); err != nil {
		return nil, err
	}
	// net/http turns a POST that meets a 301 or 302 into a GET, which then succeeds and has done nothing. GitHub means
	// the request to be repeated as it is: https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects
	if !isRead(req) {
		switch resp.StatusCode {
		case http.StatusMovedPermanently:
			resp.StatusCode = http.StatusPermanentRedirect
		case http.StatusFound:
			resp.StatusCode = http.StatusTemporaryRedirect
		}
	}
	// go-github keeps count of the primary limit per client, and then refuses calls by itself, with another error; the
	// lane of the installation does that here.
	resp.Header.Del("X-RateLimit-Reset")
	return resp, nil
}
