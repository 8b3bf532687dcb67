package broker

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConns is how many connections of one command are open at once. The process that serves has few descriptors to spare, and needs
// them to end what it supervises.
const maxConns = 128

// Serve answers on a listener until it is closed, and returns when the calls have ended: whoever asked is dead by then.
func (s *Session) Serve(l net.Listener) {
	server := &http.Server{
		Handler: s, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	_ = server.Serve(&limited{Listener: l, free: make(chan struct{}, maxConns), closed: make(chan struct{})})
	s.stop()
	_ = server.Close()
	s.calls.Wait()
}

// limited accepts no more than a number of connections at once.
type limited struct {
	net.Listener
	free   chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &counted{Conn: c, release: sync.OnceFunc(func() { <-l.free })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type counted struct {
	net.Conn
	release func()
}

func (c *counted) Close() error {
	c.release()
	return c.Conn.Close()
}
