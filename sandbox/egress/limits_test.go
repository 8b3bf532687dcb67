package egress

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A client that says one byte at a time, and never the end, is let go.
func TestSlowLoris(t *testing.T) {
	t.Parallel()
	port := plainServer(t, echo)
	s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback, Limits: Limits{Handshake: 300 * time.Millisecond}})
	head := s.dial()
	defer head.Close()
	inside, refused := s.tunnel("good.example:" + port)
	if inside == nil {
		t.Fatal(refused)
	}
	defer inside.Close()
	for what, c := range map[string]*net.TCPConn{"head": head, "ClientHello": inside} {
		text := "GET http://good.example/ HTTP/1.1\r\nX: " + strings.Repeat("x", 1000)
		if what == "ClientHello" {
			text = string(records(append([]byte{1, 0, 0x70, 0}, make([]byte, 1000)...), 1))
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		sent := 0
		for ; sent < len(text); sent++ {
			if _, err := c.Write([]byte{text[sent]}); err != nil {
				break
			}
			<-tick.C
		}
		if sent == len(text) {
			t.Errorf("%s: all %d bytes were waited for", what, sent)
		}
	}
}

// pair opens a tunnel to a server that talks as it is told to.
func (s *stage) pair(port string) *net.TCPConn {
	s.tb.Helper()
	c, refused := s.tunnel("good.example:" + port)
	if c == nil {
		s.tb.Fatal(refused)
	}
	if _, err := c.Write(records(hello(sni("good.example")), 1<<14)); err != nil {
		s.tb.Fatal(err)
	}
	return c
}

// talker is a server that says something to everybody for ever, or nothing.
func talker(t *testing.T, every time.Duration, what []byte) (port string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				tick := time.NewTicker(every)
				defer tick.Stop()
				for {
					select {
					case <-over:
						return
					case <-tick.C:
						if _, err := c.Write(what); err != nil {
							return
						}
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); close(over); all.Wait() })
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

func TestTunnelLimits(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		limits Limits
		every  time.Duration
		say    []byte
		want   string
	}{
		"idle":  {Limits{Idle: 100 * time.Millisecond}, time.Hour, nil, "nothing moved"},
		"total": {Limits{Total: 200 * time.Millisecond}, 10 * time.Millisecond, []byte("x"), "open for"},
		"bytes": {Limits{Bytes: 1 << 20, Idle: 10 * time.Second}, time.Millisecond, make([]byte, 64<<10), "more than 1048576 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			port := talker(t, c.every, c.say)
			s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback, Limits: c.limits})
			tunnel := s.pair(port)
			defer tunnel.Close()
			_, _ = io.Copy(io.Discard, tunnel)
			if d := s.last(); !d.Allowed || d.Reason != Ended || !strings.Contains(d.Detail, c.want) {
				t.Errorf("%+v", d)
			}
			if what == "bytes" {
				if got, refused := s.tunnel("good.example:" + port); got != nil || !strings.Contains(refused, string(TooMuch)) {
					t.Errorf("another tunnel after that: %q", refused)
				}
			}
		})
	}
}

// Plain HTTP counts as tunnels do.
func TestBytesOfPlainHTTP(t *testing.T) {
	t.Parallel()
	port := plainServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, 64<<10)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback, Limits: Limits{Bytes: 1 << 20}})
	if got := s.say("GET http://good.example:" + port + "/ HTTP/1.1\r\n\r\n"); len(got) < 1<<19 || len(got) > 2<<20 {
		t.Errorf("%d bytes came", len(got))
	}
	if d := s.last(); d.Reason != Ended || d.Down < 1<<20 {
		t.Errorf("decision: %+v", d)
	}
	if got := s.say("GET http://good.example:" + port + "/ HTTP/1.1\r\n\r\n"); !strings.Contains(got, string(TooMuch)) {
		t.Errorf("another request: %.200q", got)
	}
}

// Headers count too: by them alone any amount could go, a request after the other.
func TestBytesOfHeaders(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 30<<10)
	port := plainServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", r.URL.Query().Get("say")) }))
	for what, c := range map[string]string{"of requests": "/ HTTP/1.1\r\nX: " + large, "of answers": "/?say=" + large[:15<<10] + " HTTP/1.1"} {
		s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback, Limits: Limits{Bytes: 1 << 20}})
		request := "GET http://good.example:" + port + c + "\r\n\r\n"
		n := 0
		for ; n < 50 && strings.HasPrefix(s.say(request), "HTTP/1.1 200"); n++ {
			if d := s.last(); d.Up+d.Down < 30<<10 || d.Up+d.Down > 31<<10 {
				t.Fatalf("%s: %+v", what, d)
			}
		}
		if got := s.say(request); n < 30 || n > 36 || !strings.Contains(got, string(TooMuch)) {
			t.Errorf("%s: %d requests, then %.200q", what, n, got)
		}
	}
}

