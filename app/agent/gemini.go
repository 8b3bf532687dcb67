package agent

import (
	"encoding/json"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// gemini reads `gemini -o stream-json`. What it says comes in pieces.
type gemini struct {
	state
	open bool // the last event was a piece of text
}

func newGemini() Parser { return &gemini{} }

type geminiEvent struct {
	Type       string          `json:"type"`
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	Delta      bool            `json:"delta"`
	Tool       string          `json:"tool_name"`
	Parameters json.RawMessage `json:"parameters"`
	Status     string          `json:"status"`
	Message    string          `json:"message"`
	Model      string          `json:"model"`
	Error      struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"stats"`
}

func (g *gemini) Line(line []byte) []Event {
	var e geminiEvent
	if !decodeEvent(line, &e) {
		return g.noise(line)
	}
	open := g.open
	g.open = false
	switch e.Type {
	case "init":
		g.version = named("", e.Model)
	case "message":
		if e.Role != "assistant" {
			return nil
		}
		text := e.Content
		if open {
			text = g.last + text
		}
		g.open = e.Delta
		events := g.say(text)
		if len(events) > 0 && open {
			events[0].Text = Line(e.Content)
		}
		if !open {
			g.usage.Turns++
		}
		return events
	case "tool_use":
		return g.tool(e.Tool, toolText(e.Parameters))
	case "tool_result":
		if e.Status == "error" && e.Error.Type == "policy_violation" {
			g.refuse(first(e.Error.Message, "a tool was not permitted"))
		}
	case "error":
		return []Event{{Kind: Progress, Text: Line(e.Message)}} // a warning: the result says whether it was fatal
	case "result":
		return g.result(e)
	}
	return nil
}

func (g *gemini) result(e geminiEvent) []Event {
	g.done = true
	g.usage.Input, g.usage.Output = e.Stats.Input, e.Stats.Output
	events := []Event{{Kind: Cost, Usage: g.usage.sane()}}
	if e.Status != "success" {
		events = append(events, g.fail(0, first(e.Error.Message, e.Status))...)
	}
	return append(events, Event{Kind: Done})
}

// Outcome knows gemini's status for a way of authentication that is not set up: 41, before any event.
// It ends with the status of a failed API otherwise, of which a process can show the last eight bits: 400 is 144, as if by a signal.
func (g *gemini) Outcome(exit sandbox.Exit) Outcome {
	if g.done && exit.Reason == sandbox.Signaled {
		exit.Reason = sandbox.Exited
	}
	o := g.state.Outcome(exit)
	if exit.Reason == sandbox.Exited && exit.Code == 41 {
		o.Class = NoAuth
	}
	return o
}
