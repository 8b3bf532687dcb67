package installation

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// watched tells of each exchange that was really made.
type watched struct {
	next         http.RoundTripper
	watch        Watcher
	installation int64
}

func (w *watched) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(req)
	if err != nil {
		w.watch.Answered(w.installation, "unreachable", -1)
		return resp, err
	}
	remaining, bad := strconv.Atoi(resp.Header.Get("X-RateLimit-Remaining"))
	if bad != nil {
		remaining = -1
	}
	_, spent := untilReset(resp, time.Now())
	class := strconv.Itoa(resp.StatusCode/100) + "xx"
	switch {
	case isLimit(resp, spent):
		class = "limited"
	case resp.StatusCode == http.StatusNotModified:
		class = "304"
	}
	w.watch.Answered(w.installation, class, remaining)
	return resp, nil
}

// unwatched is the Watcher of an App that has none.
type unwatched struct{}

func (unwatched) Answered(int64, string, int) {}
func (unwatched) Minted(bool)                 {}

// keyed remembers whether GitHub takes the App's key. An answer of a server that is out of order says nothing of it.
type keyed struct {
	next    http.RoundTripper
	refused *atomic.Bool
}

func (k *keyed) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := k.next.RoundTrip(req)
	if err == nil && resp.StatusCode < http.StatusInternalServerError {
		k.refused.Store(resp.StatusCode == http.StatusUnauthorized)
	}
	return resp, err
}
