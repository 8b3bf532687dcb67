package installation

import (
	"container/list"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// Bounds of the memory for conditional requests. Most answers have a few KiB; a large one is cheaper asked for again.
const (
	etagBytes = 16 << 20
	etagEntry = 256 << 10
)

// etags remembers answers by installation, address and media type, least recently used out first. A 304 does not count
// against the rate limit: https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#use-conditional-requests-if-appropriate
type etags struct {
	mu    sync.Mutex
	order *list.List // of *remembered, most recent first
	by    map[etagKey]*list.Element
	bytes int
}

type etagKey struct {
	installation int64
	url, accept  string
}

type remembered struct {
	key    etagKey
	etag   string
	header http.Header
	body   []byte
}

func newETags() *etags { return &etags{order: list.New(), by: make(map[etagKey]*list.Element)} }

func (e *etags) get(key etagKey) *remembered {
	e.mu.Lock()
	defer e.mu.Unlock()
	el := e.by[key]
	if el == nil {
		return nil
	}
	e.order.MoveToFront(el)
	return el.Value.(*remembered)
}

func (e *etags) put(r *remembered) {
	if len(r.body) > etagEntry {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(e.by[r.key])
	e.by[r.key] = e.order.PushFront(r)
	e.bytes += r.size()
	for e.bytes > etagBytes {
		e.remove(e.order.Back())
	}
}

func (e *etags) remove(el *list.Element) {
	if el == nil {
		return
	}
	r := e.order.Remove(el).(*remembered)
	delete(e.by, r.key)
	e.bytes -= r.size()
}

// size is about what it takes in memory: the headers of a short answer are longer than itself.
func (r *remembered) size() int {
	n := len(r.body)
	for name, values := range r.header {
		n += len(name)
		for _, v := range values {
			n += len(v)
		}
	}
	return n
}

// conditional asks only for what has changed. The answer always comes from GitHub, which has seen the token that asks.
type conditional struct {
	next         http.RoundTripper
	etags        *etags
	installation int64
}

func (c *conditional) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.Header.Get("If-None-Match") != "" || req.Header.Get("Range") != "" {
		return c.next.RoundTrip(req)
	}
	key := etagKey{c.installation, req.URL.String(), req.Header.Get("Accept")}
	known := c.etags.get(key)
	asked := req
	if known != nil {
		asked = req.Clone(req.Context())
		asked.Header.Set("If-None-Match", known.etag)
	}
	resp, err := c.next.RoundTrip(asked)
	if err != nil {
		return nil, err
	}
	switch etag := resp.Header.Get("ETag"); {
	case resp.StatusCode == http.StatusNotModified && known != nil:
		return known.answer(req, resp), nil
	case resp.StatusCode == http.StatusOK && etag != "":
		c.etags.put(&remembered{key: key, etag: etag, header: resp.Header.Clone(), body: peek(resp)})
	}
	return resp, nil
}

// answer is the remembered one with the news that a 304 brings: its date, its limits.
func (r *remembered) answer(req *http.Request, fresh *http.Response) *http.Response {
	header := r.header.Clone()
	maps.Copy(header, fresh.Header)
	header.Set("Content-Length", strconv.Itoa(len(r.body)))
	return &http.Response{
		Status:        "200 OK",
		StatusCode:    http.StatusOK,
		Proto:         fresh.Proto,
		ProtoMajor:    fresh.ProtoMajor,
		ProtoMinor:    fresh.ProtoMinor,
		Header:        header,
		Body:          newAnswer(r.body),
		ContentLength: int64(len(r.body)),
		Request:       req,
	}
}
