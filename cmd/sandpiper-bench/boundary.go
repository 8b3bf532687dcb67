package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// smokescreen is the proxy that ours is held against. It is built for a measurement and is no part of this module.
const smokescreen = "github.com/stripe/smokescreen@v0.1.0"

// figures are those of the Go benchmarks by benchmark and unit.
type figures map[string]float64

// boundary has the benchmarks of jail and egress, which lie beside their code, hold what a sandbox costs against plain bubblewrap and
// other proxies.
func boundary(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("sandpiper-bench boundary", flag.ContinueOnError)
	docs := f.String("docs", "", "directory of the performance.md that gets the figures (default: none)")
	launches := f.Int("launches", 100, "launches of each kind")
	transfers := f.Int("transfers", 10, "transfers of 256 MiB by each proxy")
	connects := f.Int("connects", 1000, "connections by each proxy")
	if err := f.Parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "sandpiper-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	rival, err := buildSmokescreen(ctx, work)
	if err != nil {
		fmt.Fprintln(os.Stderr, "without smokescreen, which could not be built:", err)
	}
	all := figures{}
	for _, b := range []struct {
		pkg, name string
		times     int
	}{{"jail", "Launch", *launches}, {"egress", "Transfer", *transfers}, {"egress", "Connect", *connects}} {
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark"+b.name+"$", "-benchtime", strconv.Itoa(b.times)+"x", "./sandbox/"+b.pkg)
		cmd.Env = append(os.Environ(), "EGRESS_BENCH_SMOKESCREEN="+rival)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("benchmark %s: %w\n%s", b.name, err, out)
		}
		all.read(string(out))
	}
	text := boundaryReport(all)
	fmt.Println(text)
	if *docs == "" {
		return nil
	}
	return writeSection(filepath.Join(*docs, "performance.md"), "boundary", text)
}

// buildSmokescreen gives the path of the program, or "" with the error.
func buildSmokescreen(ctx context.Context, dir string) (string, error) {
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module bench\n"), 0o600); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "smokescreen")
	module, _, _ := strings.Cut(smokescreen, "@")
	for _, args := range [][]string{{"get", smokescreen}, {"build", "-o", program, module}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", errors.Join(err, errors.New(string(out)))
		}
	}
	return program, nil
}

// read takes the lines of results: a name, a count, then pairs of value and unit.
func (f figures) read(out string) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "Benchmark"), "-")
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				f[name+" "+fields[i+1]] = v
			}
		}
	}
}

// boundaryGoals are what must be reached: a figure, and a bound that it must not be beyond.
var boundaryGoals = []struct {
	what, figure string
	bound        float64
	least        bool // the bound is the least, and not the most
}{
	{"launch of the whole jail (overlay, filter, limits, listener) by bubblewrap with the same flags", "Launch whole-ratio", 2, false},
	{"the same, the fastest of each", "Launch whole-fastest-ratio", 2, false},
	{"launch without overlay and listener", "Launch jail-ratio", 2, false},
	{"throughput over TLS by a plain CONNECT proxy", "Transfer plain-ratio", 0.95, true},
	{"throughput over TLS by smokescreen", "Transfer smokescreen-ratio", 1, true},
	{"added latency of a connection by a plain CONNECT proxy", "Connect plain-ratio", 1.3, false},
	{"added latency of a connection by smokescreen", "Connect smokescreen-ratio", 1, false},
	{"processor seconds per GiB over plain TCP", "Transfer egress-CPU-s/GiB", 0.5, false},
}

func boundaryReport(f figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## What the boundary costs\n\nMeasured %s on %s.\n\n", time.Now().UTC().Format(time.DateOnly), machine())
	b.WriteString("`sandpiper-bench boundary` makes these. All ways take turns; a ratio is the median of those of the rounds, because the machine has other\n" +
		"work. Plain is a CONNECT proxy of two io.Copy; smokescreen is built for the measurement, and runs without a list of hosts.\n\n" +
		"| what | must reach | measured | met |\n| --- | --- | --- | --- |\n")
	for _, g := range boundaryGoals {
		got, measured := f[g.figure]
		sign, met := "≤", got <= g.bound
		if g.least {
			sign, met = "≥", got >= g.bound
		}
		value, verdict := fmt.Sprintf("%.2f", got), map[bool]string{true: "yes", false: "no"}[met]
		if !measured {
			value, verdict = "-", "not measured"
		}
		fmt.Fprintf(&b, "| %s | %s %g | %s | %s |\n", g.what, sign, g.bound, value, verdict)
	}
	b.WriteString("\n| | bubblewrap | jail | with a listener | whole |\n| --- | --- | --- | --- | --- |\n| launch, ms |")
	for _, way := range []string{"bubblewrap", "jail", "listening", "whole"} {
		fmt.Fprintf(&b, " %.1f |", f["Launch "+way+"-ms"])
	}
	b.WriteString("\n\n| | plain | Sandpiper | smokescreen |\n| --- | --- | --- | --- |\n")
	for _, row := range []struct{ what, figure, format string }{
		{"over TLS, MB/s", "Transfer %s-MB/s", " %.0f |"}, {"added to a connection, µs", "Connect %s-added-µs", " %.0f |"},
		{"processor seconds per GiB", "Transfer %s-CPU-s/GiB", " %.2f |"},
	} {
		fmt.Fprintf(&b, "| %s |", row.what)
		for _, way := range []string{"plain", "egress", "smokescreen"} {
			fmt.Fprintf(&b, row.format, f[fmt.Sprintf(row.figure, way)])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
