package installation_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
)

// TestLimits has every way in which GitHub says "later": https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
func TestLimits(t *testing.T) {
	t.Parallel()
	secondary := `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`
	reset := func(d time.Duration) map[string]string {
		// A bubble's clock starts at the beginning of 2000.
		at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Unix()
		return map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": fmt.Sprint(at)}
	}
	for _, tt := range []struct {
		name  string
		limit reply
		calls []string
		later time.Duration // 0: it went through
	}{
		{"ShortRetryAfter", reply{status: 403, header: map[string]string{"Retry-After": "3"}, body: secondary}, []string{"0.0 " + commentCall, "3.0 " + commentCall}, 0},
		{"ShortRetryAfterWith429", reply{status: 429, header: map[string]string{"Retry-After": "2"}}, []string{"0.0 " + commentCall, "2.0 " + commentCall}, 0},
		{"LongRetryAfter", reply{status: 403, header: map[string]string{"Retry-After": "120"}, body: secondary}, []string{"0.0 " + commentCall}, 120 * time.Second},
		{"RetryAfterAsADate", reply{status: 429, header: map[string]string{"Retry-After": "Sat, 01 Jan 2000 00:01:30 GMT"}}, []string{"0.0 " + commentCall}, 90 * time.Second},
		{"SecondaryWithoutRetryAfter", reply{status: 403, header: map[string]string{"X-RateLimit-Remaining": "4290"}, body: secondary}, []string{"0.0 " + commentCall}, time.Minute},
		{"TooManyWithoutAnything", reply{status: 429}, []string{"0.0 " + commentCall}, time.Minute},
		{"PrimaryShort", reply{status: 403, header: reset(2 * time.Second)}, []string{"0.0 " + commentCall, "3.0 " + commentCall}, 0},
		{"PrimaryLong", reply{status: 403, header: reset(30 * time.Minute)}, []string{"0.0 " + commentCall}, 30*time.Minute + time.Second},
		{"PrimaryWith429", reply{status: 429, header: reset(30 * time.Minute)}, []string{"0.0 " + commentCall}, 30*time.Minute + time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, app := newScript(t, 0)
				s.on(commentCall, tt.limit, reply{status: 201, body: `{"id":1}`})
				c := client(t, app)
				err := comment(t, c)
				if d := cmp.Diff(tt.calls, s.work()); d != "" {
					t.Errorf("calls: %s", d)
				}
				if tt.later == 0 {
					if err != nil {
						t.Errorf("got %v, want it to go through", err)
					}
					return
				}
				var limited *installation.ErrLimited
				var e *gh.ErrorResponse
				if !errors.As(err, &limited) || limited.RetryAfter != tt.later || !errors.As(err, &e) {
					t.Fatalf("got %v, want ErrLimited for %v over GitHub's answer", err, tt.later)
				}
				// While it lasts nothing is sent, by no client of the installation; after that it goes through.
				if err := comment(t, client(t, app)); !errors.As(err, &limited) || len(s.work()) != 1 {
					t.Errorf("while limited: got %v after %d calls", err, len(s.work()))
				}
				<-time.After(tt.later)
				if err := comment(t, c); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func TestSecondaryLimitWithoutATimeGetsLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on(commentCall, reply{status: 429})
		c := client(t, app)
		var got []time.Duration
		for range 6 {
			var limited *installation.ErrLimited
			if err := comment(t, c); !errors.As(err, &limited) {
				t.Fatalf("got %v", err)
			}
			got = append(got, limited.RetryAfter)
			<-time.After(limited.RetryAfter)
		}
		want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestUsedUpQuotaIsNotTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		reset := fmt.Sprint(time.Now().Add(time.Hour).Unix())
		s.on(issueCall, reply{status: 200, body: `{"number":1}`, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}})
		c := client(t, app)
		if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil {
			t.Fatal(err)
		}
		var limited *installation.ErrLimited
		if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); !errors.As(err, &limited) || len(s.work()) != 1 {
			t.Errorf("got %v after %d calls, want ErrLimited after one", err, len(s.work()))
		}
	})
}

func TestWritesArePaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, time.Second)
		s.on(commentCall, reply{status: 201, body: `{"id":1}`, takes: 500 * time.Millisecond})
		s.on(issueCall, reply{status: 200, body: `{"number":1}`})
		c := client(t, app)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := comment(t, c); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		var writes, reads []string
		for _, call := range s.work() {
			if strings.Contains(call, "POST") {
				writes = append(writes, call)
			} else {
				reads = append(reads, call)
			}
		}
		want := []string{"0.0 " + commentCall, "1.5 " + commentCall, "3.0 " + commentCall}
		if d := cmp.Diff(want, writes); d != "" {
			t.Errorf("writes: %s", d)
		}
		if d := cmp.Diff([]string{"0.0 " + issueCall}, reads); d != "" {
			t.Errorf("reads must not wait: %s", d)
		}
	})
}

func TestOnlyReadsAreRetried(t *testing.T) {
	t.Parallel()
	hangup := reply{err: errors.New("connection reset by peer")}
	for _, tt := range []struct {
		name    string
		trouble reply
	}{
		{"Hangup", hangup},
		{"BadGateway", reply{status: 502, body: "<html>"}},
		{"NoAnswer", reply{status: 200, takes: time.Hour}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, app := newScript(t, 0)
				c := client(t, app)
				s.on(issueCall, tt.trouble, tt.trouble, reply{status: 200, body: `{"number":1}`})
				if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil || len(s.work()) != 3 {
					t.Errorf("a read: got %v after %d calls, want success after 3", err, len(s.work()))
				}
				s.on(commentCall, tt.trouble)
				if err := comment(t, c); err == nil || len(s.work()) != 4 {
					t.Errorf("a write: got %v after %d calls, want failure after one more", err, len(s.work())-3)
				}
			})
		})
	}
}

// TestWhatIsNoAnswerIsNotRead: the page of a proxy, half an answer and none. Of an empty body go-github makes an issue without a state, and
// somebody without a permission.
func TestWhatIsNoAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	for name, garbled := range map[string]reply{
		"Page":      {status: 200, header: map[string]string{"Content-Type": "text/html; charset=utf-8"}, body: "<html>Sign in to the network</html>"},
		"Truncated": {status: 200, header: map[string]string{"Content-Type": "application/json; charset=utf-8"}, body: `{"number":1,"sta`},
		"Empty":     {status: 200, header: map[string]string{"Content-Type": "application/json; charset=utf-8"}},
		"Nothing":   {status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, app := newScript(t, 0)
				c := client(t, app)
				s.on(issueCall, garbled, reply{status: 200, body: `{"number":1,"state":"open"}`})
				if i, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil || i.GetState() != "open" || len(s.work()) != 2 {
					t.Errorf("a read: got %v, %v after %d calls, want the second answer", i, err, len(s.work()))
				}
				made := garbled
				made.status = 201
				s.on(commentCall, made)
				if err := comment(t, c); !errors.Is(err, installation.ErrUnreachable) || len(s.work()) != 3 {
					t.Errorf("a write: got %v after %d calls, want that nobody knows after one more", err, len(s.work())-2)
				}
			})
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on(issueCall, reply{err: errors.New("no such host")})
		_, _, err := client(t, app).Issues.Get(t.Context(), "octo", "calc", 1)
		if !errors.Is(err, installation.ErrUnreachable) || len(s.work()) != 3 {
			t.Errorf("got %v after %d calls", err, len(s.work()))
		}
	})
}

func TestAtMostTwentyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on(issueCall, reply{status: 200, body: `{"number":1}`, takes: time.Second})
		c := client(t, app)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		begun := make(map[string]int)
		for _, call := range s.work() {
			begun[call[:3]]++
		}
		if d := cmp.Diff(map[string]int{"0.0": 20, "1.0": 20, "2.0": 10}, begun); d != "" {
			t.Error(d)
		}
	})
}
