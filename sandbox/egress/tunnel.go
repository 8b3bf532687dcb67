package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// connect serves CONNECT: dial, answer, look at what the client says first, and then carry bytes.
func (p *Proxy) connect(ctx context.Context, conn *net.TCPConn, r *bufio.Reader, h *head) {
	d := p.begin(h.method)
	host, err := parseAuthority(h.target, 0)
	if err != nil {
		d.Host = asked(h.target)
		p.refuse(conn, d, refuse(BadName, err.Error()))
		return
	}
	if err := p.admit(host, d); err != nil {
		p.refuse(conn, d, err)
		return
	}
	if h.body {
		p.refuse(conn, d, refuse(BadRequest, "a CONNECT with a body"))
		return
	}
	far, err := p.dial(ctx, host)
	if err != nil {
		p.refuse(conn, d, err)
		return
	}
	defer far.Close()
	stop := context.AfterFunc(ctx, func() { far.Close() })
	defer stop()
	d.Addr = far.RemoteAddr().String()
	_ = conn.SetDeadline(time.Now().Add(p.o.Limits.Handshake))
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		p.deny(d, refuse(Ended, "the client left"))
		return
	}
	first, err := p.peek(conn, r, host)
	switch {
	case errors.Is(err, errPlain):
		p.finish(d)
		p.plain(ctx, conn, far, first, host)
	case errors.Is(err, io.EOF): // a client that only asked whether the port is open
		p.finish(d)
	case err != nil:
		p.deny(d, err)
		if len(first) > 0 && first[0] == 22 {
			_, _ = conn.Write([]byte{21, 3, 3, 0, 2, 2, 112}) // a fatal alert of TLS: unrecognized_name
		}
		hangUp(conn)
	default:
		p.carry(conn, far, first, d)
	}
}

// errPlain says that a tunnel begins as HTTP without TLS.
var errPlain = errors.New("plain HTTP")

// peek reads what the client says first, until it is clear whom it means to talk to.
func (p *Proxy) peek(conn *net.TCPConn, r *bufio.Reader, host Host) (first []byte, err error) {
	first = make([]byte, 0, 4<<10)
	early, _ := r.Peek(r.Buffered())
	first = append(first, early...)
	for {
		if len(first) > 0 && host.Port != 443 && 'A' <= first[0] && first[0] <= 'Z' {
			return first, errPlain
		}
		name, err := serverName(first)
		switch {
		case err == nil && name != host.Name:
			return first, refuse(WrongName, fmt.Sprintf("the tunnel is for %s, the ClientHello for %s", host.Name, asked(name)))
		case !errors.Is(err, errMore):
			return first, err
		case len(first) > maxHello:
			return first, refuse(NotTLS, "the ClientHello is too long")
		}
		if cap(first) == len(first) {
			first = append(first, 0)[:len(first)]
		}
		n, err := conn.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		switch {
		case n > 0:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return first, refuse(NotTLS, "no ClientHello within "+p.o.Limits.Handshake.String())
		case err != nil && len(first) > 0:
			return first, refuse(NotTLS, "the ClientHello broke off")
		case err != nil:
			return first, io.EOF
		}
	}
}

// plain serves HTTP inside a tunnel: clients such as Node's ask for one also for http:// addresses. The connection that was
// made for the tunnel is the first one that is used.
func (p *Proxy) plain(ctx context.Context, conn, far *net.TCPConn, first []byte, host Host) {
	inside := &inner{host: host, transport: p.newTransport()}
	inside.transport.Proxy = nil
	used := make(chan struct{}, 1)
	inside.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case used <- struct{}{}:
			return far, nil
		default:
			return p.dial(ctx, host)
		}
	}
	defer inside.transport.CloseIdleConnections()
	r := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(first), conn), maxHead)
	for {
		_ = conn.SetDeadline(time.Now().Add(p.o.Limits.Handshake))
		h, err := peekHead(r)
		if err != nil {
			p.unreadable(conn, err)
			return
		}
		if !p.forward(ctx, conn, r, h, inside) {
			return
		}
	}
}

// tunnel is a pair of connections between which bytes go.
type tunnel struct {
	near, far *net.TCPConn
	began     time.Time
	carried   int64     // both ways, when it was last looked at
	moved     time.Time // when that had changed
	ended     string    // which limit ended it
}

// carry copies both ways until both sides have said everything. The connections stay what they are, so that the kernel moves the
// bytes from one to the other (splice(2)); limits are held by watch, which looks at the kernel's counters.
func (p *Proxy) carry(near, far *net.TCPConn, first []byte, d *Decision) {
	now := time.Now()
	t := &tunnel{near: near, far: far, began: now, moved: now}
	_ = near.SetDeadline(time.Time{})
	p.mu.Lock()
	p.tunnels[t] = true
	p.mu.Unlock()
	n, err := far.Write(first)
	d.Up = int64(n)
	if err == nil {
		var up sync.WaitGroup
		up.Go(func() { d.Up += pour(far, near) })
		d.Down = pour(near, far)
		up.Wait()
	}
	p.carried.Add(d.Up + d.Down)
	p.mu.Lock()
	delete(p.tunnels, t)
	ended := t.ended
	p.mu.Unlock()
	if ended != "" {
		d.Reason, d.Detail = Ended, ended
	}
	p.finish(d)
}

// pour copies one way. The end of what there is to say is passed on; after an error both sides are over.
func pour(to, from *net.TCPConn) int64 {
	n, err := to.ReadFrom(from)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil {
		to.Close()
		from.Close()
	}
	return n
}

// watch ends tunnels that have passed a limit.
func (p *Proxy) watch(ctx context.Context) {
	tick := time.NewTicker(min(time.Second, max(p.o.Limits.Idle/4, 5*time.Millisecond), max(p.o.Limits.Total/4, 5*time.Millisecond)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.look(now)
		}
	}
}

func (p *Proxy) look(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.carried.Load()
	for t := range p.tunnels {
		carried := received(t.near) + received(t.far)
		if carried > t.carried {
			t.carried, t.moved = carried, now
		}
		sum += t.carried
	}
	for t := range p.tunnels {
		switch {
		case sum > p.o.Limits.Bytes:
			t.ended = fmt.Sprintf("more than %d bytes", p.o.Limits.Bytes)
		case now.Sub(t.moved) > p.o.Limits.Idle:
			t.ended = "nothing moved for " + p.o.Limits.Idle.String()
		case now.Sub(t.began) > p.o.Limits.Total:
			t.ended = "open for " + p.o.Limits.Total.String()
		default:
			continue
		}
		t.near.Close()
		t.far.Close()
	}
}

// total is what this proxy has carried, as far as is known.
func (p *Proxy) total() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.carried.Load()
	for t := range p.tunnels {
		sum += t.carried
	}
	return sum
}
