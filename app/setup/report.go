package setup

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/config"
)

// Status is how one check went.
type Status string

// The statuses. A warning is something that works and will hurt; a skipped check could not be made.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Check is one thing that the doctor looked at.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`        // what was seen
	Fix    string `json:"fix,omitempty"` // what to do, where something is to be done
}

// Report is everything that the doctor found.
type Report struct {
	Settings []config.Setting `json:"settings"`
	Checks   []Check          `json:"checks"`
}

// OK says whether nothing failed.
func (r *Report) OK() bool { return r.count(Fail) == 0 }

func (r *Report) count(s Status) int {
	n := 0
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for people: the settings, then the checks, then one line that says how it stands.
func (r *Report) WriteText(w io.Writer, color bool) error {
	var b strings.Builder
	width := 0
	for _, s := range r.Settings {
		width = max(width, len(s.Name))
	}
	for _, s := range r.Settings {
		value := s.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(&b, "%-*s  %s  (%s)\n", width, s.Name, value, s.Origin)
	}
	b.WriteByte('\n')
	width = 0
	for _, c := range r.Checks {
		width = max(width, len(c.Name))
	}
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%s  %-*s  %s\n", c.Status.paint(color), width, c.Name, c.Detail)
		if c.Fix != "" {
			fmt.Fprintf(&b, "      %-*s  -> %s\n", width, "", c.Fix)
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d to look at, %d failed, %d not checked\n", r.count(OK), r.count(Warn), r.count(Fail), r.count(Skip))
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Status) paint(color bool) string {
	text := fmt.Sprintf("%-4s", string(s))
	if !color {
		return text
	}
	code := map[Status]string{OK: "32", Warn: "33", Fail: "31", Skip: "2"}[s]
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
