package jail

import (
	"io/fs"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkLaunch holds a whole run of /bin/true against bubblewrap alone with the same flags, mounts and filter. They take turns, so
// that a busy machine is as busy for each. A ratio is the median of those of the rounds; beside it are that of the fastest of each,
// which is the cost when nothing else wants the machine, and that of the time of processors, which a load changes little. Wanted: the
// whole jail (overlay, filter, limits, listener) in at most twice the time of bubblewrap.
func BenchmarkLaunch(b *testing.B) {
	needJail(b)
	true1 := Spec{Name: "bench", Argv: []string{"/bin/true"}, Workspace: workspace(b)}
	listening := true1
	listening.Listen = func(l net.Listener) { _, _ = l.Accept() }
	whole := listening
	whole.Workspace, whole.Mounts = "", []Mount{benchLayers(b)}
	ways := []struct {
		name string
		run  func()
	}{
		{"bubblewrap", plain(b, true1)},
		{"jail", launches(b, true1)},
		{"listening", launches(b, listening)},
		{"whole", launches(b, whole)},
	}
	took, cpu := map[string][]float64{}, map[string]float64{}
	for b.Loop() {
		// The kernel still takes the namespaces of one apart when the next begins: not always the same one is to follow on another.
		for _, i := range rand.Perm(len(ways)) {
			way := ways[i]
			used, begin := processors(b), time.Now()
			way.run()
			took[way.name] = append(took[way.name], time.Since(begin).Seconds())
			cpu[way.name] += processors(b) - used
		}
	}
	for _, way := range ways {
		ratios := make([]float64, b.N)
		for i := range ratios {
			ratios[i] = took[way.name][i] / took["bubblewrap"][i]
		}
		b.ReportMetric(1000*median(took[way.name]), way.name+"-ms")
		if way.name != "bubblewrap" {
			b.ReportMetric(median(ratios), way.name+"-ratio")
			b.ReportMetric(slices.Min(took[way.name])/slices.Min(took["bubblewrap"]), way.name+"-fastest-ratio")
			b.ReportMetric(cpu[way.name]/cpu["bubblewrap"], way.name+"-cpu-ratio")
		}
	}
}

// processors is the time that this process and those it has waited for have used, in seconds.
func processors(b *testing.B) (seconds float64) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if err := unix.Getrusage(who, &r); err != nil {
			b.Fatal(err)
		}
		seconds += float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
	}
	return seconds
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func launches(b *testing.B, s Spec) func() {
	return func() {
		if res, err := Run(b.Context(), s, Stdio{}); err != nil || res.Code != 0 {
			b.Fatal(res, err)
		}
	}
}

// benchLayers is an overlay with one directory below.
func benchLayers(b *testing.B) Mount {
	dir := b.TempDir()
	lower, upper, work := filepath.Join(dir, "lower"), filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{lower, upper, work} {
		if err := unix.Mkdir(d, 0o755); err != nil {
			b.Fatal(err)
		}
		give(b, d)
	}
	b.Cleanup(func() { // the kernel has made some for nobody to enter
		_ = filepath.WalkDir(work, func(path string, _ fs.DirEntry, _ error) error { return unix.Chmod(path, 0o700) })
	})
	return Mount{Host: upper, Inside: WorkspaceDir, Writable: true, Overlay: &Overlay{Lower: []string{lower}, Work: work}}
}

// plain is bubblewrap, started as one would by hand.
func plain(b *testing.B, s Spec) func() {
	program, err := filter()
	if err != nil {
		b.Fatal(err)
	}
	args, contents, err := bwrapArgs(s, Limits{}.withDefaults(), identity(0), nil, without{})
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		var files closers
		defer files.close()
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
		cmd.Args = append(append(append(cmd.Args, "--seccomp", give(program)), args...), "--chdir", "/", "--", "/bin/true")
		if unix.Geteuid() == 0 {
			cmd.SysProcAttr = asTree()
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		_ = yield(cmd.Process.Pid) // as a tree does: else a busy machine shows nothing but that
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}
