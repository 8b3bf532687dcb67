package jail

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Each attack has to fail because of one part of the jail, and to work without it: a control that shows that the attack
// is one, and that the part is what stops it.
func TestAttacks(t *testing.T) {
	needJail(t)
	for _, a := range []struct {
		name    string
		script  string
		works   string    // printed when it worked
		without without   // the parts that stop it
		alone   []without // each of these alone left out changes nothing: there is a second line
	}{
		{name: "write to the root", script: "echo x >/marker && echo WROTE", works: "WROTE", without: without{readOnly: true}},
		{name: "open the memory of the first process", script: `exec 3<>/proc/1/mem && echo OPENED`, works: "OPENED", without: without{init: true}},
		{name: "see the descriptors of the first process", script: `ls /proc/1/fd >/dev/null && echo SEEN`, works: "SEEN", without: without{init: true}},
		{name: "make a user namespace", script: "unshare -U true && echo MADE", works: "MADE", without: without{seccomp: true, userns: true},
			alone: []without{{seccomp: true}, {userns: true}}},
		{name: "trace a process", script: `perl -e 'if (!fork) { sleep 5; exit } $c = $!; print "TRACED\n" if syscall(101, 0, 0, 0, 0) == 0'`,
			works: "TRACED", without: without{seccomp: true}},
		{name: "use io_uring", script: `perl -e '$p = "\0" x 256; print "OPENED\n" if syscall(425, 1, $p) >= 0 or $! != 1'`, works: "OPENED", without: without{seccomp: true}},
		{name: "use the kernel's keyring", script: `perl -e '($a, $b, $c) = qw(user x y); print "ADDED\n" if syscall(248, $a, $b, $c, 1, -2) >= 0'`, works: "ADDED", without: without{seccomp: true}},
		{name: "reserve disk faster than one can watch", script: "fallocate -l 1M f && echo RESERVED", works: "RESERVED", without: without{seccomp: true}},
		{name: "reserve it by other names", script: `perl -e 'open(F, ">", "f"); for (0x40305828, 0x4030582a, 0x40305839) { $s = pack("ssx4qqx24", 0, 0, 0, 1 << 20);
print "RESERVED\n" if syscall(16, fileno(F), $_, $s) == 0 }'`, works: "RESERVED", without: without{seccomp: true}},
		{name: "make a device that needs no capability", script: "mknod white c 0 0 && echo MADE; mkfifo pipe || echo MADE", works: "MADE", without: without{seccomp: true}},
		{name: "open a socket to the hypervisor", script: `perl -e 'socket(S, 40, 1, 0) or print "$!\n"' | grep -q 'Operation not permitted' || echo TRIED`, works: "TRIED", without: without{seccomp: true}},
		{name: "hear the audit log", script: `perl -e 'print "OPENED\n" if socket(S, 16, 3, 9)'`, works: "OPENED", without: without{seccomp: true}},
		{name: "have cores given to a program of the host", script: `ulimit -S -c 0; grep -q 'core file size *0 ' /proc/self/limits && echo LOWERED`, works: "LOWERED", without: without{seccomp: true}},
		{name: "see the host's processes", script: `ls -d /proc/` + pid() + ` && echo SEEN`, works: "SEEN", without: without{namespaces: true}},
		{name: "see the host's network", script: `test $(wc -l </proc/net/dev) -gt 3 && echo SEEN`, works: "SEEN", without: without{namespaces: true}},
		{name: "see the host's name", script: `test "$(uname -n)" = sandbox || echo SEEN`, works: "SEEN", without: without{namespaces: true}},
		{name: "be root", script: `test $(id -u) = 0 && echo ROOT`, works: "ROOT", without: without{uid: true}},
	} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			if a.without.uid && os.Geteuid() != 0 {
				t.Skip("only root can start something as root")
			}
			if strings.Contains(a.script, "perl") && unix.Access("/usr/bin/perl", unix.X_OK) != nil {
				t.Skip("perl is not installed")
			}
			s := Spec{Workspace: workspace(t)}
			for _, w := range append([]without{{}}, a.alone...) {
				if o := try(t, w, s, a.script); o.says(a.works) {
					t.Errorf("it worked with %+v left out:\n%s", w, o.out)
				}
			}
			if o := try(t, a.without, s, a.script); !o.says(a.works) {
				t.Errorf("control: it did not work without what should stop it:\n%s", o.out)
			}
		})
	}
}

func pid() string { return filepath.Base(must(os.Readlink("/proc/self"))) }

func must[T any](v T, _ error) T { return v }

