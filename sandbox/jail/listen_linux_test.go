package jail

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// TestListenLeavesNothing: neither a thread in another network nor a descriptor.
func TestListenLeavesNothing(t *testing.T) {
	needJail(t)
	var own, after unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &own); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		try(t, without{}, Spec{Listen: func(l net.Listener) { _, _ = l.Accept() }}, "true")
	}
	if err := unix.Stat("/proc/thread-self/ns/net", &after); err != nil || own.Ino != after.Ino {
		t.Errorf("the network of this process is another one: %v", err)
	}
}
