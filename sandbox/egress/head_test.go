package egress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestHeads(t *testing.T) {
	t.Parallel()
	good := "GET http://a.example/ HTTP/1.1\r\n"
	for text, want := range map[string]string{
		good + "Host: a.example\r\n\r\n":                                          "",
		good + "\r\n":                                                             "",
		good + "Content-Length: 5\r\n\r\n":                                        "",
		good + "Transfer-Encoding: Chunked\r\n\r\n":                               "",
		good + "X: a\tb\r\n\r\n":                                                  "",
		good + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n":          "more than once",
		good + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n":          "more than once",
		good + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n":                   "more than once",
		good + "Content-Length: 5\r\ncontent-length: 6\r\n\r\n":                   "more than once",
		good + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n": "more than once",
		good + "Transfer-Encoding: gzip, chunked\r\n\r\n":                         "not served",
		good + "Transfer-Encoding: xchunked\r\n\r\n":                              "not served",
		good + "Transfer-Encoding: identity\r\n\r\n":                              "not served",
		good + "Transfer-Encoding:\x0bchunked\r\n\r\n":                            "malformed",
		good + "Transfer-Encoding : chunked\r\n\r\n":                              "malformed",
		good + " Transfer-Encoding: chunked\r\n\r\n":                              "malformed",
		good + "X: 1\r\n Transfer-Encoding: chunked\r\n\r\n":                      "malformed",
		good + "X: 1\rTransfer-Encoding: chunked\r\n\r\n":                         "malformed",
		good + "X: 1\nTransfer-Encoding: chunked\r\n\r\n":                         "malformed",
		good + "X: a\x00b\r\n\r\n":                                                "malformed",
		good + "X\x00: b\r\n\r\n":                                                 "malformed",
		good + "X\r\n\r\n":                                                        "malformed",
		good + ": x\r\n\r\n":                                                      "malformed",
		good + "Content-Length: +5\r\n\r\n":                                       "no number",
		good + "Content-Length: 0x5\r\n\r\n":                                      "no number",
		good + "Content-Length: -1\r\n\r\n":                                       "no number",
		good + "Content-Length: 5, 5\r\n\r\n":                                     "no number",
		good + "Content-Length:\r\n\r\n":                                          "no number",
		good + "Content-Length: 99999999999999999999\r\n\r\n":                     "no number",
		good + "Host: a.example\r\nhost: b.example\r\n\r\n":                       "more than one Host",
		"GET http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n":    "not served",
		"GET  http://a.example/ HTTP/1.1\r\n\r\n":                                 "request line",
		"GET http://a.example/ HTTP/1.1 \r\n\r\n":                                 "request line",
		"GET http://a.example/ x HTTP/1.1\r\n\r\n":                                "request line",
		"GET http://a.example/\tx HTTP/1.1\r\n\r\n":                               "request line",
		"GET\thttp://a.example/ HTTP/1.1\r\n\r\n":                                 "request line",
		"GET http://a.example/\x00 HTTP/1.1\r\n\r\n":                              "request line",
		"GET http://a.example/ HTTP/2.0\r\n\r\n":                                  "request line",
		"GET http://a.example/ HTTP/0.9\r\n\r\n":                                  "request line",
		"GET http://a.example/ http/1.1\r\n\r\n":                                  "request line",
		"GET http://a.example/\r\n\r\n":                                           "request line",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                        "request line",
		"\r\n\r\nGET http://a.example/ HTTP/1.1\r\n\r\n":                          "request line",
		"G(T http://a.example/ HTTP/1.1\r\n\r\n":                                  "request line",
		"GET http://a.example/ HTTP/1.1\nHost: a.example\n\n":                     "CR LF",
		good + "X: " + strings.Repeat("a", maxHead) + "\r\n\r\n":                  "too long",
		strings.Repeat("A", 2*maxHead):                                            "too long",
	} {
		h, err := peekHead(bufio.NewReaderSize(strings.NewReader(text), maxHead))
		var refused *refusal
		switch {
		case want == "" && (err != nil || h.method != "GET" || h.target != "http://a.example/"):
			t.Errorf("%.80q: %+v, %v", text, h, err)
		case want != "" && (!errors.As(err, &refused) || refused.reason != BadRequest || !strings.Contains(refused.detail, want)):
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	in := &inner{host: Host{"a.example", 8080}}
	for _, c := range []struct {
		target, host string
		in           *inner
		want         string // the URL that is asked for; else the reason
	}{
		{"http://a.example", "", nil, "http://a.example/"},
		{"HTTP://A.Example.:80/x?y=%20#", "", nil, string(BadRequest)},
		{"http://A.Example.:80/x//../y?z=%20", "evil.example", nil, "http://a.example/x//../y?z=%20"},
		{"http://a.example:8080/%2e%2e/", "", nil, "http://a.example:8080/%2e%2e/"},
		{"http://a.example?x", "", nil, "http://a.example/?x"},
		{"http://user@a.example/", "", nil, string(BadName)},
		{"http://a.example:80@evil.example/", "", nil, string(BadName)},
		{"http://a.example\\@evil.example/", "", nil, string(BadName)},
		{"http://[::1]/", "", nil, string(BadName)},
		{"http://127.0.0.1/", "", nil, string(BadName)},
		{"http:///x", "", nil, string(BadName)},
		{"http://a.example/%zz", "", nil, string(BadRequest)},
		{"https://a.example/", "", nil, string(BadRequest)},
		{"ftp://a.example/", "", nil, string(BadRequest)},
		{"/x", "a.example", nil, string(BadRequest)},
		{"*", "a.example", nil, string(BadRequest)},
		{"/x?y", "a.example:8080", in, "http://a.example:8080/x?y"},
		{"//evil.example/x", "a.example:8080", in, "http://a.example:8080//evil.example/x"},
		{"/x", "A.example.", in, "http://a.example:8080/x"},
		{"/x", "", in, string(WrongName)},
		{"/x", "evil.example", in, string(WrongName)},
		{"/x", "a.example:9090", in, string(WrongName)},
		{"/x", "a.example:8080, evil.example", in, string(WrongName)},
		{"http://a.example:8080/x", "a.example:8080", in, string(WrongName)},
		{"*", "a.example:8080", in, string(BadRequest)},
	} {
		_, u, err := target(&head{target: c.target, host: c.host}, c.in)
		got := ""
		var refused *refusal
		if errors.As(err, &refused) {
			got = string(refused.reason)
		} else if err == nil {
			got = u.String()
		}
		if got != c.want {
			t.Errorf("%q, Host %q: got %q, %v; want %q", c.target, c.host, got, err, c.want)
		}
	}
}

func FuzzConnectLine(f *testing.F) {
	for _, seed := range []string{"a.example:443", "[::1]:443", "a.example:443 HTTP/1.1\r\nX: y", "a\x00.example:443", "2130706433:443"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		h, err := peekHead(bufio.NewReaderSize(strings.NewReader("CONNECT "+target+" HTTP/1.1\r\n\r\n"), maxHead))
		if err != nil {
			return
		}
		host, err := parseAuthority(h.target, 0)
		if err != nil {
			return
		}
		if again, err := parseAuthority(host.String(), 0); err != nil || again != host {
			t.Errorf("%q is %s and %s, %v", h.target, host, again, err)
		}
		name, _, _ := strings.Cut(strings.ToLower(h.target), ":")
		if strings.TrimSuffix(name, ".") != host.Name {
			t.Errorf("%q became %q", h.target, host.Name)
		}
	})
}

// A head that we take is read by net/http as the same request, and a request that is made of it is read as that one request:
// nothing can be hidden behind it.
func FuzzHTTPFraming(f *testing.F) {
	for _, seed := range []string{
		"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"POST http://a.example/x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
		"POST http://a.example/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nConnection: close, X\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(data), maxHead)
		h, err := peekHead(r)
		if err != nil {
			return
		}
		host, u, err := target(h, nil)
		if err != nil {
			return
		}
		p := &Proxy{o: Options{Limits: Limits{}.withDefaults()}}
		req, err := p.rebuild(t.Context(), r, u, func(time.Time) error { return nil })
		if err != nil {
			return
		}
		var sent bytes.Buffer
		if err := req.Write(&sent); err != nil {
			return
		}
		out := bufio.NewReader(&sent)
		got, err := http.ReadRequest(out)
		if err != nil {
			t.Fatalf("what was sent is no request: %v\n%q", err, sent.Bytes())
		}
		if _, err := io.Copy(io.Discard, got.Body); err != nil {
			t.Fatal(err)
		}
		if rest, _ := io.ReadAll(out); len(rest) > 0 {
			t.Errorf("there is more behind the request: %q", rest)
		}
		if want, err := parseAuthority(got.Host, 80); err != nil || want != host || got.Method != h.method {
			t.Errorf("asked for %s %s, sent to %q", h.method, host, got.Host)
		}
		for _, hop := range hopByHop {
			if hop != "Transfer-Encoding" && hop != "Connection" && got.Header.Get(hop) != "" {
				t.Errorf("%s was passed on", hop)
			}
		}
	})
}
