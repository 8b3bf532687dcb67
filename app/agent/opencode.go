package agent

import (
	"encoding/json"
	"strings"
)

// opencode reads `opencode run --format json`. It ends with a step whose reason is "stop"; a refused tool ends it in the
// middle, with exit status 0.
type opencode struct{ state }

func newOpencode() Parser { return &opencode{} }

type opencodeEvent struct {
	Type string `json:"type"`
	Part struct {
		Text   string `json:"text"`
		Tool   string `json:"tool"`
		Reason string `json:"reason"`
		State  struct {
			Status string          `json:"status"`
			Input  json.RawMessage `json:"input"`
			Error  string          `json:"error"`
		} `json:"state"`
		Cost   float64 `json:"cost"`
		Tokens struct {
			Input     int64 `json:"input"`
			Output    int64 `json:"output"`
			Reasoning int64 `json:"reasoning"`
			Cache     struct {
				Read  int64 `json:"read"`
				Write int64 `json:"write"`
			} `json:"cache"`
		} `json:"tokens"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
			Status  int    `json:"statusCode"`
		} `json:"data"`
	} `json:"error"`
}

func (o *opencode) Line(line []byte) []Event {
	var e opencodeEvent
	if !decodeEvent(line, &e) {
		return o.noise(line)
	}
	switch e.Type {
	case "text":
		return o.say(e.Part.Text)
	case "tool_use":
		if e.Part.State.Status == "error" && strings.Contains(e.Part.State.Error, "permission") {
			o.refuse(e.Part.Tool + " was not permitted: " + toolText(e.Part.State.Input))
		}
		return o.tool(e.Part.Tool, toolText(e.Part.State.Input))
	case "step_finish":
		t := e.Part.Tokens
		o.usage.Dollars += e.Part.Cost
		o.usage.Input += t.Input + t.Cache.Read + t.Cache.Write
		o.usage.Output += t.Output + t.Reasoning
		o.usage.Turns++
		events := []Event{{Kind: Cost, Usage: o.usage.sane()}}
		if e.Part.Reason == "stop" {
			o.done = true
			events = append(events, Event{Kind: Done})
		}
		return events
	case "error":
		return o.fail(e.Error.Data.Status, first(e.Error.Data.Message, e.Error.Name))
	}
	return nil
}
