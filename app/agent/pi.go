package agent

import (
	"bytes"
	"encoding/json"
)

// pi reads `pi --mode json`. It ends with status 0 after a failed connection; only the events tell. The last event repeats
// the whole conversation and can be longer than what is read of a line, so its beginning is enough.
type pi struct{ state }

func newPi() Parser { return &pi{} }

type piEvent struct {
	Type    string `json:"type"`
	Message struct {
		Role       string `json:"role"`
		StopReason string `json:"stopReason"`
		Error      string `json:"errorMessage"`
		Content    json.RawMessage
		Usage      struct {
			Input  int64 `json:"input"`
			Output int64 `json:"output"`
			Read   int64 `json:"cacheRead"`
			Write  int64 `json:"cacheWrite"`
			Cost   struct {
				Total float64 `json:"total"`
			} `json:"cost"`
		} `json:"usage"`
	} `json:"message"`
	Tool       string          `json:"toolName"`
	Args       json.RawMessage `json:"args"`
	Error      string          `json:"errorMessage"`
	FinalError string          `json:"finalError"`
	Success    bool            `json:"success"`
}

func (p *pi) Line(line []byte) []Event {
	if bytes.HasPrefix(line, []byte(`{"type":"agent_end"`)) {
		p.done = true
		return []Event{{Kind: Done}}
	}
	var e piEvent
	if !decodeEvent(line, &e) {
		return p.noise(line)
	}
	switch e.Type {
	case "agent_start":
		p.done = false // a retry begins again
	case "message_end":
		if e.Message.Role == "assistant" {
			return p.message(e)
		}
	case "tool_execution_start":
		return p.tool(e.Tool, toolText(e.Args))
	case "auto_retry_start":
		return p.fail(0, first(e.Error, "the model's API failed"))
	case "auto_retry_end":
		if !e.Success {
			return p.fail(0, first(e.FinalError, e.Error, "the model's API failed"))
		}
		p.trouble = nil
	}
	return nil
}

func (p *pi) message(e piEvent) []Event {
	u := e.Message.Usage
	p.usage.Dollars += u.Cost.Total
	p.usage.Input += u.Input + u.Read + u.Write
	p.usage.Output += u.Output
	p.usage.Turns++
	events := []Event{{Kind: Cost, Usage: p.usage.sane()}}
	if e.Message.StopReason == "error" {
		return append(events, p.fail(0, first(e.Message.Error, "the model's API failed"))...)
	}
	var blocks []claudeBlock // the same shape of text blocks
	if json.Unmarshal(e.Message.Content, &blocks) != nil {
		return events
	}
	for _, b := range blocks {
		if b.Type == "text" {
			events = append(events, p.say(b.Text)...)
		}
	}
	return events
}
