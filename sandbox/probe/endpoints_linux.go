package probe

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// endpoints are what a sandbox must not reach: on the loopback of the host, on an address of it, and unix sockets with a path and
// with an abstract name. They grant nothing and answer nothing; they remember what was sent.
type endpoints struct {
	list      []endpoint
	listeners []net.Listener

	mu       sync.Mutex
	received []string // by call: the endpoint, a space, what was sent
	serving  sync.WaitGroup
}

func listenAll(dir, nonce string) (*endpoints, error) {
	e := new(endpoints)
	places := []endpoint{{"tcp", "127.0.0.1:0"}, {"unix", filepath.Join(dir, "socket")}, {"unix", "@sandpiper-probe-" + nonce}}
	if address := hostAddress(); address != "" {
		places = append(places, endpoint{"tcp", net.JoinHostPort(address, "0")})
	}
	for i, place := range places {
		l, err := net.Listen(place.Network, place.Address)
		if err != nil && i > 0 {
			continue // not every machine has every kind; the control says which ones work
		}
		if err != nil {
			e.close()
			return nil, fmt.Errorf("test endpoint: %w", err)
		}
		if place.Network == "unix" && !strings.HasPrefix(place.Address, "@") {
			_ = os.Chmod(place.Address, 0o666)
		}
		if place.Network == "tcp" {
			place.Address = l.Addr().String()
		}
		e.list = append(e.list, place)
		e.listeners = append(e.listeners, l)
		e.serving.Go(func() { e.serve(l, place) })
	}
	return e, nil
}

// hostAddress is an address of the host that is not loopback; empty when there is none.
func hostAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

func (e *endpoints) serve(l net.Listener, at endpoint) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		e.serving.Go(func() { e.read(c, at) })
	}
}

func (e *endpoints) read(c net.Conn, at endpoint) {
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	buf := make([]byte, 4<<10)
	n := 0
	for n < len(buf) {
		more, err := c.Read(buf[n:])
		n += more
		if err != nil {
			break
		}
	}
	_ = c.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.received = append(e.received, at.Network+" "+at.Address+" "+string(buf[:n]))
}

// close waits for what was sent, and lets go of everything.
func (e *endpoints) close() {
	for _, l := range e.listeners {
		_ = l.Close()
	}
	e.serving.Wait()
}

// heard gives the endpoints that a text was sent to. Call it after close.
func (e *endpoints) heard(text string) (at []string) {
	for _, r := range e.received {
		if strings.Contains(r, text) {
			fields := strings.Fields(r)
			at = append(at, fields[0]+" "+fields[1])
		}
	}
	return at
}
