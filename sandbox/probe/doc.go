// Package probe finds out by doing whether the boundary of a backend holds today.
//
// Two probes are permanent. The marker: a file is written to a disposable path outside the workspace. The connection: a test
// endpoint is called with a canary credential, which grants nothing and lies where a program that was not confined would
// find it. Both are tried inside, through the launcher that runs use, and outside of any sandbox, where they have to
// succeed: a probe whose attempts cannot succeed proves nothing. What counts is what this process, the host, sees.
//
// Around them the same program tries what a boundary is made of (namespaces, filter, capabilities, limits, the store), by which
// the strength of a backend is known. A name proves nothing.
//
// The package must not decide what follows from a verdict, and knows nothing of missions or audit records.
package probe

import (
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Verdict of a probe. There is no fourth: what was not seen to hold is inconclusive, and counts as if it did not hold.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "PASS"
	Breach       Verdict = "BREACH"
	Inconclusive Verdict = "INCONCLUSIVE"
)

// Tier is how strong a boundary is: a mistake is contained, or an adversary is.
type Tier string

// The tiers. The empty one is that of a backend whose probes did not pass.
const (
	Colleague Tier = "colleague"
	Outsider  Tier = "outsider"
)

// Outcome is that of one probe.
type Outcome struct {
	Name    string   `json:"name"` // marker, connection, surface, limits
	Verdict Verdict  `json:"verdict"`
	Why     []string `json:"why,omitempty"` // what was breached, or what is missing
}

// Result is one round of probes on one backend, with everything that was observed.
type Result struct {
	Backend  string        `json:"backend"` // that was chosen, where the machine chooses
	Verdict  Verdict       `json:"verdict"` // the worst of all
	Tier     Tier          `json:"tier"`
	Lowered  []string      `json:"lowered,omitempty"` // why the tier is not outsider
	Watched  []string      `json:"watched,omitempty"` // limits that no control group of this machine holds
	Run      sandbox.ID    `json:"run"`
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took_ns"`
	Probes   []Outcome     `json:"probes"`
	Observed []Observation `json:"observed"` // raw, as it was seen
	// Unavailable says that the backend cannot work on this machine at all, which waiting does not change.
	Unavailable bool `json:"unavailable,omitempty"`
}

// Observation is one thing that was seen, and who saw it.
type Observation struct {
	Observer string `json:"observer"` // host; inside: what the probe's program said, which is no evidence of containment
	What     string `json:"what"`
	Saw      string `json:"saw"`
}

// OK says whether the backend may be used.
func (r Result) OK() bool { return r.Verdict == Pass }

// Why is why it may not, on one line.
func (r Result) Why() string {
	for _, o := range r.Probes {
		if o.Verdict == r.Verdict && len(o.Why) > 0 {
			return "probe " + o.Name + ": " + o.Why[0]
		}
	}
	return string(r.Verdict)
}
