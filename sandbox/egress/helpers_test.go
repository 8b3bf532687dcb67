package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// stage is a proxy and the servers behind it.
type stage struct {
	tb    testing.TB
	proxy *Proxy
	addr  string
	pool  *x509.CertPool

	mu        sync.Mutex
	decisions []Decision
	asked     []string // names that were resolved
}

// start serves a proxy until the test is over. Where the options have no resolver, every name is this machine.
func start(tb testing.TB, lines []string, o Options) *stage {
	tb.Helper()
	s := &stage{tb: tb, pool: x509.NewCertPool()}
	var err error
	if o.Rules, err = Parse(lines); err != nil {
		tb.Fatal(err)
	}
	o.Run = "r-test-1"
	o.Record = func(d Decision) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.decisions = append(s.decisions, d)
	}
	resolve := o.Resolve
	if resolve == nil {
		resolve = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
	}
	o.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
		s.mu.Lock()
		s.asked = append(s.asked, name)
		s.mu.Unlock()
		return resolve(ctx, name)
	}
	if s.proxy, err = New(o); err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.addr = l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() { s.proxy.Serve(l) })
	tb.Cleanup(func() { l.Close(); serving.Wait() })
	return s
}

// last is the newest decision. It waits for one: a tunnel is recorded when it is over.
func (s *stage) last() Decision {
	s.tb.Helper()
	var d Decision
	eventually(s.tb, "a decision", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.decisions) == 0 {
			return false
		}
		d = s.decisions[len(s.decisions)-1]
		return true
	})
	return d
}

func (s *stage) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.decisions)
}

// say sends raw bytes to the proxy and returns all that comes back.
func (s *stage) say(text string) string {
	s.tb.Helper()
	c := s.dial()
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		s.tb.Fatal(err)
	}
	_ = c.CloseWrite()
	answer, _ := io.ReadAll(c)
	return string(answer)
}

func (s *stage) dial() *net.TCPConn {
	s.tb.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.tb.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// tunnel asks for a tunnel and returns it if there is one.
func (s *stage) tunnel(target string) (*net.TCPConn, string) {
	s.tb.Helper()
	c := s.dial()
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		s.tb.Fatal(err)
	}
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		s.tb.Fatalf("CONNECT %s: %v", target, err)
	}
	if res.StatusCode == 200 {
		return c, ""
	}
	body, _ := io.ReadAll(res.Body)
	c.Close()
	return nil, res.Status + "\n" + string(body)
}

// secure serves HTTPS on this machine for a few names, and says which port.
func (s *stage) secure(h http.Handler, names ...string) (port string) {
	s.tb.Helper()
	cert, leaf := certificate(s.tb, names...)
	s.pool.AddCert(leaf)
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that leave are meant to
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	srv.StartTLS()
	s.tb.Cleanup(srv.Close)
	_, port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	return port
}

// client is what a tool in a sandbox is.
func (s *stage) client() *http.Client {
	t := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse("http://" + s.addr) }, TLSClientConfig: &tls.Config{RootCAs: s.pool}}
	s.tb.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: 20 * time.Second}
}

func certificate(tb testing.TB, names ...string) (tls.Certificate, *x509.Certificate) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, leaf
}

// echo answers with what it was asked, one thing a line.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s host=%s body=%q te=%q cl=%d\n", r.Method, r.RequestURI, r.Host, body, r.TransferEncoding, r.ContentLength)
	for name, values := range r.Header {
		fmt.Fprintf(w, "%s: %s\n", name, strings.Join(values, "|"))
	}
})

// plainServer serves HTTP on this machine and says which port.
func plainServer(tb testing.TB, h http.Handler) (port string) {
	tb.Helper()
	srv := httptest.NewServer(h)
	tb.Cleanup(srv.Close)
	_, port, _ = net.SplitHostPort(srv.Listener.Addr().String())
	return port
}

// eventually waits until something is so.
func eventually(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline.C:
			tb.Fatalf("not within 20 s: %s", what)
		case <-tick.C:
		}
	}
}
