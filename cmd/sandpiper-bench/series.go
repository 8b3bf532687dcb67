package main

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sample is what one row took once.
type sample struct{ wall, cpu float64 } // seconds; cpu: of this process and of the children that it has waited for

// series are the samples of one size, for each row those of each round: rows that take little run several times in a round.
type series struct {
	files  int
	rounds map[string][][]sample
	bytes  int64 // of a run before changes, with its directory
	inodes int
	scans  string // what git status inside has read again
	peak   int64  // bytes: the most that one process had in memory while a first base was made
}

func newSeries(files int) *series { return &series{files: files, rounds: map[string][][]sample{}} }

func (s *series) add(row string, round int, v sample) {
	for len(s.rounds[row]) <= round {
		s.rounds[row] = append(s.rounds[row], nil)
	}
	s.rounds[row][round] = append(s.rounds[row][round], v)
}

func wall(v sample) float64       { return v.wall }
func processors(v sample) float64 { return v.cpu }

// all gives one measure of all samples of a row.
func (s *series) all(row string, of func(sample) float64) (out []float64) {
	for _, round := range s.rounds[row] {
		for _, v := range round {
			out = append(out, of(v))
		}
	}
	return out
}

func (s *series) median(row string) float64 { return median(s.all(row, wall)) }

func (s *series) fastest(row string) float64 { return slices.Min(s.all(row, wall)) }

// ratio compares two rows: the median of the ratios of the rounds, that of the fastest samples, and that of the time of processors.
type ratio struct{ paired, fastest, processors float64 }

func compare(a *series, row string, b *series, to string) (r ratio, ok bool) {
	if len(a.rounds[row]) == 0 || len(a.rounds[row]) != len(b.rounds[to]) {
		return r, false
	}
	var paired []float64
	for i := range a.rounds[row] {
		of := func(round []sample) float64 {
			v := make([]float64, len(round))
			for k := range round {
				v[k] = round[k].wall
			}
			return median(v)
		}
		paired = append(paired, of(a.rounds[row][i])/of(b.rounds[to][i]))
	}
	return ratio{median(paired), a.fastest(row) / b.fastest(to), median(a.all(row, processors)) / median(b.all(to, processors))}, true
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// take measures one call.
func take(do func() error) (sample, error) {
	before, start := used(), time.Now()
	err := do()
	return sample{time.Since(start).Seconds(), used() - before}, err
}

// used is the time that we and our children have had of them, in seconds.
func used() (seconds float64) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		_ = unix.Getrusage(who, &u)
		seconds += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	return seconds
}
