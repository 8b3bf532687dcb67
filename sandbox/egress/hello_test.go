package egress

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"
)

// clientHello is what Go's own client says first.
func clientHello(tb testing.TB, c *tls.Config) []byte {
	tb.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c.InsecureSkipVerify = c.EncryptedClientHelloConfigList == nil
	go func() { _ = tls.Client(near, c).Handshake() }()
	_ = far.SetDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 32<<10)
	n, err := far.Read(buf)
	if err != nil {
		tb.Fatal(err)
	}
	return buf[:n]
}

// records puts a message into records of at most size bytes.
func records(message []byte, size int) (out []byte) {
	for len(message) > 0 {
		n := min(size, len(message))
		out = append(out, 22, 3, 1)
		out = binary.BigEndian.AppendUint16(out, uint16(n))
		out = append(out, message[:n]...)
		message = message[n:]
	}
	return out
}

// hello makes a ClientHello of extensions.
func hello(extensions ...[]byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 0x01, 1, 0)
	all := bytes.Join(extensions, nil)
	body = binary.BigEndian.AppendUint16(body, uint16(len(all)))
	body = append(body, all...)
	return append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
}

func extension(kind uint16, body []byte) []byte {
	out := binary.BigEndian.AppendUint16(nil, kind)
	return append(binary.BigEndian.AppendUint16(out, uint16(len(body))), body...)
}

func sni(names ...string) []byte {
	var list []byte
	for _, name := range names {
		list = append(binary.BigEndian.AppendUint16(append(list, 0), uint16(len(name))), name...)
	}
	return extension(0, append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...))
}

func TestServerName(t *testing.T) {
	t.Parallel()
	real := clientHello(t, &tls.Config{ServerName: "Good.example"})
	good := hello(extension(10, []byte{0, 2, 0, 29}), sni("good.example"), extension(16, nil))
	for what, data := range map[string][]byte{
		"Go's client":            real,
		"one byte a record":      records(real[5:], 1),
		"seven bytes a record":   records(good, 7),
		"made by hand":           records(good, 1<<14),
		"with more behind it":    append(records(good, 1<<14), 23, 3, 3, 0, 1, 0),
		"old version of records": append([]byte{22, 3, 0}, records(good, 1<<14)[3:]...),
	} {
		if name, err := serverName(data); name != "good.example" || err != nil {
			t.Errorf("%s: %q, %v", what, name, err)
		}
	}
	for cut := range len(real) {
		if name, err := serverName(real[:cut]); !errors.Is(err, errMore) || name != "" {
			t.Fatalf("%d of %d bytes: %q, %v", cut, len(real), name, err)
		}
	}
	longer := append(hello(sni("good.example")), 0)
	longer[3]++
	for what, c := range map[string]struct {
		data []byte
		want Reason
	}{
		"HTTP":                    {[]byte("GET / HTTP/1.1\r\n"), NotTLS},
		"SSH":                     {[]byte("SSH-2.0-x\r\n"), NotTLS},
		"SSL 2":                   {[]byte{0x80, 0x2e, 1, 3, 1}, NotTLS},
		"an alert first":          {append([]byte{21, 3, 3, 0, 2, 1, 0}, records(good, 1000)...), NotTLS},
		"TLS 2.0":                 {[]byte{22, 4}, NotTLS},
		"an empty record":         {append([]byte{22, 3, 1, 0, 0}, records(good, 1000)...), NotTLS},
		"a record that is large":  {[]byte{22, 3, 1, 0x40, 1}, NotTLS},
		"another record between":  {append(records(good[:20], 20), 20, 3, 3, 0, 1, 1), NotTLS},
		"a ServerHello":           {records(append([]byte{2}, good[1:]...), 1000), NotTLS},
		"too long":                {records([]byte{1, 1, 0, 0}, 4), NotTLS},
		"no extensions":           {records(hello(), 1000), WrongName},
		"no name":                 {records(hello(extension(16, nil)), 1000), WrongName},
		"two names":               {records(hello(sni("good.example", "evil.example")), 1000), NotTLS},
		"no name in the list":     {records(hello(sni()), 1000), NotTLS},
		"the name twice":          {records(hello(sni("good.example"), sni("evil.example")), 1000), NotTLS},
		"a byte too many":         {records(longer, 1000), NotTLS},
		"ECH":                     {records(hello(sni("good.example"), extension(0xfe0d, []byte{0})), 1000), HiddenName},
		"a name of another kind":  {records(hello(extension(0, []byte{0, 5, 1, 0, 2, 'a', 'b'})), 1000), NotTLS},
		"a name that is cut":      {records(hello(extension(0, []byte{0, 9, 0, 0, 9, 'a', 'b'})), 1000), NotTLS},
		"something behind a name": {records(hello(extension(0, append(sni("good.example")[4:], 0))), 1000), NotTLS},
	} {
		var refused *refusal
		if name, err := serverName(c.data); !errors.As(err, &refused) || refused.reason != c.want {
			t.Errorf("%s: %q, %v; want %s", what, name, err, c.want)
		}
	}
}

// What is read is what Go's server reads, whatever the bytes: a name that we pass and the server sees another is a way around.
func FuzzServerName(f *testing.F) {
	f.Add(clientHello(f, &tls.Config{ServerName: "good.example"}))
	f.Add(records(hello(sni("good.example")), 3))
	f.Add(records(hello(sni("good.example"), extension(0xfe0d, []byte{0})), 100))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, err := serverName(data)
		if err != nil {
			return
		}
		if seen, ok := goReads(data); ok && seen != name {
			t.Errorf("we read %q, a server reads %q", name, seen)
		}
	})
}

// goReads is the name that crypto/tls sees in a ClientHello, if it takes it for one.
func goReads(data []byte) (name string, ok bool) {
	stop := errors.New("seen")
	c := tls.Server(&canned{r: bytes.NewReader(data)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = string(bytes.ToLower([]byte(h.ServerName))), true
		return nil, stop
	}})
	_ = c.Handshake()
	return name, ok
}

// canned is a connection on which somebody has said something, and hears nothing.
type canned struct {
	net.Conn
	r *bytes.Reader
}

func (c *canned) Read(p []byte) (int, error)       { return c.r.Read(p) }
func (c *canned) Write(p []byte) (int, error)      { return len(p), nil }
func (c *canned) Close() error                     { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }
