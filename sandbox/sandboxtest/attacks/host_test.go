package attacks

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

// host is what an attack is aimed at, and what is seen of it.
type host struct {
	nonce, tag, canary string
	out                string
	port, abstract     string
	victim             *os.Process
	victimGone         chan struct{}
	printed            locked
	most               atomic.Int64 // processes of this attack at once

	mu       sync.Mutex
	received string
}

// locked is a buffer for two streams.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{nonce: "n" + strings.ToLower(rand.Text()[:14]), tag: fmt.Sprint(time.Now().UnixNano())[5:], canary: "canary-" + rand.Text(), victimGone: make(chan struct{})}
	dir, err := os.MkdirTemp("", "attack-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h.out = filepath.Join(dir, "out")
	for path, mode := range map[string]os.FileMode{dir: 0o711, h.out: 0o777, filepath.Join(h.out, "home"): 0o777} {
		must(t, os.MkdirAll(path, 0o755))
		must(t, os.Chmod(path, mode))
	}
	for name, text := range map[string]string{"secret": h.canary, "secret-" + h.nonce: h.canary, "home/.profile": "# mine\n"} {
		path := filepath.Join(h.out, name)
		must(t, os.WriteFile(path, []byte(text), 0o666))
		must(t, os.Chmod(path, 0o666))
		if os.Geteuid() == 0 { // what the user that commands run as could do with its own files
			must(t, os.Chown(path, jail.DefaultUID, jail.DefaultUID))
		}
	}
	h.listen(t)
	h.startVictim(t)
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *host) listen(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, h.port, _ = net.SplitHostPort(tcp.Addr().String())
	h.abstract = "attack-" + h.nonce
	unix, err := net.Listen("unix", "@"+h.abstract)
	must(t, err)
	var serving sync.WaitGroup
	for _, l := range []net.Listener{tcp, unix} {
		serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				text, _ := io.ReadAll(io.LimitReader(c, 1<<10))
				c.Close()
				h.mu.Lock()
				h.received += string(text)
				h.mu.Unlock()
			}
		})
		t.Cleanup(func() { l.Close() })
	}
	t.Cleanup(func() { tcp.Close(); unix.Close(); serving.Wait() })
}

// asAgent is the user that sandboxes run as.
func asAgent() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: jail.DefaultUID, Gid: jail.DefaultUID}
	}
	return attr
}

func (h *host) startVictim(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = h.out, []string{"CANARY=" + h.canary}, asAgent()
	must(t, cmd.Start())
	h.victim = cmd.Process
	go func() { _ = cmd.Wait(); close(h.victimGone) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-h.victimGone })
}

// environment is what the script is told.
func (h *host) environment(workspace string) []string {
	return []string{"N=" + h.nonce, "TAG=" + h.tag, "OUT=" + h.out, "PORT=" + h.port, "ABSTRACT=" + h.abstract, "HOSTWS=" + workspace,
		fmt.Sprintf("VICTIM=%d", h.victim.Pid)}
}

func script(a attack) string {
	return `printf %s "$N" >".control-$N"; ` + a.script + "\nprintf '\\nEND %s\\n' \"$N\"\n"
}

// count watches how many processes of an attack there are, until it has ended.
func (h *host) count(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if n := int64(living("3." + h.tag)); n > h.most.Load() {
				h.most.Store(n)
			}
		}
	}
}

// living counts processes that have a word in their command line and that are not dead.
func living(word string) (n int) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(word)) {
			n++
		}
	}
	return n
}

// sweep ends what the control has left.
func (h *host) sweep() {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(text, []byte("sleep\x00")) || !bytes.Contains(text, []byte(h.tag)) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
