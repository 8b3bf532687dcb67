package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The benchmarks set this proxy beside the smallest one that there can be: CONNECT, a dial, two copies; and beside stripe/smokescreen,
// where EGRESS_BENCH_SMOKESCREEN is the path of one. Each is a process of its own and they take turns, so that a busy machine is as
// busy for all; ratios are medians of those of the rounds. Wanted: at least 0.95 of the plain one's throughput over TLS, at most 1.3
// times the latency that it adds, and no more than 0.5 s of CPU for a GiB, which is what splice(2) gives (1.0 and more is what
// proxies use that copy through their own memory); and to be better than smokescreen in all three.

const benchName = "bench.example"

// TestMain lets this binary be a proxy.
func TestMain(m *testing.M) {
	kind, port := os.Getenv("EGRESS_BENCH_PROXY"), os.Getenv("EGRESS_BENCH_PORTS")
	if kind == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { // until our parent is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		l.Close()
	}()
	if kind == "plain" {
		plainProxy(l)
		return
	}
	var lines []string
	for p := range strings.SplitSeq(port, ",") {
		lines = append(lines, benchName+":"+p)
	}
	rules, err := Parse(lines)
	if err != nil {
		panic(err)
	}
	p, err := New(Options{Rules: rules, AllowAddresses: loopback, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	if err != nil {
		panic(err)
	}
	p.Serve(l)
}

// plainProxy is what one would write first.
func plainProxy(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			r := bufio.NewReader(c)
			line, err := r.ReadString('\n')
			for h := line; err == nil && h != "\r\n"; {
				h, err = r.ReadString('\n')
			}
			_, port, _ := strings.Cut(strings.Split(line, " ")[1], ":")
			far, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				return
			}
			defer far.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			go func() {
				_, _ = io.Copy(far, c)
				_ = far.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(c, far)
		}()
	}
}

// bench is a server and the proxies in front of it.
type bench struct {
	b        *testing.B
	pool     *x509.CertPool
	secure   string // port of the server that speaks TLS
	open     string // port of the one that does not
	addrs    map[string]string
	pids     map[string]int
	duration map[string][]time.Duration
	proxies  []string
}

func newBench(b *testing.B) *bench {
	s := &bench{b: b, pool: x509.NewCertPool(), addrs: map[string]string{"direct": ""}, pids: map[string]int{}, duration: map[string][]time.Duration{}}
	cert, leaf := certificate(b, benchName)
	s.pool.AddCert(leaf)
	s.secure = s.serve(&tls.Config{Certificates: []tls.Certificate{cert}})
	s.open = s.serve(nil)
	s.proxies = []string{"plain", "egress"}
	if path := os.Getenv("EGRESS_BENCH_SMOKESCREEN"); path != "" {
		s.smokescreen(path)
	}
	for _, kind := range []string{"plain", "egress"} {
		self, err := os.Executable()
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "EGRESS_BENCH_PROXY="+kind, "EGRESS_BENCH_PORTS="+s.secure+","+s.open)
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { in.Close(); _ = cmd.Wait() })
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		s.addrs[kind], s.pids[kind] = strings.TrimSpace(line), cmd.Process.Pid
	}
	return s
}

// smokescreen starts that proxy without a list of hosts, which is the least that it does. It takes no other resolver
// than DNS, hence the name that needs none.
func (s *bench) smokescreen(path string) {
	b := s.b
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(path, "--listen-ip=127.0.0.1", "--listen-port="+port, "--unsafe-allow-private-ranges", "--allow-range=127.0.0.0/8")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp4", address)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			b.Fatal("smokescreen does not listen")
		}
	}
	s.addrs["smokescreen"], s.pids["smokescreen"] = address, cmd.Process.Pid
	s.proxies = append(s.proxies, "smokescreen")
}

// serve answers a line with that many bytes.
func (s *bench) serve(c *tls.Config) (port string) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if c != nil {
					conn = tls.Server(conn, c)
				}
				r := bufio.NewReader(conn)
				if c == nil { // what is in the place of a ClientHello
					_, _ = r.Discard(len(records(hello(sni(benchName)), 1<<14)))
				}
				line, _ := r.ReadString('\n')
				n, _ := strconv.Atoi(strings.TrimSpace(line))
				chunk := make([]byte, 256<<10)
				for ; n > 0; n -= len(chunk) {
					if _, err := conn.Write(chunk[:min(n, len(chunk))]); err != nil {
						return
					}
				}
			}()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// ask gets n bytes, by one of the ways, and remembers how long it took.
