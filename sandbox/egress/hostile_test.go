package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// What somebody inside would try. Each is answered, counted, and reaches nothing; the control at the end reaches the same server.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	port := plainServer(t, echo)
	s := start(t, []string{"good.example:" + port, "*.wild.example:" + port}, Options{AllowAddresses: loopback})
	connect := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\nHost: good.example\r\n\r\n" }
	get := func(rest string) string { return "GET http://" + rest }
	for what, c := range map[string]struct {
		say    string
		status int
		reason Reason
	}{
		"address":                {connect("127.0.0.1:" + port), 403, BadName},
		"address, decimal":       {connect("2130706433:" + port), 403, BadName},
		"address, octal":         {connect("0177.0.0.1:" + port), 403, BadName},
		"address, hexadecimal":   {connect("0x7f000001:" + port), 403, BadName},
		"address, short":         {connect("127.1:" + port), 403, BadName},
		"address of IPv6":        {connect("[::1]:" + port), 403, BadName},
		"v4 in v6":               {connect("[::ffff:127.0.0.1]:" + port), 403, BadName},
		"zone":                   {connect("[fe80::1%25eth0]:" + port), 403, BadName},
		"localhost":              {connect("localhost:" + port), 403, BadName},
		"NUL in the name":        {connect("evil.example\x00.wild.example:" + port), 400, BadRequest},
		"escaped NUL":            {connect("evil.example%00.wild.example:" + port), 403, BadName},
		"user before the host":   {connect("good.example:" + port + "@evil.example:" + port), 403, BadName},
		"no port":                {connect("good.example"), 403, BadName},
		"two ports":              {connect("good.example:" + port + ":22"), 403, BadName},
		"another port":           {connect("good.example:22"), 403, NotListed},
		"another host":           {connect("evil.example:" + port), 403, NotListed},
		"suffix without a dot":   {connect("evilwild.example:" + port), 403, NotListed},
		"the suffix itself":      {connect("wild.example:" + port), 403, NotListed},
		"name in front":          {connect("good.example.evil.example:" + port), 403, NotListed},
		"fullwidth letters":      {connect("ｇood.example:" + port), 403, BadName},
		"CONNECT with a body":    {"CONNECT good.example:" + port + " HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400, BadRequest},
		"CONNECT to a URL":       {connect("http://good.example:" + port + "/"), 403, BadName},
		"plain, address":         {get("127.0.0.1:" + port + "/ HTTP/1.1\r\n\r\n"), 403, BadName},
		"plain, user":            {get("good.example:" + port + "@evil.example/ HTTP/1.1\r\n\r\n"), 403, BadName},
		"plain, another host":    {get("evil.example:" + port + "/ HTTP/1.1\r\nHost: good.example:" + port + "\r\n\r\n"), 403, NotListed},
		"plain, backslash":       {get("evil.example\\@good.example:" + port + "/ HTTP/1.1\r\n\r\n"), 403, BadName},
		"origin form":            {"GET / HTTP/1.1\r\nHost: good.example:" + port + "\r\n\r\n", 400, BadRequest},
		"https by GET":           {"GET https://good.example:" + port + "/ HTTP/1.1\r\n\r\n", 400, BadRequest},
		"CONNECT in lower case":  {"connect good.example:" + port + " HTTP/1.1\r\n\r\n", 400, BadRequest},
		"plain, no slashes":      {"GET http:good.example:" + port + "/ HTTP/1.1\r\n\r\n", 400, BadRequest},
		"plain, escaped letter":  {get("%67ood.example:" + port + "/ HTTP/1.1\r\n\r\n"), 403, BadName},
		"plain, another port":    {get("good.example:22/ HTTP/1.1\r\n\r\n"), 403, NotListed},
		"plain, a terminal's":    {get("\u009b31m/ HTTP/1.1\r\n\r\n"), 403, BadName},
		"TRACE":                  {"TRACE http://good.example:" + port + "/ HTTP/1.1\r\nProxy-Authorization: x\r\n\r\n", 400, BadRequest},
		"smuggling, TE and CL":   {"POST http://good.example:" + port + "/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", 400, BadRequest},
		"smuggling, two lengths": {"POST http://good.example:" + port + "/ HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\nGET / x\r\n", 400, BadRequest},
		"smuggling, folded":      {"POST http://good.example:" + port + "/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n", 400, BadRequest},
		"HTTP/2":                 {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, BadRequest},
		"SOCKS 5":                {"\x05\x01\x00\r\n\r\n", 400, BadRequest},
	} {
		before := s.count()
		answer := s.say(c.say)
		if !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", c.status)) || !strings.Contains(answer, "X-Proxy-Error: "+string(c.reason)) {
			t.Errorf("%s: %q", what, answer)
		}
		if d := s.last(); s.count() != before+1 || d.Allowed || d.Reason != c.reason {
			t.Errorf("%s: %d decisions, %+v", what, s.count()-before, d)
		}
	}
	if len(s.asked) > 0 {
		t.Errorf("resolved: %q", s.asked)
	}
	if got := s.say("GET http://GOOD.example.:" + port + "/ HTTP/1.1\r\n\r\n"); !strings.Contains(got, "200 OK") {
		t.Errorf("control: %q", got)
	}
}

