package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// inner is a tunnel in which plain HTTP is spoken.
type inner struct {
	host      Host
	transport *http.Transport
}

func (p *Proxy) newTransport() *http.Transport {
	t := &http.Transport{
		DisableCompression:     true, // what is asked for is what is given
		MaxResponseHeaderBytes: 256 << 10,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		ResponseHeaderTimeout:  p.o.Limits.Idle,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			h, err := parseAuthority(address, 0) // as forward has built it
			if err != nil {
				return nil, err
			}
			return p.dial(ctx, h)
		},
	}
	if p.o.Upstream != nil {
		var d net.Dialer
		t.Proxy, t.DialContext = http.ProxyURL(p.o.Upstream), d.DialContext // to the upstream proxy only
	}
	return t
}

// forward serves one plain HTTP request and says whether the connection can be used for another.
func (p *Proxy) forward(ctx context.Context, conn *net.TCPConn, r *bufio.Reader, h *head, in *inner) (more bool) {
	d := p.begin(h.method)
	host, uri, err := target(h, in)
	if err == nil {
		err = p.admit(host, d)
	} else {
		d.Host = asked(h.target)
	}
	if err == nil && (h.method == http.MethodTrace || h.method == http.MethodConnect) {
		err = refuse(BadRequest, h.method+" is not served here")
	}
	if err != nil {
		p.refuse(conn, d, err)
		return false
	}
	p.carried.Add(int64(h.length)) // much can be said in headers
	ctx, cancel := context.WithTimeout(ctx, p.o.Limits.Total)
	defer cancel()
	req, err := p.rebuild(ctx, r, uri, conn.SetReadDeadline)
	if err != nil {
		p.refuse(conn, d, refuse(BadRequest, err.Error()))
		return false
	}
	if h.expects {
		_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	transport := p.transport
	if in != nil {
		transport = in.transport
	}
	_ = conn.SetDeadline(time.Now().Add(p.o.Limits.Idle))
	res, err := transport.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body.Close()
		err = refuse(Unreachable, "the host wants to speak another protocol, which was not asked for")
	}
	sent, _ := req.Body.(*counted)
	d.Up = int64(h.length) + sent.total()
	if err != nil {
		p.refuse(conn, d, unwrapRefusal(err))
		return false
	}
	defer res.Body.Close()
	// An answer may come before the whole request was read; what is left of it is then in the way of the next one.
	more = !req.Close && h.proto == "HTTP/1.1" && (sent == nil || sent.over.Load())
	return p.answer(conn, req, res, d, more) && more
}

// target finds out whom a request is for. Outside of a tunnel the whole address is in the request line, and the Host header does
// not count; inside, it has to be the host of the tunnel.
func target(h *head, in *inner) (Host, *url.URL, error) {
	var host Host
	path := h.target
	if in != nil {
		named, err := parseAuthority(h.host, in.host.Port)
		if err != nil || named != in.host && named != (Host{in.host.Name, 80}) {
			return Host{}, nil, refuse(WrongName, fmt.Sprintf("the tunnel is for %s, the Host header says %s", in.host, asked(h.host)))
		}
		host = in.host
		if whole, ok := cutScheme(path); ok {
			return Host{}, nil, refuse(WrongName, "inside a tunnel the request line has no host: "+asked(whole))
		}
	} else {
		rest, ok := cutScheme(path)
		if !ok {
			return Host{}, nil, refuse(BadRequest, "this is a proxy: it takes CONNECT, and http:// addresses")
		}
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		var err error
		if host, err = parseAuthority(rest[:end], 80); err != nil {
			return Host{}, nil, refuse(BadName, err.Error())
		}
		if path = rest[end:]; !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
	}
	u, err := url.ParseRequestURI(path)
	if err != nil || !strings.HasPrefix(path, "/") || strings.Contains(path, "#") {
		return Host{}, nil, refuse(BadRequest, "the path of the request is malformed")
	}
	u.Scheme, u.Host = "http", host.Name
	if host.Port != 80 {
		u.Host = host.String()
	}
	return host, u, nil
}

func cutScheme(target string) (rest string, ok bool) {
	const scheme = "http://"
	if len(target) < len(scheme) || !strings.EqualFold(target[:len(scheme)], scheme) {
		return "", false
	}
	return target[len(scheme):], true
}

// hopByHop are headers that are between two ends of one connection (RFC 9110, 7.6.1), and those that are between the client and
// this proxy.
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Expect", "Http2-Settings"}

func stripHops(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// rebuild reads a request whose head was looked at and makes a new one of it: what goes out is what was understood.
func (p *Proxy) rebuild(ctx context.Context, r *bufio.Reader, u *url.URL, until func(time.Time) error) (*http.Request, error) {
	in, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	out := (&http.Request{
		Method: in.Method, URL: u, Host: u.Host, Header: in.Header, ContentLength: in.ContentLength, Close: in.Close,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if in.ContentLength != 0 {
		out.Body = p.counted(in.Body, until)
	}
	stripHops(out.Header)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // none, instead of Go's
	}
	return out, nil
}

// answer passes a response on.
func (p *Proxy) answer(conn *net.TCPConn, req *http.Request, res *http.Response, d *Decision, more bool) (ok bool) {
	stripHops(res.Header)
	body := p.counted(res.Body, conn.SetWriteDeadline)
	res.Body, res.Request, res.Close, res.TransferEncoding = body, req, !more, nil
	res.Proto, res.ProtoMajor, res.ProtoMinor = "HTTP/1.1", 1, 1
	if res.ContentLength < 0 && more {
		res.TransferEncoding = []string{"chunked"}
	}
	head := headSize(res.Header)
	p.carried.Add(head)
	w := bufio.NewWriterSize(conn, 32<<10)
	err := res.Write(w)
	if err == nil {
		err = w.Flush()
	}
	if d.Down = head + body.total(); err != nil {
		d.Reason, d.Detail = Ended, reasonOf(err)
	}
	p.finish(d)
	return err == nil
}

// headSize is about what headers take.
func headSize(h http.Header) (n int64) {
	for name, values := range h {
		for _, v := range values {
			n += int64(len(name) + len(v) + len(": \r\n"))
		}
	}
	return n
}

// unwrapRefusal finds our own error in one of the transport.
func unwrapRefusal(err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused
	}
	return refuse(Unreachable, reasonOf(err))
}

// counted counts a body, ends it when the run has used its bytes, and gives the client's side of it another while with each step.
type counted struct {
	io.ReadCloser
	p     *Proxy
	until func(time.Time) error
	n     atomic.Int64 // the transport may still read a request when its answer is there
	over  atomic.Bool
}

func (p *Proxy) counted(body io.ReadCloser, until func(time.Time) error) *counted {
	return &counted{ReadCloser: body, p: p, until: until}
}

func (c *counted) Read(b []byte) (int, error) {
	if c.p.carried.Load() > c.p.o.Limits.Bytes {
		return 0, refuse(Ended, fmt.Sprintf("more than %d bytes", c.p.o.Limits.Bytes))
	}
	_ = c.until(time.Now().Add(c.p.o.Limits.Idle))
	n, err := c.ReadCloser.Read(b)
	c.n.Add(int64(n))
	c.p.carried.Add(int64(n))
	if err != nil {
		c.over.Store(errors.Is(err, io.EOF))
	}
	return n, err
}

func (c *counted) total() int64 {
	if c == nil {
		return 0
	}
	return c.n.Load()
}
