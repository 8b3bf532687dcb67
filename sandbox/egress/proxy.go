package egress

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Options of New.
type Options struct {
	Run    string // whose proxy this is: it stands in each decision
	Rules  Rules
	Limits Limits
	Record func(Decision) // called from several goroutines; nil: nobody is told
	// AllowAddresses are networks that may be reached although they are private, or this machine's: a company's mirror. It is
	// for whoever runs the machine to say, and never for a policy that comes with a repository.
	AllowAddresses []netip.Prefix
	// Upstream is an HTTP proxy (http://[user:password@]host:port) through which everything goes, where the machine has no other
	// way out. Names are matched here and resolved there: which addresses may be reached is then that proxy's to guard.
	Upstream *url.URL
	Resolve  Resolver         // nil: the system's
	Now      func() time.Time // nil: time.Now
}

// Proxy serves one command.
type Proxy struct {
	o         Options
	guard     *guard
	transport *http.Transport
	clients   atomic.Int64
	carried   atomic.Int64 // bytes of tunnels that are over, and of plain HTTP

	mu      sync.Mutex
	tunnels map[*tunnel]bool
	denied  []Blocked
}

// Blocked is a host that was refused.
type Blocked struct {
	Host   string // name:port, or what was asked for, quoted, if it is no name
	Reason Reason
	Detail string
	Line   string // what to add to the policy's network list; empty where that would not help
	Times  int
}

// mostDenied is how many different hosts are remembered.
const mostDenied = 100

// New makes a proxy. It holds nothing until it serves.
func New(o Options) (*Proxy, error) {
	g, err := newGuard(o.AllowAddresses)
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine: %w", err)
	}
	if o.Upstream != nil && (o.Upstream.Scheme != "http" || o.Upstream.Host == "") {
		return nil, errors.New("upstream proxy: only http://host:port is supported")
	}
	o.Limits = o.Limits.withDefaults()
	if o.Record == nil {
		o.Record = func(Decision) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".") // the dot: no search list
		}
	}
	p := &Proxy{o: o, guard: g, tunnels: map[*tunnel]bool{}}
	p.transport = p.newTransport()
	return p, nil
}

// Serve serves the clients of a listener until it is closed, and returns when everything that they began has ended.
func (p *Proxy) Serve(l net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { p.watch(ctx) })
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil { // no descriptors left, most likely: those of others come free
			pause := time.NewTimer(50 * time.Millisecond)
			<-pause.C
			continue
		}
		// Each connection is a descriptor of this process, which has other work to do for the run. Somewhat more than the limit are
		// told so; what comes beyond that is not worth one.
		n := p.clients.Add(1)
		if n > int64(p.o.Limits.Connections)+64 {
			p.clients.Add(-1)
			conn.Close()
			continue
		}
		all.Go(func() {
			defer p.clients.Add(-1)
			p.client(ctx, conn, n > int64(p.o.Limits.Connections))
		})
	}
	cancel()
	all.Wait()
	p.transport.CloseIdleConnections()
}

// Denied lists what was refused, in the order in which it was first asked for.
func (p *Proxy) Denied() []Blocked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.denied)
}

// client serves one connection of the sandbox, or says that it is one too many.
func (p *Proxy) client(ctx context.Context, c net.Conn, tooMany bool) {
	defer c.Close()
	conn, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if tooMany {
		p.refuse(conn, p.begin(""), refuse(TooMany, fmt.Sprintf("there are %d connections already", p.o.Limits.Connections)))
		return
	}
	r := bufio.NewReaderSize(conn, maxHead)
	for {
		_ = conn.SetDeadline(time.Now().Add(p.o.Limits.Handshake))
		h, err := peekHead(r)
		if err != nil {
			p.unreadable(conn, err)
			return
		}
		if h.method == http.MethodConnect {
			_, _ = r.Discard(h.length)
			p.connect(ctx, conn, r, h)
			return
		}
		if !p.forward(ctx, conn, r, h, nil) {
			return
		}
	}
}

// unreadable answers to what is no request. A client that leaves, or says nothing, is not told on.
func (p *Proxy) unreadable(conn *net.TCPConn, err error) {
	var refused *refusal
	if errors.As(err, &refused) {
		p.refuse(conn, p.begin(""), err)
	}
}

