package jail

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// hello asks the listener inside, and then an address of the host and one of the internet.
const hello = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128 && cat <&3'; bash -c 'exec 3<>/dev/tcp/192.0.2.1/80' && echo OUT; wc -l </proc/net/dev`

// TestListen: what is served on the listener is reached from inside, and nothing else is.
func TestListen(t *testing.T) {
	needJail(t)
	ended := false
	s := Spec{Listen: func(l net.Listener) {
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			_, _ = io.WriteString(conn, "hello from outside\n")
			conn.Close()
		}
		ended = true
	}}
	o := try(t, without{}, s, hello)
	if !o.says("hello from outside") || o.says("OUT") || !o.says("3\n") {
		t.Errorf("inside:\n%s", o.out)
	}
	if !ended {
		t.Error("the run is over and the listener is still served")
	}
	if o := try(t, without{}, Spec{}, hello); o.says("hello") {
		t.Errorf("control: reached without a listener:\n%s", o.out)
	}
	if c, err := net.DialTimeout("tcp", ListenAddr, time.Second); err == nil {
		c.Close()
		t.Error("the listener is on the host")
	}
}

// TestListenLeavesNothing: no descriptor, and this process is in the network where it was.
func TestListenLeavesNothing(t *testing.T) {
	needJail(t)
	run := func() {
		try(t, without{}, Spec{Listen: func(l net.Listener) { _, _ = l.Accept() }}, "true")
		if _, err := Run(t.Context(), Spec{Argv: []string{"no-such-program"}, Listen: func(l net.Listener) { _, _ = l.Accept() }}, Stdio{}); err == nil {
			t.Error("a program that there is not was started")
		}
	}
	network := func() string { return must(os.Readlink("/proc/thread-self/ns/net")) }
	run() // what is opened once stays open
	had, was := descriptors(t), network()
	for range 3 {
		run()
	}
	if is := network(); is != was {
		t.Errorf("the network of this process is %s and was %s", is, was)
	}
	eventually(t, "as many descriptors as before", func() bool { return len(descriptors(t)) <= len(had) })
}

func descriptors(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return names
}
