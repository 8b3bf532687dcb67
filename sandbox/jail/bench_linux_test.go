package jail

import (
	"net"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkRun is a whole run of /bin/true; BenchmarkBubblewrap is bubblewrap alone with the same flags, mounts and filter.
func BenchmarkRun(b *testing.B) {
	needJail(b)
	dir := workspace(b)
	for b.Loop() {
		if _, err := Run(b.Context(), Spec{Name: "bench", Argv: []string{"/bin/true"}, Workspace: dir}, Stdio{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRunListening is BenchmarkRun with a listener inside.
func BenchmarkRunListening(b *testing.B) {
	needJail(b)
	s := Spec{Name: "bench", Argv: []string{"/bin/true"}, Workspace: workspace(b), Listen: func(l net.Listener) { _, _ = l.Accept() }}
	for b.Loop() {
		if _, err := Run(b.Context(), s, Stdio{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBubblewrap(b *testing.B) {
	needJail(b)
	program, err := filter()
	if err != nil {
		b.Fatal(err)
	}
	args, contents, err := bwrapArgs(Spec{Argv: []string{"/bin/true"}}, Limits{}.withDefaults(), identity(0), nil, without{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var files closers
		cmd := exec.Command("bwrap")
		give := func(content []byte) string {
			f, err := files.memory("bench", content)
			if err != nil {
				b.Fatal(err)
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, f)
			return strconv.Itoa(2 + len(cmd.ExtraFiles))
		}
		for path, content := range contents {
			cmd.Args = append(cmd.Args, "--perms", "0644", "--file", give([]byte(content)), path)
		}
		cmd.Args = append(append(append(cmd.Args, "--seccomp", give(program)), args...), "--", "/bin/true")
		if os := unix.Geteuid(); os == 0 {
			cmd.SysProcAttr = asTree()
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		files.close()
	}
}
