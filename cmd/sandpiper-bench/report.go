package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// ratio is the median of the ratios of each round.
func (s *series) ratio(row, to string) (float64, bool) {
	a, b := s.times[row], s.times[to]
	if len(a) == 0 || len(a) != len(b) {
		return 0, false
	}
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return median(r), true
}

// goal is one line of the table.
type goal struct {
	what, must string
	got        string
	ok         bool
}

// judge holds the figures against what must be reached.
func judge(all []*series) []goal {
	var goals []goal
	at := func(files int, what, row, to string, most float64) {
		for _, s := range all {
			if r, ok := s.ratio(row, to); ok && s.files == files {
				goals = append(goals, goal{fmt.Sprintf("%s, %d files", what, files), fmt.Sprintf("≤ %g × %s", most, to), fmt.Sprintf("%.4f", r), r <= most})
			}
		}
	}
	at(10_000, "create, base cached, in process", "create", "git: worktree add", 0.01)
	at(100_000, "create, base cached, in process", "create", "git: worktree add", 0.001)
	at(10_000, "create as a whole command line", "create by the command line", "git: worktree add", 0.05)
	at(10_000, "eight in parallel", "eight creates", "git: eight worktree add", 0.01)
	for _, s := range all {
		at(s.files, "eight in parallel", "eight creates", "create", 4)
		at(s.files, "first base of a commit", "first base", "git: worktree add, 2 workers", 1.2)
	}
	at(100_000, "base one commit on, 10 files differ", "next base", "git: read-tree -m -u to the next", 0.2)
	at(100_000, "git status inside, first time", "status inside, first", "git: status, warm", 2.5)
	at(100_000, "list of changes after 17", "list of changes", "git: status, warm", 1.0/30)
	at(100_000, "result commit", "result commit", "git: add -A, commit", 1.0/12)
	at(1_000, "remove a run", "discard", "git: worktree remove --force", 0.1)
	for _, s := range all {
		goals = append(goals,
			goal{fmt.Sprintf("disk of a further run, %d files", s.files), "≤ 128 KiB, ≤ 24 inodes", fmt.Sprintf("%d KiB, %d", s.bytes>>10, s.inodes),
				s.bytes <= 128<<10 && s.inodes <= 24},
			goal{fmt.Sprintf("files that git status inside reads again, %d files", s.files), "none", s.scans, s.scans == "sum_scan:0"})
		if s.files == 10_000 {
			life := median(s.times["whole life"])
			goals = append(goals, goal{"create, run true, inspect, discard, 10000 files", "≤ 150 ms", ms(life), life <= 0.150})
		}
	}
	first, last := all[0], all[len(all)-1]
	for row, most := range map[string]float64{"create": 1.5, "list of changes": 1.5, "result commit": 2.5} {
		if first != last {
			r := median(last.times[row]) / median(first.times[row])
			goals = append(goals, goal{fmt.Sprintf("%s, %d files beside %d", row, last.files, first.files), fmt.Sprintf("≤ %g ×", most), fmt.Sprintf("%.2f", r), r <= most})
		}
	}
	slices.SortStableFunc(goals, func(a, b goal) int { return strings.Compare(a.what, b.what) })
	return goals
}

func ms(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) }

func report(all []*series, goals []goal, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What workspaces cost\n\nMeasured %s on %s.\n\n", time.Now().UTC().Format(time.DateOnly), machine())
	var sizes []string
	for _, s := range all {
		sizes = append(sizes, fmt.Sprint(s.files))
	}
	fmt.Fprintf(&b, "    make bench BENCH=\"-sizes=%s -rounds=%d\"\n\n", strings.Join(sizes, ","), rounds)
	b.WriteString("repeats it. Rows run in turn, round after round, in one run; a ratio is the median of the ratios of the rounds. Machines are noisy and\n" +
		"file systems differ: times of different runs cannot be compared, ratios can.\n\n![Time to make a workspace](performance.svg)\n\n" +
		"## Goals\n\n| what | must reach | measured | |\n| --- | --- | --- | --- |\n")
	for _, g := range goals {
		mark := "yes"
		if !g.ok {
			mark = "**no**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", g.what, g.must, g.got, mark)
	}
	b.WriteString("\n## Times\n\nMedian and, in brackets, minimum of the rounds. Rows that begin with git are the git command line.\n\n| |")
	for _, s := range all {
		fmt.Fprintf(&b, " %d files |", s.files)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(all)) + "\n")
	rows := map[string]bool{}
	for _, s := range all {
		for row := range s.times {
			rows[row] = true
		}
	}
	for _, row := range slices.Sorted(mapKeys(rows)) {
		fmt.Fprintf(&b, "| %s |", row)
		for _, s := range all {
			if v := s.times[row]; len(v) > 0 {
				fmt.Fprintf(&b, " %s (%s) |", ms(median(v)), ms(slices.Min(v)))
			} else {
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func mapKeys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func machine() string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	version, _ := exec.Command("git", "version").Output()
	who := "an ordinary user"
	if os.Geteuid() == 0 {
		who = "root"
	}
	load, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%d cores (%s) with a load of %s, Linux %s, %s, %s, as %s", runtime.NumCPU(), cpu(), one, unix.ByteSliceToString(name.Release[:]),
		strings.TrimSpace(string(version)), runtime.Version(), who)
}

func cpu() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
