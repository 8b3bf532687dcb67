package attacks

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// attack is one thing to try. In the script $N is the nonce of this try, $OUT a directory of the host that everybody may write,
// $PORT a listener on loopback, $ABSTRACT one on an abstract socket, $VICTIM a process of the host.
type attack struct {
	name   string
	script string
	// breached says what the host has seen of it; empty: nothing.
	breached func(h *host) string
	mayDie   bool // the boundary may end the script
	perl     bool
}

// limits of the sandboxes under attack. Attacks try to use twice as much, or a little more.
var limits = sandbox.Limits{Procs: 96, Memory: 128 << 20, Disk: 24 << 20, Output: 1 << 20, Files: 500}

var battery = []attack{
	{name: "write outside", script: `echo x >"$OUT/$N"; cd /; echo x >".$OUT/$N"`, breached: marker},
	{name: "write by a link", script: `ln -s "$OUT" link; echo x >link/"$N"; rm -f link`, breached: marker},
	{name: "write by a parent", script: `echo x >"../../../../../../../../../$OUT/$N"`, breached: marker},
	{name: "write into a home", script: `echo "# $N" >>"$OUT/home/.profile"; HOME=$OUT/home; echo "# $N" >>~/.profile`, breached: grown("home/.profile")},
	{name: "write by a hard link", script: `ln "$OUT/home/.profile" mine && echo "$N" >>mine; rm -f mine`, breached: grown("home/.profile")},
	{name: "read a secret", script: `cat "$OUT/secret"; find / -xdev -name "secret-$N" 2>/dev/null | xargs cat`, breached: leaked},
	{name: "read an environment", script: `cat /proc/*/environ 2>/dev/null | tr '\0' '\n'`, breached: leaked},
	{name: "read by a process", script: `cat "/proc/$VICTIM/cwd/secret" "/proc/$VICTIM/root$OUT/secret"`, breached: leaked},
	{name: "kill a process", script: `kill -9 "$VICTIM"; kill -9 -1`, breached: killed, mayDie: true},
	{name: "call a listener", perl: true, script: `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in($ENV{PORT}, INADDR_LOOPBACK)) && syswrite(S, $ENV{N})'`, breached: heard},
	{name: "call an abstract socket", perl: true, script: `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("\0$ENV{ABSTRACT}")) && syswrite(S, $ENV{N})'`, breached: heard},
	{name: "call without the proxy", perl: true, script: `unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; NO_PROXY='*' perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(PeerAddr => "localhost:$ENV{PORT}") and print $s $ENV{N}'`, breached: heard},
	{name: "leave a process", script: `setsid sh -c 'exec sleep 300.'"$TAG" >/dev/null 2>&1 </dev/null & :`, breached: survived},
	{name: "make a namespace", script: `unshare -Urm sh -c 'mount -t tmpfs x /mnt' && echo "BROKE $N"`, breached: said},
	{name: "trace a process", perl: true, script: `perl -e 'print "BROKE $ENV{N}\n" if syscall(101, 0, 0, 0, 0) == 0'`, breached: said},
	{name: "use the kernel's keyring", perl: true, script: `perl -e '($a, $b, $c) = ("user", $ENV{N}, "v"); print "BROKE $ENV{N}\n" if syscall(248, $a, $b, $c, 1, -2) >= 0'`, breached: said},
	{name: "ask for io_uring", perl: true, script: `perl -e '$p = "\0" x 256; $r = syscall(425, 1, $p); print "BROKE $ENV{N}\n" if $r >= 0'`, breached: said},
	{name: "make a device", script: `mknod "white-$N" c 0 0 && echo "BROKE $N"`, breached: said},
	{name: "have cores given to a program of the host", perl: true, script: `perl -e '$l = pack("QQ", 0, 0); syscall(302, 0, 0x100000004, $l, 0); syscall(160, 0x100000004, $l); syscall(302, 0, 4, $l, 0);
open(L, "/proc/self/limits"); print "BROKE $ENV{N}\n" if grep { /core file size +0 / } <L>'`, breached: said},
	{name: "reserve the disk at once", perl: true, script: `perl -e 'open(F, ">", "f"); $s = pack("ssx4qqx24", 0, 0, 0, 16 << 20);
for (0x40305828, 0x4030582a, 0x40305839, 0x14030582a) { print "BROKE $ENV{N}\n" if syscall(16, fileno(F), $_, $s) == 0 }'`, breached: said},
	{name: "make too many processes", mayDie: true, script: `i=0; while [ $i -lt 192 ]; do sleep "3.$TAG" & i=$((i+1)); done; sleep 1; echo made`, breached: crowded},
	{name: "use too much memory", perl: true, mayDie: true, script: `perl -e 'for (1..32) { push @a, "x" x (8 << 20) } print "BROKE $ENV{N}\n"'`, breached: said},
	{name: "fill the disk", mayDie: true, script: `for i in 1 2 3 4 5 6; do head -c 8M /dev/zero >"fill-$i"; sleep 0.3; done; echo "BROKE $N"`, breached: said},
	{name: "make too many files", mayDie: true, script: `i=0; while [ $i -lt 1500 ]; do : >"f-$i"; i=$((i+1)); [ $((i % 250)) = 0 ] && sleep 0.4; done; echo "BROKE $N"`, breached: said},
	{name: "flood the output", mayDie: true, script: `head -c 3M /dev/zero | tr '\0' x`, breached: flooded},
	{name: "have the host run a monitor", script: `g=$(git rev-parse --git-dir); printf '#!/bin/sh\necho x >"%s/%s"\n' "$OUT" "$N" >run.sh; chmod +x run.sh
git config core.fsmonitor "$HOSTWS/run.sh"; git config core.hooksPath "$HOSTWS"; : >>"$g/config"`, breached: marker},
	{name: "have the host run a filter", script: `printf '#!/bin/sh\necho x >"%s/%s"; cat\n' "$OUT" "$N" >run.sh; chmod +x run.sh
git config filter.e.clean "$HOSTWS/run.sh"; echo '* filter=e' >.gitattributes; printf 'two\n' >a.txt`, breached: marker},
	{name: "have the host read another repository", script: `mkdir evil; git init -q evil/.git-dir 2>/dev/null; printf '#!/bin/sh\necho x >"%s/%s"\n' "$OUT" "$N" >run.sh; chmod +x run.sh
git init -q evil2 && git -C evil2 config core.fsmonitor "$HOSTWS/run.sh" && rm -rf .git 2>/dev/null; echo "gitdir: $HOSTWS/evil2/.git" >.git`, breached: marker},
}

