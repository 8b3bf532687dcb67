package broker

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Many clients at once, each with its own answer, and afterwards nothing is left: no goroutine, no descriptor, no connection.
// It runs alone: it counts what the process has.
func TestManyClientsAndNothingLeft(t *testing.T) {
	api := scripted()
	w := open(t, api, sandbox.Grant{})
	goroutines, files := settled(t)
	next := openOn(t, w.broker, sandbox.Workspace{ID: "r-test-2", Exec: t.TempDir()}, sandbox.Grant{Models: everything})
	client := &http.Client{Transport: &http.Transport{}}
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for j := range 8 {
				a := ask[(i+j)%len(ask)]
				resp, err := client.Post(next.url+a.path, "application/json", strings.NewReader(a.body))
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || !strings.Contains(string(text), "Done.") {
					t.Errorf("%d %s %v", resp.StatusCode, text, err)
				}
			}
		})
	}
	all.Wait()
	client.CloseIdleConnections()
	next.close()
	spent, found := next.spent, next.found
	if spent.Requests != 64*8 || len(found) > 0 || len(api.Requests()) != 64*8 {
		t.Errorf("spent %+v, %d requests, %v", spent, len(api.Requests()), found)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		g, f := settled(t)
		if g <= goroutines && f <= files {
			return
		}
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines and %d descriptors before, %d and %d after\n%s", goroutines, files, g, f, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func settled(t *testing.T) (goroutines, files int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.NumGoroutine(), len(fds)
}

// Close ends what hangs, on both sides.
func TestCloseEndsCallsThatHang(t *testing.T) {
	t.Parallel()
	began, gone := make(chan struct{}), make(chan struct{})
	w := open(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
		close(gone)
	}), sandbox.Grant{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, _ := http.NewRequest("POST", w.url+ask[0].path, strings.NewReader(ask[0].body))
		req.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-began
	w.close()
	<-gone
	<-done
	if w.spent.Requests != 1 {
		t.Errorf("%+v", w.spent)
	}
}

// Connections that are opened and left do not take the descriptors of the process that supervises.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	w := open(t, scripted(), sandbox.Grant{})
	_, before := settled(t)
	var conns []net.Conn
	for range 2 * maxConns {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	// Both ends of a connection are in this process; other tests have some too.
	if _, after := settled(t); after-before > 2*maxConns+maxConns+100 {
		t.Errorf("%d descriptors for %d connections", after-before, 2*maxConns)
	}
	for _, c := range conns {
		c.Close()
	}
	if status, _, _ := w.do("POST", ask[0].path, ask[0].body); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
}

// A command that asks in a loop does not fill the disk with records of it.
func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	w := open(t, scripted(), sandbox.Grant{})
	for range maxRecords + 7 {
		w.session.record(Record{Decision: Deny, Rule: "action", Action: "GET /x"})
	}
	w.close()
	data, err := os.ReadFile(filepath.Join(w.dir, Calls))
	if err != nil || bytes.Count(data, []byte("\n")) != maxRecords+1 || !bytes.HasSuffix(data, []byte("\n{\"left_out\":7}\n")) {
		t.Errorf("%d lines, %v", bytes.Count(data, []byte("\n")), err)
	}
	if len(w.found) != 1 || w.found[0].Evidence != "action: GET /x (20007 times)" {
		t.Errorf("%+v", w.found)
	}
}
