package agent

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Class is how an agent's work ended, in kinds that call for different next steps.
type Class string

// The classes. Finished does not say that anything was changed: only the workspace tells.
const (
	Finished    Class = "finished"
	Nothing     Class = "nothing to change" // the agent says so
	GaveUp      Class = "gave up"           // the agent says so
	Denied      Class = "denied"            // the agent's own rules kept it from something that it tried
	NoAuth      Class = "not authenticated" // the model's API refused the key
	RateLimited Class = "rate limited"      // the model's API is busy or a quota is used up
	ModelError  Class = "model error"       // the model's API failed or cannot be reached
	CutOff      Class = "cut off"           // it was ended from outside, or its output ends in the middle
	Failed      Class = "failed"            // it ended with an error of its own
	NotStarted  Class = "could not start"
)

// Outcome is how a run of an agent ended. The class rests on the exit status first; all else is the agent's word.
type Outcome struct {
	Class   Class          `json:"class"`
	Summary string         `json:"summary"`          // for people, at most 4,000 bytes, one line
	Status  int            `json:"status,omitempty"` // HTTP status of the model's API
	Code    int            `json:"code"`             // exit status
	Reason  sandbox.Reason `json:"reason"`
	Usage   Usage          `json:"usage,omitzero"`
	Version string         `json:"version,omitempty"` // of the command line and its model, if it says so
}

const maxSummary = 4000

// Parser reads an agent's output line by line. It is for one run and not safe for concurrent use. It takes any bytes,
// keeps a bounded amount of them, and makes lines for people that have no control characters.
type Parser interface {
	Line(line []byte) []Event
	Outcome(exit sandbox.Exit) Outcome
}

// state is what the parsers have in common.
type state struct {
	usage   Usage
	version string   // of the command line and its model, as it says itself
	last    string   // what the agent said last
	stray   string   // the last line that is no event: most often an error of the command line itself
	trouble *trouble // an error that nothing has made good since
	denied  string   // the first thing that the agent's own rules refused
	done    bool     // the stream has come to its end
	endless bool     // there is no end to wait for: a plain command
}

type trouble struct {
	status  int
	message string
}

func (s *state) say(text string) []Event {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	s.last = tail(text, maxSummary)
	s.trouble = nil
	return []Event{{Kind: Text, Text: Line(text)}}
}

func (s *state) fail(status int, message string) []Event {
	if status < 100 || status > 599 {
		status = statusIn(message)
	}
	s.trouble = &trouble{status, message}
	return []Event{{Kind: Failure, Text: Line(message), Status: status}}
}

func (s *state) tool(name, text string) []Event {
	s.trouble = nil
	return []Event{{Kind: Tool, Tool: clean(name, 60), Text: Line(text)}}
}

func (s *state) refuse(what string) {
	if s.denied == "" {
		s.denied = clean(what, maxLine)
	}
}

// noise takes a line that is no event. In a stream of JSON, what begins as an event is one that was cut: it tells nobody anything.
func (s *state) noise(line []byte) []Event {
	if !s.endless && len(line) > 0 && line[0] == '{' {
		return nil
	}
	text := Line(string(line[:min(len(line), 8*maxLine)]))
	if text == "" {
		return nil
	}
	s.stray = text
	return []Event{{Kind: Progress, Text: text}}
}

// Outcome judges by the exit status, then by errors that nothing made good, then by what the agent said.
func (s *state) Outcome(exit sandbox.Exit) Outcome {
	o := Outcome{Code: exit.Code, Reason: exit.Reason, Usage: s.usage.sane(), Version: clean(s.version, 100)}
	o.Class, o.Summary = s.judge(exit)
	if s.trouble != nil {
		o.Status = s.trouble.status
	}
	o.Summary = clean(o.Summary, maxSummary)
	return o
}

// named is a version and a model in words.
func named(version, model string) string {
	if model == "" {
		return version
	}
	return strings.TrimPrefix(version+", model "+model, ", ")
}

func (s *state) judge(exit sandbox.Exit) (Class, string) {
	killed := exit.Reason == sandbox.Signaled || exit.Reason == sandbox.Exited && exit.Code > 128 && !s.done
	switch {
	case exit.Reason == sandbox.NotBegun:
		return NotStarted, first(exit.Message, "the agent could not be started")
	// An agent that is told to try again without end is ended by the time limit; the cause is what it met.
	case s.trouble != nil && (exit.Reason == sandbox.TimedOut || killed):
		return s.trouble.class(), fmt.Sprintf("%s (ended from outside while it tried again: %s)", s.trouble.message, exit.Reason)
	case exit.Reason != sandbox.Exited:
		return CutOff, first(exit.Message, string(exit.Reason))
	case killed:
		return CutOff, fmt.Sprintf("killed by signal %d", exit.Code-128)
	case s.trouble != nil:
		return s.trouble.class(), s.trouble.message
	case exit.Code != 0:
		return s.exitClass(exit.Code)
	case s.denied != "":
		return Denied, first(s.denied, s.last)
	case !s.done && !s.endless:
		return CutOff, first(s.stray, "the output ends in the middle")
	}
	if reason, ok := after(s.last, sayNothing); ok {
		return Nothing, first(reason, "nothing needs to change")
	}
	if reason, ok := after(s.last, sayGaveUp); ok {
		return GaveUp, first(reason, "the agent gave up")
	}
	return Finished, s.last
}

// exitClass reads the statuses of sh: 127 not found, 126 found but not to be executed.
func (s *state) exitClass(code int) (Class, string) {
	if s.endless && (code == 126 || code == 127) {
		return NotStarted, first(s.stray, "the command was not found or cannot be executed")
	}
	return Failed, fmt.Sprintf("exit status %d: %s", code, first(s.stray, s.last, "it said nothing"))
}

// class sorts by the status of the API, and where there is none by the words that providers use.
func (t trouble) class() Class {
	switch t.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return NoAuth
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, 529: // 529: overloaded, at Anthropic
		return RateLimited
	}
	m := strings.ToLower(t.message)
	for _, w := range []string{"invalid_api_key", "api_key_invalid", "unauthenticated", "authentication_failed", "unauthorized", "invalid auth"} {
		if strings.Contains(m, w) {
			return NoAuth
		}
	}
	for _, w := range []string{"rate limit", "rate_limit", "resource_exhausted", "overloaded", "too many requests", "quota"} {
		if strings.Contains(m, w) {
			return RateLimited
		}
	}
	return ModelError
}

var statusForm = regexp.MustCompile(`(?i)(?:status:?|http|code"?:)\s*"?([45][0-9]{2})\b`)

// statusIn finds an HTTP status in words such as "unexpected status 401 Unauthorized".
func statusIn(message string) int {
	m := statusForm.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

// after finds a line that begins with a mark, near the end of a text, and gives what follows.
func after(text, mark string) (string, bool) {
	i := strings.LastIndex(text, mark)
	if i < 0 {
		return "", false
	}
	before := strings.TrimRight(text[:i], " \t*`_#>-")
	if before != "" && !strings.HasSuffix(before, "\n") {
		return "", false
	}
	return strings.Trim(text[i+len(mark):], " \t\r\n*`_"), true
}

func first(texts ...string) string {
	for _, s := range texts {
		if strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// tail is the end of a text.
func tail(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-limit:], "")
}

// sane drops what cannot be: the numbers are the word of a process in a sandbox.
func (u Usage) sane() Usage {
	if !(u.Dollars >= 0 && u.Dollars < 1e6) {
		u.Dollars = 0
	}
	u.Input, u.Output, u.Turns = max(u.Input, 0), max(u.Output, 0), max(u.Turns, 0)
	return u
}
