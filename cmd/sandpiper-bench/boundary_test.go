package main

import (
	"strings"
	"testing"
)

func TestFiguresOfBenchmarks(t *testing.T) {
	t.Parallel()
	f := figures{}
	f.read("goos: linux\nBenchmarkLaunch-2   \t      60\t 266848815 ns/op\t        28.16 bubblewrap-ms\t         2.275 whole-ratio\nPASS\n" +
		"BenchmarkTransfer-2 \t 6\t 22 ns/op\t 0.2100 egress-CPU-s/GiB\t 0.96 plain-ratio\n")
	if f["Launch bubblewrap-ms"] != 28.16 || f["Launch whole-ratio"] != 2.275 || f["Transfer egress-CPU-s/GiB"] != 0.21 {
		t.Errorf("read %v", f)
	}
	text := boundaryReport(f)
	for _, want := range []string{"| ≤ 2 | 2.27 | no |", "| ≥ 0.95 | 0.96 | yes |", "| ≤ 1.3 | - | not measured |", "| ≤ 0.5 | 0.21 | yes |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
