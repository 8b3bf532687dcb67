package installation

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// GitHub's limits: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
const (
	// maxConcurrent is well below the 100 requests at once that GitHub allows an App over all of its processes.
	maxConcurrent = 20
	// patience is the longest wait that a caller is held for; a longer one is the caller's to plan.
	patience = 5 * time.Second
	// limitAttempts is how often a request is sent when it meets one short limit after the other.
	limitAttempts = 3
	// A secondary limit without Retry-After: "wait for at least one minute", then exponentially longer.
	leastWait, mostWait = time.Minute, 15 * time.Minute
)

// lane is what all clients of one installation share: GitHub counts per installation.
type lane struct {
	slots  chan struct{}
	writer chan struct{} // held by the one write that is on its way

	mu        sync.Mutex
	closed    time.Time // no call before this
	strikes   int       // limits without a word of how long, one after the other
	lastWrite time.Time
}

func newLane() *lane {
	return &lane{slots: make(chan struct{}, maxConcurrent), writer: make(chan struct{}, 1)}
}

// observe learns from an answer. It says whether the answer is a limit, which means that the request was not done.
func (l *lane) observe(resp *http.Response) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	reset, spent := untilReset(resp, now)
	if !isLimit(resp, spent) {
		if resp.StatusCode < 300 {
			l.strikes = 0
		}
		if spent && reset > 0 {
			l.close(now.Add(reset))
		}
		return false
	}
	d, told := retryAfter(resp, now)
	switch {
	case told:
	case spent && reset > 0:
		d = reset
	default:
		d = min(leastWait<<l.strikes, mostWait)
		l.strikes = min(l.strikes+1, 10)
	}
	l.close(now.Add(d))
	return true
}

func (l *lane) close(until time.Time) {
	if until.After(l.closed) {
		l.closed = until
	}
}

func (l *lane) closedFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.closed)
}

// isLimit reads 403 and 429, of the primary and of the secondary limits. The secondary ones often come with quota left
// and without Retry-After, so that only the text tells: https://github.com/hub4j/github-api/issues/2009
func isLimit(resp *http.Response, spent bool) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		body := bytes.ToLower(peek(resp))
		return spent || resp.Header.Get("Retry-After") != "" ||
			bytes.Contains(body, []byte("secondary rate limit")) || bytes.Contains(body, []byte("abuse detection"))
	}
	return false
}

// retryAfter reads seconds, or a time by GitHub's clock.
func retryAfter(resp *http.Response, now time.Time) (time.Duration, bool) {
	value := resp.Header.Get("Retry-After")
	if n, err := strconv.Atoi(value); err == nil && n >= 0 {
		return time.Duration(n) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return at.Sub(serverTime(resp, now)), true
	}
	return 0, false
}

// untilReset says whether the primary limit is used up, and when it is filled again; a second more, as both clocks tick
// in whole seconds.
func untilReset(resp *http.Response, now time.Time) (time.Duration, bool) {
	if resp.Header.Get("X-RateLimit-Remaining") != "0" {
		return 0, false
	}
	reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil {
		return 0, true
	}
	return time.Unix(reset, 0).Sub(serverTime(resp, now)) + time.Second, true
}

// serverTime is GitHub's clock at the time of an answer: ours may be wrong.
func serverTime(resp *http.Response, now time.Time) time.Time {
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return date
	}
	return now
}

// limited waits out short limits and gives long ones back. Calling on through a limit can get an App banned.
type limited struct {
	next http.RoundTripper
	lane *lane
	log  *slog.Logger
}

func (l *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		if d := l.lane.closedFor(); d > patience {
			return nil, &ErrLimited{RetryAfter: d}
		} else if d > 0 {
			if err := wait(req.Context(), d); err != nil {
				return nil, err
			}
		}
		again := rewound(req)
		if again == nil {
			again = req
		}
		resp, err := l.next.RoundTrip(again)
		if err != nil || !l.lane.observe(resp) {
			return resp, err
		}
		d := l.lane.closedFor()
		l.log.WarnContext(req.Context(), "github limits this installation", "method", req.Method, "path", req.URL.Path, "status", resp.StatusCode, "wait", d)
		if d > patience || attempt == limitAttempts || (again == req && req.Body != nil) {
			return nil, &ErrLimited{RetryAfter: max(d, 0), Err: respond(resp)}
		}
	}
}

// paced sends one write at a time, with a pause between two.
type paced struct {
	next http.RoundTripper
	lane *lane
	pace time.Duration
}

func (p *paced) RoundTrip(req *http.Request) (*http.Response, error) {
	if isRead(req) {
		return p.next.RoundTrip(req)
	}
	select {
	case p.lane.writer <- struct{}{}:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	defer func() { <-p.lane.writer }()
	p.lane.mu.Lock()
	next := p.lane.lastWrite.Add(p.pace)
	p.lane.mu.Unlock()
	if err := wait(req.Context(), time.Until(next)); err != nil {
		return nil, err
	}
	resp, err := p.next.RoundTrip(req)
	p.lane.mu.Lock()
	p.lane.lastWrite = time.Now()
	p.lane.mu.Unlock()
	return resp, err
}

// capped bounds how many requests of one installation are on their way.
type capped struct {
	next http.RoundTripper
	lane *lane
}

func (c *capped) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case c.lane.slots <- struct{}{}:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	defer func() { <-c.lane.slots }()
	return c.next.RoundTrip(req)
}
