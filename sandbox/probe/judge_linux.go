package probe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// names are the probes: the two permanent ones, and what the strength of a backend is known by.
var names = []string{"marker", "connection", "surface", "limits"}

func (r *round) outcome(name string) *Outcome {
	for i := range r.result.Probes {
		if r.result.Probes[i].Name == name {
			return &r.result.Probes[i]
		}
	}
	r.result.Probes = append(r.result.Probes, Outcome{Name: name, Verdict: Pass})
	return &r.result.Probes[len(r.result.Probes)-1]
}

func (r *round) breach(name, format string, args ...any) {
	o := r.outcome(name)
	if o.Verdict != Breach {
		o.Verdict, o.Why = Breach, nil
	}
	o.Why = append(o.Why, fmt.Sprintf(format, args...))
}

// missing says what there is no evidence of. A breach that was seen stays one.
func (r *round) missing(name, format string, args ...any) {
	if o := r.outcome(name); o.Verdict != Breach {
		o.Verdict = Inconclusive
		o.Why = append(o.Why, fmt.Sprintf(format, args...))
	}
}

func (r *round) lower(format string, args ...any) {
	r.result.Lowered = append(r.result.Lowered, fmt.Sprintf(format, args...))
}

// judge turns what was seen into verdicts.
func (r *round) judge(err error) {
	for _, name := range names {
		r.outcome(name)
	}
	if err != nil {
		for _, name := range names {
			r.missing(name, "it could not be tried: %v", err)
		}
	} else {
		r.judgeMarker()
		r.judgeConnection()
		r.judgeSurface()
		r.judgeLimits()
	}
	slices.SortStableFunc(r.result.Probes, func(a, b Outcome) int { return slices.Index(names, a.Name) - slices.Index(names, b.Name) })
	r.result.Verdict = Pass
	for _, o := range r.result.Probes {
		if o.Verdict == Breach || o.Verdict == Inconclusive && r.result.Verdict == Pass {
			r.result.Verdict = o.Verdict
		}
	}
	switch {
	case r.result.Verdict != Pass:
	case len(r.result.Lowered) > 0:
		r.result.Tier = Colleague
	default:
		r.result.Tier = Outsider
	}
}

// ended says whether the program came to the end of what it was to try.
func (r *round) ended(mode string) bool { return r.inside[mode+" end"] == r.nonce }

func (r *round) judgeMarker() {
	if !r.ended("all") {
		r.missing("marker", "the program did not come to its end inside: %s", r.inside["exit all"])
	}
	if r.inside["host marker"] != r.nonce {
		r.missing("marker", "the control marker of the workspace does not lie where the host sees the workspace")
	}
	// A write that succeeds in something private is no escape, but then nothing says that it would have been refused. And what is
	// refused for want of permission would be so without a mount that is read-only: QwenLM/qwen-code#11614.
	for _, dir := range r.places() {
		for _, how := range []string{"write ", "write by a link "} {
			if saw := r.inside["all "+how+dir]; r.ended("all") && saw != "EROFS" && saw != "ENOENT" {
				r.missing("marker", "%s%s ended with %s inside, which no read-only mount says", how, dir, saw)
			}
		}
	}
}

func (r *round) judgeConnection() {
	if !r.ended("all") || !r.ended("network") {
		r.missing("connection", "the program did not come to its end inside: %s, %s", r.inside["exit all"], r.inside["exit network"])
	}
	refused := slices.ContainsFunc(r.findings, func(f sandbox.Finding) bool {
		return f.Kind == "net.denied" && strings.Contains(f.Evidence, deniedName(r.nonce)) && f.Outcome == "contained"
	})
	if !refused {
		r.missing("connection", "the proxy of the run has no record of having refused %s", deniedName(r.nonce))
	}
}

// judgeSurface is about what the kernel refuses. What the program says of it is believed where it speaks against the boundary;
// where it speaks for it, it only keeps a verdict from being inconclusive: this program is ours, and is not under attack.
func (r *round) judgeSurface() {
	said := func(what string) string { return r.inside["all "+what] }
	for what, want := range map[string]string{
		"status CapEff": "0000000000000000", "status CapPrm": "0000000000000000", "status CapBnd": "0000000000000000", "status NoNewPrivs": "1", "status Seccomp": "2",
	} {
		if got := said(what); got != want {
			r.missing("surface", "%s is %q inside, and not %s", strings.TrimPrefix(what, "status "), got, want)
		}
	}
	if said("new user namespace") == allowed {
		r.breach("surface", "a user namespace could be made inside")
	}
	if said("foreign system calls") == "reached" {
		r.breach("surface", "system calls of another architecture pass the filter")
	}
	if said("uid") == "0" {
		r.missing("surface", "the program ran as user 0")
	}
	if got := strings.Fields(said("uid_map")); len(got) > 2 && got[0] == "0" && got[1] == "0" {
		r.lower("it has no user namespace of its own")
	}
	if strings.HasPrefix(said("object of another run"), otherRun) {
		r.lower("runs share the object store: it can read objects that are not of its base")
	}
}

// judgeLimits: a limit has to hold, and that of memory by a control group: what only watches can be outrun.
func (r *round) judgeLimits() {
	for _, mode := range []string{"processes", "memory"} {
		if said := r.inside[mode+" "+mode]; said != "" && !strings.Contains(said, "then") {
			r.missing("limits", "the limit of %s did not hold: %s", mode, said)
		}
	}
	if said := r.inside["processes processes"]; said == "" {
		r.missing("limits", "no process could be started at all: %s", r.inside["exit processes"])
	}
	counted := slices.ContainsFunc(r.findings, func(f sandbox.Finding) bool { return f.Kind == "res.memory" && f.Observer == "kernel" })
	if !counted {
		r.lower("no control group holds the limit of memory (%s)", r.inside["exit memory"])
	}
}