func (s *bench) ask(way string, secure bool, n int) {
	port := s.open
	if secure {
		port = s.secure
	}
	to := s.addrs[way]
	if way == "direct" {
		to = "127.0.0.1:" + port
	}
	begin := time.Now()
	conn, err := net.Dial("tcp", to)
	if err != nil {
		s.b.Fatal(err)
	}
	defer conn.Close()
	if way != "direct" {
		name := benchName
		if way == "smokescreen" {
			name = "localhost"
		}
		fmt.Fprintf(conn, "CONNECT %s:%s HTTP/1.1\r\nHost: %s\r\n\r\n", name, port, name)
		answer := make([]byte, 512)
		k, err := conn.Read(answer)
		if err != nil || !strings.HasSuffix(string(answer[:k]), "\r\n\r\n") || !strings.HasPrefix(string(answer), "HTTP/1.") || !strings.HasPrefix(string(answer[8:]), " 200") {
			s.b.Fatalf("%s: %q, %v", way, answer[:k], err)
		}
	}
	if secure {
		conn = tls.Client(conn, &tls.Config{RootCAs: s.pool, ServerName: benchName, CipherSuites: nil})
	} else if _, err := conn.Write(records(hello(sni(benchName)), 1<<14)); err != nil {
		s.b.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "%d\n", n); err != nil {
		s.b.Fatal(err)
	}
	if got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 256<<10)); got != int64(n) {
		s.b.Fatalf("%s: %d of %d bytes, %v", way, got, n, err)
	}
	s.duration[way] = append(s.duration[way], time.Since(begin))
}

func (s *bench) median(way string) float64 {
	all := slices.Sorted(slices.Values(s.duration[way]))
	return all[len(all)/2].Seconds()
}

// cpu is the processor time that a proxy has used: the 14th and 15th field of proc_pid_stat(5), in hundredths of a second.
func (s *bench) cpu(way string) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pids[way]))
	if err != nil {
		s.b.Skip("there is no /proc")
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// ratio is the median of the rounds' ratios of what two ways took.
func (s *bench) ratio(way, by string) float64 {
	all := make([]float64, len(s.duration[by]))
	for i := range all {
		all[i] = float64(s.duration[way][i]) / float64(s.duration[by][i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkTransfer: ratio is our throughput over TLS by the other proxy's; CPU is of the proxy alone, without TLS at the ends.
func BenchmarkTransfer(b *testing.B) {
	const size = 256 << 20
	s := newBench(b)
	for b.Loop() {
		for _, way := range s.proxies {
			s.ask(way, true, size)
		}
	}
	for _, way := range s.proxies {
		b.ReportMetric(size/1e6/s.median(way), way+"-MB/s")
		if way != "egress" {
			b.ReportMetric(s.ratio(way, "egress"), way+"-ratio")
		}
	}
	before := map[string]float64{}
	for _, way := range s.proxies {
		before[way] = s.cpu(way)
	}
	for range 4 {
		for _, way := range s.proxies {
			s.ask(way, false, size)
		}
	}
	for way, was := range before {
		b.ReportMetric((s.cpu(way)-was)*(1<<30)/(4*size), way+"-CPU-s/GiB")
	}
}

// BenchmarkConnect: how much longer a connection takes, with its TLS handshake and one byte, than without a proxy; ratio is
// ours by the other proxy's.
func BenchmarkConnect(b *testing.B) {
	s := newBench(b)
	for b.Loop() {
		for _, way := range append([]string{"direct"}, s.proxies...) {
			s.ask(way, true, 1)
		}
	}
	direct := s.median("direct")
	for _, way := range s.proxies {
		b.ReportMetric((s.median(way)-direct)*1e6, way+"-added-µs")
		if way != "egress" {
			b.ReportMetric((s.median("egress")-direct)/(s.median(way)-direct), way+"-ratio")
		}
	}
}
