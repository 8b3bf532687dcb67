package numstat

import "strings"

// What git's diff does (xdiff/xprepare.c and xdiffi.c; diff.c for binary files).
const (
	head    = 8000 // bytes of a content in which a zero makes it binary
	guesses = 256  // edits from which on it takes a way that may not be the shortest
)

// count gives the lines that git counts as added and removed between two contents; -1 for both when one of them is binary. Git looks for the
// fewest, which is a number that any other way to look for them finds too. Not sure are contents where it saves itself work, and may
// find more.
func count(was, is string) (added, removed int, sure bool) {
	if binary(was) || binary(is) {
		return -1, -1, true
	}
	if was == is {
		return 0, 0, true
	}
	old, now := lines(was), lines(is)
	a, b := trim(old, now)
	if len(a) == 0 || len(b) == 0 {
		return len(b), len(a), true
	}
	keptA, sureA := common(a, tally(now), frequent(len(old)))
	keptB, sureB := common(b, tally(old), frequent(len(now)))
	if !sureA || !sureB {
		return 0, 0, false
	}
	edits, ok := distance(keptA, keptB)
	same := (len(keptA) + len(keptB) - edits) / 2
	return len(b) - same, len(a) - same, ok
}

func binary(s string) bool { return strings.IndexByte(s[:min(len(s), head)], 0) >= 0 }

// lines are with their line feeds: a last one without is another one.
func lines(s string) []string {
	all := strings.SplitAfter(s, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

// trim takes away what both have alike at the beginning and then at the end, as git does before it looks any further.
func trim(a, b []string) (_, _ []string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

func tally(all []string) map[string]int {
	n := make(map[string]int, len(all))
	for _, l := range all {
		n[l]++
	}
	return n
}

// frequent is how often a line has to be in the other content for git to call it so: about the root of the number of lines.
func frequent(lines int) int {
	n := 1
	for ; lines > 0; lines >>= 2 {
		n <<= 1
	}
	return min(n, 1024)
}

// common leaves out the lines that the other content does not have at all, as git does. It also leaves out some frequent ones in runs that
// begin and end with such lines; where there may be one, nothing is sure.
func common(some []string, other map[string]int, frequent int) (kept []string, sure bool) {
	afterNone, between := false, false // such a line has been in the run, and a frequent one behind it
	for _, l := range some {
		n := other[l]
		switch {
		case n == 0 && between:
			return nil, false
		case n == 0:
			afterNone = true
			continue
		case n < frequent:
			afterNone, between = false, false
		default:
			between = afterNone
		}
		kept = append(kept, l)
	}
	return kept, true
}

// distance is the least number of lines to take out of a and put in to have b, up to where git guesses: Myers, An O(ND) difference
// algorithm, 1986.
func distance(a, b []string) (edits int, ok bool) {
	furthest := make([]int, 2*guesses+1) // of a, on each diagonal
	for d := range guesses {
		for k := -d; k <= d; k += 2 {
			x := 0
			switch {
			case d == 0:
			case k == -d || k < d && furthest[guesses+k-1] < furthest[guesses+k+1]:
				x = furthest[guesses+k+1]
			default:
				x = furthest[guesses+k-1] + 1
			}
			for x < len(a) && x-k >= 0 && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			furthest[guesses+k] = x
			if x >= len(a) && x-k >= len(b) {
				return d, true
			}
		}
	}
	return 0, false
}
