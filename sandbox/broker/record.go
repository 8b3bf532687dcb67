package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Decision is what became of a call.
type Decision string

// The decisions. An allowed call may still fail: its status says so.
const (
	Allow Decision = "allow"
	Deny  Decision = "deny"
)

// Record is one call. There is nothing in it of a body, a query or a header.
type Record struct {
	Time       time.Time     `json:"time"`
	Run        sandbox.ID    `json:"run"`
	Action     string        `json:"action"` // its name; of what is no action: method and path, as asked for
	Method     string        `json:"method"`
	Path       string        `json:"path"` // the template
	Decision   Decision      `json:"decision"`
	Rule       string        `json:"rule,omitempty"` // that refused it
	Status     int           `json:"status"`
	Up         int64         `json:"bytes_up"` // from the sandbox
	Down       int64         `json:"bytes_down"`
	Duration   time.Duration `json:"duration_ns"`
	Model      string        `json:"model,omitempty"`
	Tokens     Tokens        `json:"tokens,omitzero"`
	Estimated  bool          `json:"estimated,omitempty"` // the answer did not tell the tokens to its end
	Money      int64         `json:"money,omitempty"`     // millionths of a US dollar
	Credential string        `json:"credential,omitempty"`
}

// maxRecords is how many calls of one command are written down; a command in a loop can make more, which are counted.
const maxRecords = 20_000

// record adds a record to the file and the log. A refusal is remembered as a finding too.
func (s *Session) record(r Record) {
	line, err := json.Marshal(r)
	s.mu.Lock()
	if r.Decision == Deny {
		s.refuse(r)
	}
	left := s.written >= maxRecords
	if s.written++; err == nil && !left {
		_, err = s.file.Write(append(line, '\n'))
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Error("broker: a call could not be recorded", "run", r.Run, "action", r.Action, "error", err)
	}
	if left {
		return
	}
	s.log.Info("broker", "run", r.Run, "action", r.Action, "method", r.Method, "path", r.Path, "decision", r.Decision, "rule", r.Rule,
		"status", r.Status, "up", r.Up, "down", r.Down, "took", r.Duration, "model", r.Model, "input", r.Tokens.input(),
		"output", r.Tokens.Output, "money", r.Money, "credential", r.Credential)
}

// maxFindings is how many different refusals of one command become findings; the last one counts all others.
const maxFindings = 32

func (s *Session) refuse(r Record) {
	evidence := r.Rule + ": " + r.Action
	if _, known := s.refused[evidence]; !known && len(s.refused) >= maxFindings {
		evidence = "further refusals"
	}
	s.refused[evidence]++
}

// findings are the refusals, each once. The lock is held.
func (s *Session) findings() []sandbox.Finding {
	var out []sandbox.Finding
	for _, evidence := range slices.Sorted(maps.Keys(s.refused)) {
		text := evidence
		if n := s.refused[evidence]; n > 1 {
			text += fmt.Sprintf(" (%d times)", n)
		}
		out = append(out, sandbox.Finding{Run: s.run, Time: s.now().UTC(), Kind: "broker.refused", Severity: "low", Observer: "host",
			Evidence: text, Outcome: "contained"})
	}
	return out
}
