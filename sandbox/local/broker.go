package local

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
)

// openDesk makes the broker's session for a command; nil when nothing was granted to it.
func (p Place) openDesk(w sandbox.Workspace, c sandbox.Command) (*broker.Session, error) {
	if c.Broker == nil {
		return nil, nil
	}
	if p.Broker == nil {
		return nil, &sandbox.ErrUnavailable{Backend: p.Backend, Reason: "no broker is set up"}
	}
	return p.Broker.Open(w, *c.Broker)
}

func closeDesk(desk *broker.Session) (*sandbox.Spent, []sandbox.Finding) {
	if desk == nil {
		return nil, nil
	}
	spent, refused := desk.Close()
	return &spent, refused
}

// listen is what serves a command's one address: the broker, the proxy, both, or nobody.
func listen(desk *broker.Session, out *way) func(net.Listener) {
	switch {
	case desk == nil && out == nil:
		return nil
	case out == nil:
		return desk.Serve
	case desk == nil:
		return out.proxy.Serve
	}
	return func(l net.Listener) { split(l, desk.Serve, out.proxy.Serve) }
}

// split gives connections whose first request is for a path to one server, and all others to another. It returns when the
// listener is closed and both have ended.
func split(l net.Listener, paths, others func(net.Listener)) {
	a, b := newPart(l), newPart(l)
	places := make(chan struct{}, mostLooks)
	var servers, looks sync.WaitGroup
	servers.Go(func() { paths(a) })
	servers.Go(func() { others(b) })
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil { // no descriptors left, most likely: those of others come free
			pause := time.NewTimer(50 * time.Millisecond)
			<-pause.C
			continue
		}
		places <- struct{}{} // comes free when the client says something, or is dead
		looks.Go(func() {
			defer func() { <-places }()
			to := b
			if forPath(c, a.closed) {
				to = a
			}
			to.give(c)
		})
	}
	a.Close()
	b.Close()
	looks.Wait()
	servers.Wait()
}

// firstLook is how long a client may take to say what it wants. No more than mostLooks of them are waited for at once: each is a
// descriptor of this process, which needs some to watch the disk.
const (
	firstLook = 15 * time.Second
	mostLooks = 256
)

// forPath looks at the beginning of a request and leaves it where it is: the servers get the connection as it came, and the proxy
// can hand it to the kernel.
func forPath(c net.Conn, closed <-chan struct{}) bool {
	conn, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	_ = conn.SetReadDeadline(time.Now().Add(firstLook))
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-closed:
			_ = conn.SetReadDeadline(time.Unix(1, 0))
		case <-done:
		}
	}()
	path, buf := false, make([]byte, 24) // a method is shorter
	_ = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_PEEK)
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		_, target, said := bytes.Cut(buf[:max(n, 0)], []byte(" "))
		path = len(target) > 0 && target[0] == '/'
		// Woken again when more has come.
		return err != nil || n <= 0 || said && len(target) > 0 || n == len(buf)
	})
	_ = conn.SetReadDeadline(time.Time{})
	return path
}

// part is a listener for some of the connections of another one.
type part struct {
	net.Listener
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func newPart(l net.Listener) *part {
	return &part{Listener: l, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *part) give(c net.Conn) {
	select {
	case p.conns <- c:
	case <-p.closed:
		_ = c.Close()
	}
}

func (p *part) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *part) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}