// admit says whether a host may be asked at all.
func (p *Proxy) admit(h Host, d *Decision) error {
	d.Host, d.Port = h.Name, h.Port
	line, otherPort, ok := p.o.Rules.Match(h)
	switch {
	case otherPort:
		return refuse(NotListed, fmt.Sprintf("%s is on the list of this run, but not its port %d", h.Name, h.Port))
	case !ok:
		return refuse(NotListed, fmt.Sprintf("%s is not on the list of hosts that this run may reach", h))
	case p.total() > p.o.Limits.Bytes:
		return refuse(TooMuch, fmt.Sprintf("this run has used its %d bytes", p.o.Limits.Bytes))
	}
	d.Allowed, d.Rule = true, line
	return nil
}

func (p *Proxy) begin(method string) *Decision {
	return &Decision{Run: p.o.Run, Time: p.o.Now().UTC(), Method: method}
}

// finish records a decision. It is called once for each.
func (p *Proxy) finish(d *Decision) {
	d.Duration = p.o.Now().Sub(d.Time)
	p.o.Record(*d)
}

// deny records a refusal, or a failure of something that was allowed.
func (p *Proxy) deny(d *Decision, err error) *refusal {
	refused := &refusal{Unreachable, "the proxy could not"}
	if !errors.As(err, &refused) {
		refused.detail = err.Error()
	}
	d.Reason, d.Detail = refused.reason, refused.detail
	if refused.reason != Unreachable && refused.reason != Ended {
		d.Allowed = false
		p.remember(d)
	}
	p.finish(d)
	return refused
}

func (p *Proxy) remember(d *Decision) {
	b := Blocked{Host: d.Host, Reason: d.Reason, Detail: d.Detail, Times: 1}
	if d.Port != 0 {
		h := Host{d.Host, d.Port}
		b.Host = h.String()
		if d.Reason == NotListed {
			b.Line = Line(h)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.denied, func(o Blocked) bool { return o.Host == b.Host && o.Reason == b.Reason })
	if i >= 0 {
		p.denied[i].Times++
	} else if len(p.denied) < mostDenied {
		p.denied = append(p.denied, b)
	}
}

// refuse records a refusal and answers with a text that says what to do.
func (p *Proxy) refuse(conn *net.TCPConn, d *Decision, err error) {
	refused := p.deny(d, err)
	status := http.StatusForbidden
	switch refused.reason {
	case BadRequest:
		status = http.StatusBadRequest
	case TooMany:
		status = http.StatusServiceUnavailable
	case Unreachable:
		status = http.StatusBadGateway
	}
	what := cmp.Or(d.Host, "this request")
	if d.Port != 0 {
		what = Host{d.Host, d.Port}.String()
	}
	body := fmt.Sprintf("sandpiper: %s: %s: %s\n", what, refused.reason, refused.detail)
	if refused.reason == NotListed {
		body += fmt.Sprintf("\nTo open it, add this to .github/sandpiper.yml on the default branch, beside what is in the list already:\n\n"+
			"network: [%q]\n", Line(Host{d.Host, d.Port}))
	}
	verdict := "Blocked by sandpiper"
	if refused.reason == Unreachable {
		verdict = "Not reached"
	}
	// Clients show at most the first line when a tunnel is refused, so it says everything in short.
	answer := fmt.Sprintf("HTTP/1.1 %d %s: %s: %s\r\nX-Proxy-Error: %[4]s; %[3]s\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		"Content-Length: %[5]d\r\nConnection: close\r\n\r\n", status, verdict, what, refused.reason, len(body))
	if d.Method == http.MethodHead {
		body = ""
	}
	_, _ = io.WriteString(conn, answer+body)
	hangUp(conn)
}

// hangUp lets the other side read what was written: to close with something unread makes the kernel reset the connection.
func hangUp(conn *net.TCPConn) {
	_ = conn.CloseWrite()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.CopyN(io.Discard, conn, 256<<10)
}

// asked is a target as it can be shown and logged, whatever it is.
func asked(target string) string {
	quoted := strconv.QuoteToASCII(target)
	return quoted[:min(len(quoted), 256)]
}