func marker(h *host) string {
	if _, err := os.Stat(filepath.Join(h.out, h.nonce)); err == nil {
		return "a file was written on the host"
	}
	return ""
}

func grown(path string) func(*host) string {
	return func(h *host) string {
		if text, err := os.ReadFile(filepath.Join(h.out, path)); err != nil || bytes.Contains(text, []byte(h.nonce)) {
			return "a file of the host was changed"
		}
		return ""
	}
}

func leaked(h *host) string {
	if bytes.Contains(h.printed.Bytes(), []byte(h.canary)) {
		return "a canary came out"
	}
	return ""
}

func killed(h *host) string {
	select {
	case <-h.victimGone:
		return "a process of the host was killed"
	default:
		return ""
	}
}

func heard(h *host) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.Contains(h.received, h.nonce) {
		return "a listener of the host was reached"
	}
	return ""
}

func survived(h *host) string {
	if n := living("300." + h.tag); n > 0 {
		return "a process lives on"
	}
	return ""
}

func said(h *host) string {
	if bytes.Contains(h.printed.Bytes(), []byte("BROKE "+h.nonce)) {
		return "it says that it worked"
	}
	return ""
}

func crowded(h *host) string {
	if n := h.most.Load(); n > int64(limits.Procs)*5/4 {
		return "more processes than the limit"
	}
	return ""
}

func flooded(h *host) string {
	if int64(h.printed.Len()) > limits.Output*5/4 {
		return "more output than the limit"
	}
	return ""
}

// TestBattery makes every attack on every backend, and without one.
func TestBattery(t *testing.T) {
	for _, b := range backends(t) {
		t.Run(b.name, func(t *testing.T) {
			for _, a := range battery {
				t.Run(a.name, func(t *testing.T) {
					t.Parallel()
					if a.perl {
						if _, err := exec.LookPath("perl"); err != nil {
							t.Skip("perl is not installed")
						}
					}
					b.try(t, a)
				})
			}
		})
	}
}
