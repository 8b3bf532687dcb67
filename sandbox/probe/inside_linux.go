package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// insidePath is where this executable is bound inside, and the name by which it knows that it was started as the probe's program.
const insidePath = "/run/sandpiper/probe"

// plan is what the program is to try. It holds no canary: a canary that comes back was found.
type plan struct {
	Nonce     string     `json:"nonce"`
	Mode      string     `json:"mode"`    // all, network, processes, memory
	Control   string     `json:"control"` // a directory in which it has to be able to write
	Outside   []string   `json:"outside"` // directories in which it must not be
	Files     []string   `json:"files"`   // that it must not be able to read
	Endpoints []endpoint `json:"endpoints"`
	Object    string     `json:"object"` // of the store, and not of the base
	Amount    int64      `json:"amount"` // of processes, or bytes, to ask for
}

type endpoint struct {
	Network string `json:"network"`
	Address string `json:"address"`
}

// said is one line that the program prints.
type said struct {
	What string `json:"what"`
	Saw  string `json:"saw"`
}

func markerName(nonce string) string { return "sandpiper-probe-" + nonce }

// canaryVariable is where the canary credential lies in the environment of the launcher while a probe runs.
const canaryVariable = "SANDPIPER_CANARY_CREDENTIAL"

// init is the program. It runs before main, so that each executable that can probe can be it: the bot, a test.
func init() {
	if len(os.Args) != 1 || os.Args[0] != insidePath {
		return
	}
	unix.Exit(insideMain(os.Stdin, os.Stdout))
}

func insideMain(in io.Reader, out io.Writer) int {
	var p plan
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		fmt.Fprintln(os.Stderr, "plan:", err)
		return 1
	}
	lines := json.NewEncoder(out)
	say := func(what, saw string) { _ = lines.Encode(said{what, saw}) }
	switch p.Mode {
	case "all":
		p.write(say)
		found := p.search(say)
		p.connect(say, found)
		p.surface(say)
	case "network":
		p.throughProxy(say)
	case "processes":
		p.fork(say)
	case "memory":
		p.fill(say)
	}
	say("end", p.Nonce)
	return 0
}

// allowed is what the program says of something that it could do.
const allowed = "it was allowed"

