package egress

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// dial connects to a host that is on the list: it resolves the name once, and dials the addresses that it has checked.
func (p *Proxy) dial(ctx context.Context, h Host) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Limits.Dial)
	defer cancel()
	if p.o.Upstream != nil {
		return p.dialUpstream(ctx, h)
	}
	addrs, err := p.o.Resolve(ctx, h.Name)
	if err != nil || len(addrs) == 0 {
		return nil, refuse(Unreachable, "the name does not resolve: "+reasonOf(err))
	}
	for _, a := range addrs {
		// One bad address condemns the name: a public one beside it is how rebinding is hidden.
		if why := p.guard.refuses(a); why != "" {
			return nil, refuse(BadAddress, fmt.Sprintf("%s resolves to %s: %s", h.Name, a, why))
		}
	}
	deadline, _ := ctx.Deadline()
	for i, a := range addrs {
		share := time.Until(deadline) / time.Duration(len(addrs)-i)
		conn, dialErr := p.dialAddr(ctx, netip.AddrPortFrom(a.Unmap(), h.Port), share)
		if dialErr == nil {
			return conn, nil
		}
		err = dialErr
	}
	return nil, refuse(Unreachable, reasonOf(err))
}

func reasonOf(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case err == nil:
		return "no address"
	case errors.As(err, &dns):
		return dns.Err
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}

func (p *Proxy) dialAddr(ctx context.Context, a netip.AddrPort, share time.Duration) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: share, Control: func(_, address string, _ syscall.RawConn) error {
		// The last word before connect(2), about the address that it will be given.
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if why := p.guard.refuses(to.Addr()); why != "" {
			return refuse(BadAddress, address+": "+why)
		}
		return nil
	}}
	conn, err := d.DialContext(ctx, "tcp", a.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// dialUpstream asks another proxy for a tunnel.
func (p *Proxy) dialUpstream(ctx context.Context, h Host) (*net.TCPConn, error) {
	at := p.o.Upstream.Host
	if p.o.Upstream.Port() == "" {
		at = net.JoinHostPort(p.o.Upstream.Hostname(), "80")
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, refuse(Unreachable, "the upstream proxy: "+reasonOf(err))
	}
	conn := c.(*net.TCPConn)
	if err := p.askUpstream(ctx, conn, h); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (p *Proxy) askUpstream(ctx context.Context, conn *net.TCPConn, h Host) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request := "CONNECT " + h.String() + " HTTP/1.1\r\nHost: " + h.String() + "\r\n"
	if user := p.o.Upstream.User; user != nil {
		request += "Proxy-Authorization: " + basic(user) + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		return refuse(Unreachable, "the upstream proxy: "+reasonOf(err))
	}
	// Whatever is inside a tunnel begins with the client, so nothing can follow the answer yet.
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return refuse(Unreachable, "the upstream proxy: "+reasonOf(err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || r.Buffered() > 0 {
		return refuse(Unreachable, "the upstream proxy answered "+asked(res.Status))
	}
	if !stop() {
		return refuse(Unreachable, "the upstream proxy: "+context.Cause(ctx).Error())
	}
	return nil
}

func basic(user *url.Userinfo) string {
	password, _ := user.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
}