// A refusal says which host, why, and what to do; it is a page for a person, and a line and a header for a program.
func TestRefusalSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := start(t, []string{"good.example"}, Options{})
	for request, want := range map[string][]string{
		"CONNECT proxy.golang.org:443 HTTP/1.1\r\n\r\n": {"HTTP/1.1 403 Blocked by sandpiper: proxy.golang.org:443: not on the list\r\n",
			"X-Proxy-Error: not on the list; proxy.golang.org:443\r\n", "proxy.golang.org:443 is not on the list of hosts", `network: ["go"]`, ".github/sandpiper.yml"},
		"CONNECT good.example:8443 HTTP/1.1\r\n\r\n":                    {"not its port 8443", `network: ["good.example:8443"]`},
		"GET http://other.example/ HTTP/1.1\r\n\r\n":                    {`network: ["other.example"]`},
		"CONNECT <script>alert(1)</script>:443 HTTP/1.1\r\n\r\n":        {"bad name", "text/plain"},
		"CONNECT a\xff.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n": {`a\xff.example`},
	} {
		got := s.say(request)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%q: no %q in\n%s", request, w, got)
			}
		}
	}
	if got := s.say("HEAD http://other.example/ HTTP/1.1\r\n\r\n"); !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("a body for HEAD: %q", got)
	}
}

// In a tunnel only TLS for its name, or HTTP with it, is carried: nothing that speaks otherwise gets a byte through.
func TestWhatATunnelCarries(t *testing.T) {
	t.Parallel()
	got := make(chan string, 100)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			data, _ := io.ReadAll(c)
			got <- string(data)
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback, Limits: Limits{Handshake: time.Second}})
	good := clientHello(t, &tls.Config{ServerName: "good.example"})
	for what, c := range map[string]struct {
		say  []byte
		want Reason
	}{
		"TLS for the name":        {good, ""},
		"the same, byte by byte":  {records(good[5:], 1), ""},
		"with early data behind":  {append(bytes.Clone(good), "more"...), ""},
		"TLS for another name":    {clientHello(t, &tls.Config{ServerName: "evil.example"}), WrongName},
		"TLS without a name":      {clientHello(t, &tls.Config{}), WrongName},
		"SSH":                     {[]byte("\x00SSH-2.0-x\r\n"), NotTLS},
		"a line of another kind":  {[]byte("hello there\r\n"), NotTLS},
		"half a ClientHello":      {good[:len(good)/2], NotTLS},
		"a ClientHello of 16 MiB": {[]byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}, NotTLS},
		"empty records for ever":  {bytes.Repeat([]byte{22, 3, 1, 0, 0}, 9000), NotTLS},
		"records without an end":  {records(append([]byte{1, 0, 0x7f, 0xff}, make([]byte, 32<<10)...), 1), NotTLS},
		"nothing":                 {nil, NotTLS},
	} {
		tunnel, refused := s.tunnel("good.example:" + port)
		if tunnel == nil {
			t.Fatal(refused)
		}
		before := s.count()
		_, _ = tunnel.Write(c.say)
		if c.want == "" {
			_ = tunnel.CloseWrite()
		}
		eventually(t, "a decision about "+what, func() bool { return s.count() > before })
		tunnel.Close()
		arrived := <-got
		if c.want == "" && arrived != string(c.say) || c.want != "" && arrived != "" {
			t.Errorf("%s: %d bytes arrived of %d", what, len(arrived), len(c.say))
		}
		if d := s.last(); d.Reason != c.want || d.Allowed != (c.want == "") {
			t.Errorf("%s: %+v", what, d)
		}
	}
}

