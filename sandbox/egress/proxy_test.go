package egress

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func get(t *testing.T, c *http.Client, url string) (string, error) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.Status + "\n" + string(body), nil
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := start(t, []string{"*.good.example:8443"}, Options{AllowAddresses: loopback})
	port := s.secure(echo, "api.good.example", "evil.example")
	var err error
	if s.proxy.o.Rules, err = Parse([]string{"*.good.example:" + port}); err != nil {
		t.Fatal(err)
	}
	c := s.client()
	got, err := get(t, c, "https://api.good.example:"+port+"/x?y=1")
	if err != nil || !strings.Contains(got, "GET /x?y=1 host=api.good.example:"+port) {
		t.Errorf("allowed: %q, %v", got, err)
	}
	c.CloseIdleConnections()
	d := s.last()
	if !d.Allowed || d.Host != "api.good.example" || d.Rule != "*.good.example:"+port || d.Run != "r-test-1" || d.Method != "CONNECT" ||
		d.Addr != "127.0.0.1:"+port || d.Up < 200 || d.Down < 200 || d.Reason != "" || d.Duration <= 0 {
		t.Errorf("decision: %+v", d)
	}
	if _, err := get(t, c, "https://evil.example:"+port+"/"); err == nil || !strings.Contains(err.Error(), "evil.example:"+port+": not on the list") {
		t.Errorf("denied: %v", err)
	}
	if d := s.last(); d.Allowed || d.Reason != NotListed {
		t.Errorf("decision: %+v", d)
	}
	if got := s.proxy.Denied(); len(got) != 1 || got[0].Line != "evil.example:"+port || got[0].Times != 1 {
		t.Errorf("denied: %+v", got)
	}
	if slices.Contains(s.asked, "evil.example") {
		t.Error("a name that is not on the list was resolved")
	}
}

// The tunnel is for one name and the ClientHello for another, which the same server would serve: domain fronting.
func TestAnotherNameInside(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{AllowAddresses: loopback})
	port := s.secure(echo, "good.example", "evil.example")
	s.proxy.o.Rules, _ = Parse([]string{"good.example:" + port})
	for sni, want := range map[string]Reason{"evil.example": WrongName, "": WrongName, "good.example": ""} {
		c, refused := s.tunnel("good.example:" + port)
		if c == nil {
			t.Fatal(refused)
		}
		err := tls.Client(c, &tls.Config{ServerName: sni, InsecureSkipVerify: true}).Handshake()
		if (err == nil) != (want == "") {
			t.Errorf("SNI %q: handshake: %v", sni, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), "unrecognized name")) {
			t.Errorf("SNI %q: the client was told %v", sni, err)
		}
		n := s.count()
		c.Close()
		if want == "" {
			eventually(t, "the end of the tunnel", func() bool { return s.count() > n })
		}
		if d := s.last(); d.Reason != want || d.Allowed != (want == "") {
			t.Errorf("SNI %q: %+v", sni, d)
		}
	}
}

// A name is resolved once for each request, and what was checked is what is dialled.
func TestRebinding(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][]string{
		"private at once":           {"10.0.0.1"},
		"hidden behind a public":    {"192.88.98.1,127.0.0.1"},
		"metadata":                  {"169.254.169.254"},
		"v4 in v6":                  {"::ffff:127.0.0.1"},
		"NAT64":                     {"64:ff9b::7f00:1"},
		"the address of this host":  {"127.0.0.1"},
		"metadata of another cloud": {"100.100.100.200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, []string{"rebind.example"}, Options{Resolve: func(context.Context, string) (out []netip.Addr, err error) {
				for a := range strings.SplitSeq(answers[0], ",") {
					out = append(out, netip.MustParseAddr(a))
				}
				return out, nil
			}})
			c, refused := s.tunnel("rebind.example:443")
			if c != nil || !strings.Contains(refused, "403") || s.last().Reason != BadAddress || s.last().Allowed {
				t.Errorf("%s: %q %+v", answers[0], refused, s.last())
			}
			if answer := s.say("GET http://rebind.example/ HTTP/1.1\r\nHost: rebind.example\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 403") {
				t.Errorf("plain: %q", answer)
			}
			if len(s.asked) != 2 {
				t.Errorf("resolved %d times for two requests", len(s.asked))
			}
		})
	}
}

func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	port := plainServer(t, echo)
	s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback})
	request := "POST http://GOOD.example:" + port + "/a%2fb?q HTTP/1.1\r\nHost: evil.example\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n" +
		"Proxy-Authorization: Basic c2VjcmV0\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	got := s.say(request)
	if !strings.Contains(got, fmt.Sprintf("POST /a%%2fb?q host=good.example:%s body=\"abc\"", port)) || !strings.Contains(got, "X-End: 2") {
		t.Errorf("got %q", got)
	}
	for _, hop := range []string{"X-Hop", "Proxy-Authorization", "c2VjcmV0", "evil.example", "User-Agent", "Via", "Forwarded"} {
		if strings.Contains(got, hop) {
			t.Errorf("%s was passed on: %q", hop, got)
		}
	}
	if d := s.last(); !d.Allowed || d.Up != int64(len(request)-len("3\r\n\r\n0\r\n\r\n")) || d.Down == 0 || d.Method != "POST" {
		t.Errorf("decision: %+v", d)
	}
	twice := strings.Repeat("GET http://good.example:"+port+"/ HTTP/1.1\r\nHost: x\r\n\r\n", 2)
	if got := s.say(twice); strings.Count(got, "200 OK") != 2 {
		t.Errorf("two requests on one connection: %q", got)
	}
	if got := s.say("GET http://good.example:" + port + "/ HTTP/1.0\r\n\r\n"); !strings.Contains(got, "Connection: close") || strings.Contains(got, "chunked") {
		t.Errorf("HTTP/1.0: %q", got)
	}
}

// Node's undici opens tunnels for http:// addresses too.
func TestPlainHTTPInTunnel(t *testing.T) {
	t.Parallel()
	port := plainServer(t, echo)
	s := start(t, []string{"good.example:" + port}, Options{AllowAddresses: loopback})
	ask := func(text string) string {
		c, refused := s.tunnel("good.example:" + port)
		if c == nil {
			t.Fatal(refused)
		}
		defer c.Close()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		_ = c.CloseWrite()
		answer, _ := io.ReadAll(c)
		return string(answer)
	}
	one := "GET /x HTTP/1.1\r\nHost: good.example:" + port + "\r\n\r\n"
	if got := ask(one + one); strings.Count(got, "GET /x host=good.example:"+port) != 2 {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{
		"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET http://evil.example/ HTTP/1.1\r\nHost: good.example:" + port + "\r\n\r\n",
	} {
		if got := ask(bad); !strings.HasPrefix(got, "HTTP/1.1 403") || s.last().Reason != WrongName {
			t.Errorf("%q: %q", bad, got)
		}
	}
}
