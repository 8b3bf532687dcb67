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

// verdict is one line of the table of workspaces.
type verdict struct {
	what, must string
	got        string
	fastest    string // the same of the fastest samples: what it costs when nothing else wants the machine
	processors string // and of the time of processors
	met        string
}

// met says which of the three measures are within the goal: the first decides on a machine that is idle, on one that is not the others
// say what the load has added.
func met(r ratio, most float64) string {
	switch {
	case r.paired <= most:
		return "yes"
	case r.fastest <= most:
		return "the fastest"
	case r.processors <= most && r.processors > 0:
		return "processors"
	}
	return "**no**"
}

func rated(what, must string, r ratio, most float64) verdict {
	return verdict{what, must, fmt.Sprintf("%.4f", r.paired), fmt.Sprintf("%.4f", r.fastest), fmt.Sprintf("%.4f", r.processors), met(r, most)}
}

// rule is a goal that holds a row against one of the command line of git.
type rule struct {
	files         int // 0: each size
	what, row, to string
	most          float64
}

var rules = []rule{
	{10_000, "create, base cached, in process", "create", "git: worktree add", 0.01},
	{100_000, "create, base cached, in process", "create", "git: worktree add", 0.001},
	{10_000, "create as a whole command line", "create by the command line", "git: worktree add", 0.05},
	{10_000, "eight in parallel", "eight creates", "git: eight worktree add", 0.01},
	{0, "eight in parallel", "eight creates", "create, before eight", 4},
	{0, "first base of a commit", "first base", "git: worktree add, 2 workers", 1.2},
	{100_000, "base one commit on, 10 files differ", "next base", "git: read-tree -m -u to the next", 0.2},
	{100_000, "git status inside, first time", "status inside, first", "git: status, warm", 2.5},
	{100_000, "list of changes after 17", "list of changes", "git: status, warm", 1.0 / 30},
	{100_000, "result commit", "result commit", "git: add -A, commit", 1.0 / 12},
	{1_000, "remove a run", "discard", "git: worktree remove --force", 0.1},
	{1_000, "remove one of 1,000 leaked", "reap one of 1,000 leaked", "git: worktree remove --force", 0.1},
}

// growth is how much more a row may take at the largest size than at the smallest.
var growth = map[string]float64{"create": 1.5, "list of changes": 1.5, "result commit": 2.5}

// judge holds the figures against what must be reached.
func judge(sizes []*series) []verdict {
	var goals []verdict
	for _, s := range sizes {
		goals = append(goals, s.absolute()...)
		for _, u := range rules {
			if r, ok := compare(s, u.row, s, u.to); ok && (u.files == 0 || u.files == s.files) {
				goals = append(goals, rated(fmt.Sprintf("%s, %d files", u.what, s.files), fmt.Sprintf("≤ %.4g × %s", u.most, u.to), r, u.most))
			}
		}
	}
	first, last := sizes[0], sizes[len(sizes)-1]
	for row, most := range growth {
		if r, ok := compare(last, row, first, row); ok && first != last {
			goals = append(goals, rated(fmt.Sprintf("%s, %d files beside %d", row, last.files, first.files), fmt.Sprintf("≤ %g ×", most), r, most))
		}
	}
	slices.SortStableFunc(goals, func(a, b verdict) int { return strings.Compare(a.what, b.what) })
	return goals
}

// absolute are the goals that are no ratios.
func (s *series) absolute() []verdict {
	yes := func(ok bool) string {
		if ok {
			return "yes"
		}
		return "**no**"
	}
	goals := []verdict{
		{what: fmt.Sprintf("disk of a further run, %d files", s.files), must: "≤ 128 KiB, ≤ 24 inodes", got: fmt.Sprintf("%d KiB, %d", s.bytes>>10, s.inodes),
			met: yes(s.bytes <= 128<<10 && s.inodes <= 24)},
		{what: fmt.Sprintf("files that git status inside reads again, %d files", s.files), must: "none", got: s.scans, met: yes(s.scans == "sum_scan:0")},
	}
	switch s.files {
	case 10_000:
		const most = 0.150
		life := ratio{s.median("whole life"), s.fastest("whole life"), median(s.all("whole life", processors))}
		goals = append(goals, verdict{"create, run true, inspect, discard, 10000 files", "≤ 150 ms", ms(life.paired), ms(life.fastest), ms(life.processors), met(life, most)})
	case 100_000:
		goals = append(goals, verdict{what: "memory for a first base, 100000 files", must: "≤ 360 MiB", got: fmt.Sprintf("%d MiB", s.peak>>20), met: yes(s.peak <= 360<<20)})
	}
	return goals
}

func ms(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) }

func report(all []*series, goals []verdict, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## What workspaces cost\n\nMeasured %s on %s.\n\n", time.Now().UTC().Format(time.DateOnly), machine())
	var sizes []string
	for _, s := range all {
		sizes = append(sizes, fmt.Sprint(s.files))
	}
	fmt.Fprintf(&b, "    make bench BENCH=\"-sizes=%s -rounds=%d\"\n\n", strings.Join(sizes, ","), rounds)
	b.WriteString("repeats it. Rows run in turn, round after round, in one run. Machines are noisy and file systems differ: times of different runs\n" +
		"cannot be compared, ratios can. Measured is the median of the ratios of the rounds; beside it are the ratio of the fastest samples,\n" +
		"which is the cost when nothing else wants the machine, and that of the time of processors, which a load changes little.\n\n" +
		"![Time to make a workspace](performance.svg)\n\n" +
		"### Goals\n\n| what | must reach | measured | fastest | processors | met |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, g := range goals {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", g.what, g.must, g.got, g.fastest, g.processors, g.met)
	}
	b.WriteString("\n### Times\n\nMedian and, in brackets, minimum of the rounds. Rows that begin with git are the git command line.\n\n| |")
	for _, s := range all {
		fmt.Fprintf(&b, " %d files |", s.files)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(all)) + "\n")
	rows := map[string]bool{}
	for _, s := range all {
		for row := range s.rounds {
			rows[row] = true
		}
	}
	for _, row := range slices.Sorted(mapKeys(rows)) {
		fmt.Fprintf(&b, "| %s |", row)
		for _, s := range all {
			if len(s.rounds[row]) > 0 {
				fmt.Fprintf(&b, " %s (%s) |", ms(s.median(row)), ms(s.fastest(row)))
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
	release, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-") // without what whoever built it adds
	return fmt.Sprintf("%d cores (%s) with a load of %s, Linux %s, %s, %s, as %s", runtime.NumCPU(), cpu(), one, release,
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
