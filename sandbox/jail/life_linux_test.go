package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// unique is a word that only processes of this test have in their command line.
func unique(t *testing.T) string {
	return fmt.Sprintf("%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
}

// Whatever a command leaves behind is dead when Run returns; without a pid namespace it lives on.
func TestNothingOutlivesTheCommand(t *testing.T) {
	needJail(t)
	t.Parallel()
	script := func(word string) string {
		return `(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done' ` + word + ` >/dev/null 2>&1 &)
sh -c 'while :; do sleep 1; done' ` + word + ` & sleep 0.2`
	}
	word := unique(t)
	try(t, without{}, Spec{Workspace: workspace(t)}, script(word))
	if left := alive(t, word); len(left) > 0 {
		t.Errorf("%d processes are alive after the end", len(left))
	}
	word = unique(t) + "-control"
	ended := make(chan struct{})
	go func() { // it would wait for those that hold its output
		defer close(ended)
		_, _ = run(t.Context(), Spec{Argv: []string{"sh", "-c", script(word)}, Workspace: workspace(t)}, Stdio{Out: io.Discard}, without{namespaces: true, cgroup: true})
	}()
	daemon := func() []int { return alive(t, "while :; do sleep 1; done\x00"+word) }
	main := func() []int { return alive(t, "sleep 0.2") }
	eventually(t, "control: something lives on", func() bool { return len(daemon()) == 2 && len(main()) == 0 })
	for _, pid := range daemon() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	<-ended
}

// When the launcher is killed with SIGKILL, all dies with it; without the tie to the parent it lives on.
func TestTreeDiesWithTheLauncher(t *testing.T) {
	needJail(t)
	for _, leaveOut := range []string{"", "parent"} {
		t.Run("without "+leaveOut, func(t *testing.T) {
			t.Parallel()
			word := strings.ReplaceAll(unique(t), "/", "-")
			word = strings.ReplaceAll(word, " ", "-")
			cmd := launcher(t, leaveOut, workspace(t), `setsid sh -c 'sleep 30; :' `+word+` & sh -c 'sleep 30; :' `+word)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			in := func() int { return len(alive(t, word)) }
			eventually(t, "the tree is up", func() bool { return in() >= 4 }) // the launcher, its sh and two of it
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if leaveOut == "" {
				eventually(t, "the tree is dead", func() bool { return in() == 0 })
				return
			}
			if in() == 0 {
				t.Error("control: it died although nothing ties it to the launcher")
			}
			for _, pid := range alive(t, word) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			eventually(t, "cleaned up", func() bool { return in() == 0 })
		})
	}
	t.Cleanup(func() { _, _ = Sweep(context.Background()) })
}

func TestCancel(t *testing.T) {
	needJail(t)
	t.Parallel()
	word := unique(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	go func() {
		_, _ = r.Read(make([]byte, 1))
		cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	res, err := Run(ctx, Spec{Argv: []string{"sh", "-c", "echo x; trap '' TERM; sleep 30", word}}, Stdio{Out: w})
	if err != nil || res.Reason != Cancelled || res.Code != -1 {
		t.Errorf("got %+v, %v", res, err)
	}
	if left := alive(t, word); len(left) > 0 {
		t.Errorf("%d processes are alive after the end", len(left))
	}
}

// A writer that fails (its reader is gone) ends the tree, as SIGPIPE would.
func TestReaderGone(t *testing.T) {
	needJail(t)
	t.Parallel()
	r, w := io.Pipe()
	r.Close()
	res, err := Run(t.Context(), Spec{Argv: []string{"sh", "-c", "echo x; sleep 30"}}, Stdio{Out: w})
	if err != nil || res.Reason != Cancelled {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestResults(t *testing.T) {
	needJail(t)
	for name, c := range map[string]struct {
		script string
		want   Result
		out    string
	}{
		"ends well":       {"echo out; echo err >&2", Result{Reason: Exited, OutputBytes: 8}, "out\nerr\n"},
		"fails":           {"exit 3", Result{Reason: Exited, Code: 3}, ""},
		"killed":          {"kill -9 $$", Result{Reason: Signaled, Code: 137, Signal: "killed"}, ""},
		"speaks as bwrap": {"echo bwrap: hello; echo bwrap: execvp x: no >&2", Result{Reason: Exited, OutputBytes: 39}, "bwrap: hello\nbwrap: execvp x: no\n"},
		"fails as bwrap":  {"printf 'bwrap: execvp x: No such file or directory\n' >&2; exit 1", Result{Reason: Exited, Code: 1, OutputBytes: 47}, "bwrap: execvp x: No such file or directory\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, same := range []bool{true, false} {
				var out, errs bytes.Buffer
				std := Stdio{Out: &out, Err: &out}
				if !same {
					std.Err = &errs
				}
				res, err := Run(t.Context(), Spec{Argv: []string{"sh", "-c", c.script}}, std)
				if err != nil {
					t.Fatal(err)
				}
				if res.Ended.Before(res.Started) {
					t.Errorf("it ended at %v, before it started at %v", res.Ended, res.Started)
				}
				c.want.OutputBytes = int64(len(c.out))
				c.want.Started, c.want.Ended, c.want.Watched = res.Started, res.Ended, res.Watched // which the machine decides
				if diff := cmp.Diff(c.want, res); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				if got := out.String() + errs.String(); got != c.out {
					t.Errorf("printed %q, want %q", got, c.out)
				}
			}
		})
	}
}

func TestNotStarted(t *testing.T) {
	needJail(t)
	for name, c := range map[string]struct {
		spec Spec
		code int
	}{
		"no such command": {Spec{Argv: []string{"nosuch-command"}}, 127},
		"no such file":    {Spec{Argv: []string{"/nosuch"}}, 127},
		"a directory":     {Spec{Argv: []string{"/usr"}}, 126},
		"not executable":  {Spec{Argv: []string{"/etc/passwd"}}, 126},
		"no directory":    {Spec{Argv: []string{"true"}, Dir: "/nosuch"}, 126},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			res, err := Run(t.Context(), c.spec, Stdio{Out: &out, Err: &out})
			var not *NotStarted
			if !errors.As(err, &not) || not.Code != c.code || res.Reason != FailedToStart || out.Len() > 0 {
				t.Errorf("got %+v, %v, printed %q", res, err, out.String())
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	ok := []string{"true"}
	for name, s := range map[string]Spec{
		"no command":          {},
		"a NUL":               {Argv: []string{"a\x00b"}},
		"a name with a slash": {Argv: ok, Name: "../x"},
		"no NAME=value":       {Argv: ok, Env: []string{"secret-word"}},
		"a relative mount":    {Argv: ok, Mounts: []Mount{{Host: "a", Inside: "/a"}}},
		"a mount as root":     {Argv: ok, Mounts: []Mount{{Host: "/usr", Inside: "/"}}},
		"a missing mount":     {Argv: ok, Mounts: []Mount{{Host: "/nosuch", Inside: "/a"}}},
		"secrets":             {Argv: ok, System: []string{"/etc"}},
	} {
		_, err := Run(t.Context(), s, Stdio{})
		if err == nil || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestNoBubblewrap(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Run(t.Context(), Spec{Argv: []string{"true"}}, Stdio{})
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// Mounts, home and directory are where they should be; a read-only one stays so, also below the writable workspace.
func TestMounts(t *testing.T) {
	needJail(t)
	t.Parallel()
	ws, home, extra := workspace(t), workspace(t), workspace(t)
	file := filepath.Join(extra, "file")
	if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := Spec{Workspace: ws, Home: home, Dir: "/workspace/..", Mounts: []Mount{{Host: extra, Inside: "/run/x/y"}, {Host: file, Inside: "/workspace/.git"}}}
	o := try(t, without{}, s, `pwd; cat /run/x/y/file .git /workspace/.git; echo a >/run/x/y/file; echo b >/workspace/.git; rm -f /workspace/.git
mv /workspace/.git /workspace/other; echo w >/workspace/w; echo h >$HOME/h; ls /home`)
	if diff := cmp.Diff("text", string(must(os.ReadFile(file)))); diff != "" {
		t.Errorf("the read-only file: (-want +got)\n%s%s", diff, o.out)
	}
	if string(must(os.ReadFile(ws+"/w"))) != "w\n" || string(must(os.ReadFile(home+"/h"))) != "h\n" {
		t.Errorf("not written: %s", o.out)
	}
	if os.Geteuid() == 0 {
		var st unix.Stat_t
		if err := unix.Stat(ws+"/w", &st); err != nil || st.Uid != DefaultUID || st.Gid != DefaultUID {
			t.Errorf("the file belongs to %d:%d, %v", st.Uid, st.Gid, err)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mounts), "sandpiper") {
		t.Error("a mount of the jail is left on the host")
	}
}

func TestManyAtOnce(t *testing.T) {
	needJail(t)
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			var out bytes.Buffer
			res, err := Run(t.Context(), Spec{Name: "many", Argv: []string{"sh", "-c", "cat; sleep 0.1 & exit $0", fmt.Sprint(i)}},
				Stdio{In: strings.NewReader("in"), Out: &out})
			if err != nil || res.Code != i || out.String() != "in" {
				t.Errorf("%d: got %+v, %v, %q", i, res, err, out.String())
			}
		})
	}
	all.Wait()
}
