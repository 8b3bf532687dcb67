package local

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// echo answers each connection with its name and the first line that came.
func echo(name string) func(net.Listener) {
	return func(l net.Listener) {
		var all sync.WaitGroup
		defer all.Wait()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				line, _ := bufio.NewReader(c).ReadString('\n')
				fmt.Fprintf(c, "%s %q", name, line)
			})
		}
	}
}

func splitting(t *testing.T) (addr string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); split(l, echo("broker"), echo("proxy")) }()
	stop = sync.OnceFunc(func() { l.Close(); <-done })
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// A request for a path is the broker's; whatever else comes is the proxy's, which knows what to refuse. Nothing of it is lost.
func TestOneAddressForBrokerAndProxy(t *testing.T) {
	t.Parallel()
	addr, _ := splitting(t)
	for _, c := range []struct{ want, line string }{
		{"broker", "GET /model/openai/v1/models HTTP/1.1\n"},
		{"broker", "POST /graphql HTTP/1.1\n"},
		{"broker", "BASELINE-CONTROL / HTTP/1.1\n"},
		{"proxy", "GET http://example.com/ HTTP/1.1\n"},
		{"proxy", "CONNECT example.com:443 HTTP/1.1\n"},
		{"proxy", "OPTIONS * HTTP/1.1\n"},
		{"proxy", "GET  / HTTP/1.1\n"},
		{"proxy", "A-METHOD-OF-MORE-THAN-TWENTY-FOUR-BYTES / HTTP/1.1\n"},
		{"proxy", "\x16\x03\x01 no HTTP at all, but long enough\n"},
	} {
		for _, piece := range []int{1, 3, 1000} {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			for rest := c.line; rest != ""; {
				n := min(piece, len(rest))
				if _, err := io.WriteString(conn, rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
				runtime.Gosched()
			}
			got, err := io.ReadAll(conn)
			conn.Close()
			if want := fmt.Sprintf("%s %q", c.want, c.line); err != nil || string(got) != want {
				t.Errorf("%q in pieces of %d: %s, %v", c.line, piece, got, err)
			}
		}
	}
}

// Clients that say nothing do not keep the others waiting, and are gone at the end.
func TestSilentClients(t *testing.T) {
	t.Parallel()
	addr, stop := splitting(t)
	var silent []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET / HTTP/1.1\n")
	if got, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(got), "broker") {
		t.Errorf("%s %v", got, err)
	}
	stop()
	for _, c := range silent {
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a silent client is still there: %v", err)
		}
		c.Close()
	}
}
