package main

import (
	"fmt"
	"math"
	"strings"
)

// lines of the plot: what it takes to get a workspace.
var lines = []struct{ row, label, colour string }{
	{"git: worktree add", "git worktree add", "#c0392b"},
	{"first base", "first base of a commit", "#d68910"},
	{"next base", "base of the next commit", "#7d3c98"},
	{"create by the command line", "create, whole command line", "#2471a3"},
	{"create", "create, in process", "#1e8449"},
}

// plot draws the times over the sizes, both by powers of ten.
func plot(all []*series) string {
	const left, top, width, height = 70.0, 30.0, 420.0, 300.0
	const fastest, slowest = -3.0, 2.0 // 1 ms to 100 s
	small, large := math.Log10(float64(all[0].files)), math.Log10(float64(all[len(all)-1].files))
	x := func(files int) float64 { return left + width*(math.Log10(float64(files))-small)/max(large-small, 1) }
	y := func(s float64) float64 {
		return top + height*(slowest-min(max(math.Log10(s), fastest), slowest))/(slowest-fastest)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 390" font-family="sans-serif" font-size="12">`+"\n"+
		`<rect width="720" height="390" fill="white"/><text x="%g" y="18" font-size="14">Time to make a workspace, by the files of the repository</text>`+"\n", left)
	for p := fastest; p <= slowest; p++ {
		at := y(math.Pow(10, p))
		label := fmt.Sprintf("%g s", math.Pow(10, p))
		if p < 0 {
			label = fmt.Sprintf("%g ms", math.Pow(10, p+3))
		}
		fmt.Fprintf(&b, `<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, at, left+width, at, left-8, at+4, label)
	}
	for _, s := range all {
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle">%d files</text>`+"\n", x(s.files), top+height+20, s.files)
	}
	for i, line := range lines {
		var points []string
		for _, s := range all {
			if t := s.median(line.row); t > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(s.files), y(t)))
			}
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5"/>`+"\n", strings.Join(points, " "), line.colour)
		for _, p := range points {
			px, py, _ := strings.Cut(p, ",")
			fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="3.5" fill="%s"/>`+"\n", px, py, line.colour)
		}
		fmt.Fprintf(&b, `<rect x="%g" y="%g" width="14" height="4" fill="%s"/><text x="%g" y="%g">%s</text>`+"\n",
			left+width+15, top+20+float64(i)*22, line.colour, left+width+35, top+26+float64(i)*22, line.label)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