// A tunnel in which one side has said everything stays for the other.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, c) // to the end
		fmt.Fprintf(c, "heard %d", n)
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback})
	c := s.pair(port)
	defer c.Close()
	_, _ = c.Write(make([]byte, 1000))
	_ = c.CloseWrite()
	answer, err := io.ReadAll(c)
	want := len(records(hello(sni("good.example")), 1<<14)) + 1000
	if string(answer) != fmt.Sprintf("heard %d", want) || err != nil {
		t.Errorf("got %q, %v", answer, err)
	}
	if d := s.last(); d.Up != int64(want) || d.Down != int64(len(answer)) || d.Reason != "" {
		t.Errorf("decision: %+v", d)
	}
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	port := talker(t, time.Hour, nil)
	s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback, Limits: Limits{Connections: 4}})
	var open []*net.TCPConn
	for range 4 {
		open = append(open, s.pair(port))
	}
	if c, refused := s.tunnel("good.example:" + port); c != nil || !strings.HasPrefix(refused, "503") {
		t.Errorf("a fifth: %q", refused)
	}
	_ = open[0].SetLinger(0) // not only half closed
	open[0].Close()
	eventually(t, "a place for another", func() bool {
		c, _ := s.tunnel("good.example:" + port)
		if c != nil {
			c.Close()
		}
		return c != nil
	})
	for _, c := range open {
		c.Close()
	}
}

// However many connections are made, the descriptors of this process stay bounded: it has a disk to watch with them.
func TestFlood(t *testing.T) {
	before := descriptors(t)
	t.Run("clients", func(t *testing.T) {
		var all sync.WaitGroup
		t.Cleanup(all.Wait) // after the proxy has ended
		s := start(t, nil, Options{Limits: Limits{Connections: 8}})
		most := 0
		for range 400 {
			c := s.dial()
			all.Go(func() { defer c.Close(); _, _ = io.Copy(io.Discard, c) })
			most = max(most, int(s.proxy.clients.Load()))
		}
		if most > 8+64+1 {
			t.Errorf("%d clients at once", most)
		}
		// Those that were not closed wait for a request that never comes.
		eventually(t, "only as many as there may be", func() bool { return s.proxy.clients.Load() <= 8 })
	})
	eventually(t, "all descriptors closed", func() bool { return descriptors(t) <= before })
}

// TestManyClients: 64 at once, some of whom are refused, some leave in the middle; afterwards nothing is left of any.
func TestManyClients(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	t.Run("clients", func(t *testing.T) {
		s := start(t, nil, Options{AllowAddresses: loopback})
		port := s.secure(echo, "good.example")
		plain := plainServer(t, echo)
		var err error
		if s.proxy.o.Rules, err = Parse([]string{"good.example:" + port, "good.example:" + plain}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				c := s.client()
				for _, u := range []string{"https://good.example:" + port, "http://good.example:" + plain, "https://evil.example", "http://evil.example"} {
					res, err := c.Post(u, "", strings.NewReader(fmt.Sprint(i)))
					if strings.Contains(u, "evil") {
						if err == nil && res.StatusCode != http.StatusForbidden {
							t.Errorf("%s: %s", u, res.Status)
						}
					} else if err != nil || res.StatusCode != http.StatusOK {
						t.Errorf("%s: %v", u, err)
					}
					if err == nil {
						_, _ = io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
				}
				c.CloseIdleConnections()
				left, _ := s.tunnel("good.example:" + port)
				if left != nil && i%2 == 0 {
					_, _ = left.Write([]byte{22, 3, 1})
				}
				if left != nil {
					_ = left.SetLinger(0)
					left.Close()
				}
			})
		}
		all.Wait()
		eventually(t, "a decision for each", func() bool { return s.count() == 64*5 })
		if got := s.proxy.Denied(); len(got) < 2 || got[0].Times+got[1].Times < 128 {
			t.Errorf("denied: %+v", got)
		}
		// One that still lives when the proxy is to end.
		s.pair(port)
	})
	eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "all descriptors closed", func() bool { return descriptors(t) <= files })
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// Addr is where the environment says it is.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	rules, err := Parse([]string{"go", "maven"})
	if err != nil {
		t.Fatal(err)
	}
	env := rules.Environment()
	for _, want := range []string{"http_proxy=http://127.0.0.1:3128", "HTTPS_PROXY=http://127.0.0.1:3128", "no_proxy=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1"} {
		if !strings.Contains(strings.Join(env, "\n")+"\n", want+"\n") {
			t.Errorf("no %s in %q", want, env)
		}
	}
	if !strings.Contains(strings.Join(env, "\n"), "JAVA_TOOL_OPTIONS=") {
		t.Error("nothing for Java")
	}
	rules, _ = Parse([]string{"go"})
	if strings.Contains(strings.Join(rules.Environment(), "\n"), "JAVA") {
		t.Error("Java is told where it is not asked for")
	}
}