func TestNoCapability(t *testing.T) {
	needJail(t)
	o := try(t, without{}, Spec{}, "grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !o.says(want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
}

// A socket of the host that is outside the mounts, and one with an abstract name, which no mount hides.
func TestHostSocketsOutOfReach(t *testing.T) {
	needJail(t)
	if unix.Access("/usr/bin/perl", unix.X_OK) != nil {
		t.Skip("perl is not installed")
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", "@jail-test-"+pid())
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	script := `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); print "TCP\n" if connect(S, sockaddr_in(` + port + `, INADDR_LOOPBACK));
socket(U, AF_UNIX, SOCK_STREAM, 0); print "ABSTRACT\n" if connect(U, pack_sockaddr_un("\0jail-test-` + pid() + `"))'`
	if o := try(t, without{}, Spec{}, script); o.says("TCP") || o.says("ABSTRACT") {
		t.Errorf("reached: %s", o.out)
	}
	if o := try(t, without{namespaces: true}, Spec{}, script); !o.says("TCP") || !o.says("ABSTRACT") {
		t.Errorf("control: not reached without namespaces: %s", o.out)
	}
}

// What the tools of a build need stays: sockets of their own, pseudo terminals, threads, signals among themselves.
func TestOrdinaryToolsWork(t *testing.T) {
	needJail(t)
	for tool, script := range map[string]string{
		"perl":    `perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; socket(S, AF_UNIX, SOCK_STREAM, 0) or die; bind(S, pack_sockaddr_un("/tmp/s")) or die; open(T, "+<", "/dev/ptmx") or die'`,
		"git":     `git init -q . && git -c user.name=x -c user.email=x@invalid commit -q --allow-empty -m x && git status`,
		"python3": `python3 -c 'import multiprocessing as m; p = m.Pool(2); assert p.map(abs, [-1, 2]) == [1, 2]'`,
		"node":    `node -e 'require("child_process").execFileSync("true"); require("worker_threads")'`,
		"go":      `cd /tmp && printf 'package main\nfunc main() { println("ran") }\n' >m.go && gofmt -l m.go && go env GOROOT`,
		"sh":      `set -e; sleep 100 & kill $!; test -w /dev/shm; test -r /etc/passwd; echo x | cat >/dev/stdout; test "$(umask)" = 0022; mkdir /tmp/d; test -d /var/tmp/d; id -un | grep agent`,
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := Spec{Workspace: workspace(t)}
			if !try(t, without{}, s, "command -v "+tool+" && echo THERE").says("THERE") {
				t.Skipf("%s is not installed", tool)
			}
			if o := try(t, without{}, s, script); o.Code != 0 {
				t.Errorf("ended with %d (%s):\n%s", o.Code, o.Reason, o.out)
			}
		})
	}
}

// Secrets of the host are not there: not the files, not the environment of whoever started the jail.
func TestNothingOfTheHost(t *testing.T) {
	needJail(t)
	script := `cat /etc/shadow /etc/ssh/* /root/.* /home/*/.ssh/* 2>/dev/null; ls /sys /boot /srv /mnt 2>/dev/null; ls -A /run; env`
	o := try(t, without{}, Spec{Env: []string{"GIVEN=1"}}, script)
	want := "HOME=/home/agent\nPATH=" + Path + "\nUSER=agent\nLOGNAME=agent\nLANG=C.UTF-8\nPWD=/\nGIVEN=1\n"
	for line := range strings.Lines(o.out) {
		if !strings.Contains(want, line) {
			t.Errorf("there is %q", line)
		}
	}
}

// The standard streams are pipes. A file that the launcher reads from could be reopened for writing by /proc/self/fd/0.
func TestStandardStreamsLeadNowhere(t *testing.T) {
	needJail(t)
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(path+".out", os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	script := `cat; echo bad >/proc/self/fd/0; echo bad 1<>/proc/self/fd/1; test -t 0 && echo TERMINAL`
	if _, err := Run(t.Context(), Spec{Argv: []string{"sh", "-c", script}}, Stdio{In: in, Out: out}); err != nil {
		t.Fatal(err)
	}
	if got := string(must(os.ReadFile(path))); got != "text" {
		t.Errorf("the input is now %q", got)
	}
	if got := string(must(os.ReadFile(path + ".out"))); got != "textbad\n" {
		t.Errorf("the output is %q", got)
	}
}

// The parts that are about what the launcher has: its environment, its descriptors, its terminal.
func TestLauncherGivesNothingAway(t *testing.T) {
	needJail(t)
	t.Run("environment", func(t *testing.T) {
		t.Parallel()
		script := `env; for p in /proc/[0-9]*; do tr '\0' '\n' <$p/environ; tr '\0' '\n' <$p/cmdline; done 2>/dev/null`
		out, _ := launcher(t, "init", workspace(t), script).CombinedOutput()
		if strings.Contains(string(out), "canary-4711") {
			t.Errorf("the canary is in\n%s", out)
		}
		out, _ = launcher(t, "environment,init", workspace(t), script).CombinedOutput()
		if !strings.Contains(string(out), "canary-4711") {
			t.Errorf("control: the canary is not in\n%s", out)
		}
	})
	t.Run("descriptors", func(t *testing.T) {
		t.Parallel()
		f, err := os.CreateTemp(t.TempDir(), "secret")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, leaveOut := range []string{"", "closeFDs"} {
			cmd := launcher(t, leaveOut, workspace(t), `ls -l /proc/self/fd`)
			cmd.ExtraFiles = append(cmd.ExtraFiles, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f) // beyond those that are used
			out, err := cmd.CombinedOutput()
			if got, want := strings.Contains(string(out), "secret"), leaveOut != ""; got != want || err != nil {
				t.Errorf("without %q: inherited: %v, %v\n%s", leaveOut, got, err, out)
			}
		}
	})
	t.Run("terminal", func(t *testing.T) {
		t.Parallel()
		for _, leaveOut := range []string{"", "session"} {
			master, slave := terminal(t)
			cmd := launcher(t, leaveOut, workspace(t), `echo to-the-terminal >/dev/tty; exit 0`)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
			cmd.ExtraFiles = []*os.File{slave}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			_ = master.SetReadDeadline(time.Now().Add(time.Second))
			buf := make([]byte, 100)
			n, _ := master.Read(buf)
			if got, want := strings.Contains(string(buf[:n]), "to-the-terminal"), leaveOut != ""; got != want {
				t.Errorf("without %q: reached: %v", leaveOut, got)
			}
		}
	})
}

func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo terminals: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slaveFD, err := unix.Open(filepath.Join("/dev/pts", strconv.Itoa(n)), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master, slave = os.NewFile(uintptr(fd), "master"), os.NewFile(uintptr(slaveFD), "slave")
	t.Cleanup(func() { master.Close(); slave.Close() })
	return master, slave
}