func outcomeOf(err error) string {
	if err == nil {
		return allowed
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// write tries to leave the marker: in the workspace, where it has to work; outside; and outside by a link in the workspace.
func (p *plan) write(say func(what, saw string)) {
	put := func(dir string) string {
		return outcomeOf(os.WriteFile(filepath.Join(dir, markerName(p.Nonce)), []byte(p.Nonce), 0o600))
	}
	say("write "+p.Control, put(p.Control))
	for i, dir := range p.Outside {
		say("write "+dir, put(dir))
		link := filepath.Join(p.Control, fmt.Sprintf("%s-link-%d", markerName(p.Nonce), i))
		if err := os.Symlink(dir, link); err == nil {
			say("write by a link "+dir, put(link))
			_ = os.Remove(link)
		}
	}
}

// search looks for credentials as a program would that wants some, and prints what it has found.
func (p *plan) search(say func(what, saw string)) string {
	found := ""
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		text, _ := os.ReadFile(path)
		for _, kv := range bytes.Split(text, []byte{0}) {
			if value, ok := bytes.CutPrefix(kv, []byte(canaryVariable+"=")); ok {
				found = string(value)
				say("search "+path, found)
			}
		}
	}
	say("search environments", fmt.Sprintf("%d were readable or not", len(environs)))
	for _, path := range p.Files {
		text, err := os.ReadFile(path)
		if err == nil {
			found = string(text)
			say("read "+path, found)
		} else {
			say("read "+path, outcomeOf(err))
		}
	}
	return found
}

// connect calls each endpoint with what was found, and with the nonce by which the host knows the call.
func (p *plan) connect(say func(what, saw string), credential string) {
	for _, e := range p.Endpoints {
		c, err := net.DialTimeout(e.Network, e.Address, 2*time.Second)
		if err == nil {
			_, err = io.WriteString(c, request(p.Nonce, e.Address, credential))
			_ = c.Close()
		}
		say("connect "+e.Network+" "+e.Address, outcomeOf(err))
	}
}

func request(nonce, host, credential string) string {
	return "GET /" + nonce + " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + credential + "\r\nConnection: close\r\n\r\n"
}

// throughProxy asks the proxy for what nobody has allowed.
func (p *plan) throughProxy(say func(what, saw string)) {
	at, err := url.Parse(os.Getenv("http_proxy"))
	if err != nil || at.Host == "" {
		say("proxy", "none in the environment")
		return
	}
	ask := func(what, text string) {
		c, err := net.DialTimeout("tcp", at.Host, 2*time.Second)
		if err != nil {
			say(what, outcomeOf(err))
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = io.WriteString(c, text)
		answer := make([]byte, 512)
		n, rerr := c.Read(answer)
		line, _, _ := strings.Cut(string(answer[:n]), "\r\n")
		say(what, strings.TrimSpace(line+" "+outcomeOf(errors.Join(err, ignoreEOF(rerr)))))
		// An open proxy would carry this on to the endpoint.
		_, _ = io.WriteString(c, request(p.Nonce, "x", ""))
	}
	for _, e := range p.Endpoints {
		if e.Network == "tcp" {
			ask("proxy CONNECT "+e.Address, "CONNECT "+e.Address+" HTTP/1.1\r\nHost: "+e.Address+"\r\n\r\n")
			ask("proxy GET "+e.Address, "GET http://"+e.Address+"/"+p.Nonce+" HTTP/1.1\r\nHost: "+e.Address+"\r\nConnection: close\r\n\r\n")
		}
	}
	name := deniedName(p.Nonce)
	ask("proxy CONNECT "+name, "CONNECT "+name+":443 HTTP/1.1\r\nHost: "+name+":443\r\n\r\n")
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// deniedName is a host that no policy has: ".invalid" is nobody's (RFC 2606).
func deniedName(nonce string) string { return "probe-" + nonce + ".invalid" }

// surface says what the kernel lets this process do.
func (p *plan) surface(say func(what, saw string)) {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp", "NSpid":
			say("status "+name, strings.TrimSpace(value))
		}
	}
	ids, _ := os.ReadFile("/proc/self/uid_map")
	say("uid_map", strings.Join(strings.Fields(string(ids)), " "))
	say("uid", fmt.Sprint(os.Getuid()))
	say("new user namespace", outcomeOf(exec.Command("unshare", "-U", "true").Run()))
	say("foreign system calls", foreign(p.Control))
	pids, _ := filepath.Glob("/proc/[0-9]*")
	say("processes", fmt.Sprint(len(pids)))
	if p.Object != "" {
		out, err := exec.Command("git", "-C", p.Control, "cat-file", "blob", p.Object).Output()
		say("object of another run", strings.TrimSpace(string(out)+" "+outcomeOf(err)))
	}
}

// elf32 is a program that ends with 42 by a system call of another architecture: mov eax, 1; mov ebx, 42; int 0x80.
var elf32 = []byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00\x01\x00\x00\x00\x54\x80\x04\x08\x34\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x34\x00\x20\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x80\x04\x08\x00\x80\x04\x08\x60\x00\x00\x00" +
	"\x60\x00\x00\x00\x05\x00\x00\x00\x00\x10\x00\x00\xb8\x01\x00\x00\x00\xbb\x2a\x00\x00\x00\xcd\x80")

// foreign runs a 32-bit program: "killed" by the filter, "reached" the kernel, or the machine has no such programs.
func foreign(dir string) string {
	path := filepath.Join(dir, "probe32")
	defer os.Remove(path)
	if err := os.WriteFile(path, elf32, 0o700); err != nil {
		return outcomeOf(err)
	}
	err := exec.Command(path).Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 42:
		return "reached"
	case errors.As(err, &exit):
		return "killed"
	}
	return "none here: " + outcomeOf(err)
}

// fork makes more processes than there may be; all of them end when this one does.
func (p *plan) fork(say func(what, saw string)) {
	hold, release, err := os.Pipe()
	if err != nil {
		say("processes", outcomeOf(err))
		return
	}
	defer release.Close()
	made := 0
	for range p.Amount {
		pid, err := syscall.ForkExec("/bin/cat", []string{"cat"}, &syscall.ProcAttr{Files: []uintptr{hold.Fd(), 1, 2}})
		if err != nil || pid <= 0 {
			say("processes", fmt.Sprintf("%d of %d, then %s", made, p.Amount, outcomeOf(err)))
			return
		}
		made++
	}
	say("processes", fmt.Sprintf("%d of %d", made, p.Amount))
}

// fill touches more memory than there may be. A boundary that holds does not let it come to the end.
func (p *plan) fill(say func(what, saw string)) {
	const step = 8 << 20
	for done := int64(0); done < p.Amount; done += step {
		block, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			say("memory", fmt.Sprintf("%d of %d bytes, then %s", done, p.Amount, outcomeOf(err)))
			return
		}
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
	}
	say("memory", fmt.Sprintf("%d of %d bytes", p.Amount, p.Amount))
}