// On port 443 there is TLS or nothing; elsewhere there may be HTTP.
func TestNoPlainHTTPOn443(t *testing.T) {
	t.Parallel()
	p := &Proxy{o: Options{Limits: Limits{}.withDefaults()}}
	for port, want := range map[uint16]string{443: string(NotTLS), 80: errPlain.Error()} {
		near, far := tcpPair(t)
		_, _ = io.WriteString(far, "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n")
		if _, err := p.peek(near, bufio.NewReader(near), Host{"good.example", port}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); c.Close() })
	return a.(*net.TCPConn), c.(*net.TCPConn)
}

// What an allowed host answers is made anew as well: it says one thing to everybody who reads it, and opens nothing.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n":  "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\nmore":                       "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 204 None\r\nContent-Length: 3\r\n\r\nabc":                                                "HTTP/1.1 204 None\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://127.0.0.1/\r\n\r\n":                   "HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 407 Who\r\nContent-Length: 0\r\nProxy-Authenticate: Basic realm=x\r\nUpgrade: x\r\n\r\n": "HTTP/1.1 407 Who\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 101 Other\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw":                               "HTTP/1.1 502 Not reached",
		"HTTP/1.1 200 OK\r\nX\x00: y\r\n\r\n":                                                              "HTTP/1.1 502 Not reached",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 300<<10) + "\r\n\r\n":                               "HTTP/1.1 502 Not reached",
		"SSH-2.0-x\r\n": "HTTP/1.1 502 Not reached",
	} {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, answer)
		})
		_, port, _ := net.SplitHostPort(l.Addr().String())
		s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback})
		got := s.say("GET http://good.example:" + port + "/ HTTP/1.1\r\nConnection: close\r\n\r\n")
		if whole := !strings.HasPrefix(want, "HTTP/1.1 502"); whole && got != want || !strings.HasPrefix(got, want) {
			t.Errorf("%.60q: got %.200q", answer, got)
		}
		l.Close()
		serving.Wait()
	}
}

// What is checked is what is dialled: Control sees the address that connect(2) is given.
func TestDialChecksAgain(t *testing.T) {
	t.Parallel()
	port := plainServer(t, echo)
	s := start(t, []string{"good.example"}, Options{})
	to := netip.MustParseAddrPort("127.0.0.1:" + port)
	if c, err := s.proxy.dialAddr(t.Context(), to, time.Second); err == nil || !strings.Contains(err.Error(), "address not allowed") {
		t.Errorf("dialled: %v, %v", c, err)
	}
	s.proxy.guard.allowed = loopback
	c, err := s.proxy.dialAddr(t.Context(), to, time.Second)
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	c.Close()
}

// Where the machine has no way out but another proxy, that one is asked, with its password, which nobody inside sees.
func TestUpstream(t *testing.T) {
	t.Parallel()
	port := plainServer(t, echo)
	up := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback})
	u, err := url.Parse("http://user:secret@" + up.addr)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, []string{"good.example:" + port, "other.example"}, Options{Upstream: u, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		t.Error("a name was resolved here")
		return nil, nil
	}})
	tlsPort := s.secure(echo, "good.example")
	up.proxy.o.Rules, _ = Parse([]string{"good.example:" + port, "good.example:" + tlsPort})
	s.proxy.o.Rules, _ = Parse([]string{"good.example:" + port, "good.example:" + tlsPort, "other.example"})
	got, err := get(t, s.client(), "https://good.example:"+tlsPort+"/")
	if err != nil || !strings.Contains(got, "200 OK") {
		t.Errorf("TLS: %q, %v", got, err)
	}
	if got := s.say("GET http://good.example:" + port + "/ HTTP/1.1\r\n\r\n"); !strings.Contains(got, "200 OK") || strings.Contains(got, "Proxy-Auth") {
		t.Errorf("plain: %q", got)
	}
	if c, refused := s.tunnel("other.example:443"); c != nil || !strings.HasPrefix(refused, "502") || strings.Contains(refused, "secret") {
		t.Errorf("refused upstream: %q", refused)
	}
	if d := s.last(); !d.Allowed || d.Reason != Unreachable {
		t.Errorf("decision: %+v", d)
	}
	if _, err := New(Options{Upstream: &url.URL{Scheme: "https", Host: "x"}}); err == nil {
		t.Error("an upstream that is not supported was taken")
	}
}

// An answer that comes before the request was read ends the connection, and no answer of ours is mistaken for the host's.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	port := plainServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback})
	c := s.dial()
	defer c.Close()
	fmt.Fprintf(c, "POST http://good.example:%s/ HTTP/1.1\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n", port)
	answer, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413") {
		t.Errorf("got %q", answer)
	}
}
