package agent

import (
	"encoding/json"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// copilot reads `copilot --output-format json`. It tells of no tokens. Its last event has the exit status.
type copilot struct {
	state
	status int
}

func newCopilot() Parser { return &copilot{} }

type copilotEvent struct {
	Type     string `json:"type"`
	ExitCode int    `json:"exitCode"`
	Data     struct {
		Content   string          `json:"content"`
		Tool      string          `json:"toolName"`
		Arguments json.RawMessage `json:"arguments"`
		Message   string          `json:"message"`
		Status    int             `json:"statusCode"`
		Result    struct {
			Kind string `json:"kind"`
		} `json:"result"`
	} `json:"data"`
}

func (c *copilot) Line(line []byte) []Event {
	var e copilotEvent
	if !decodeEvent(line, &e) {
		return c.noise(line)
	}
	switch e.Type {
	case "assistant.turn_start":
		c.usage.Turns++
	case "assistant.message":
		return c.say(e.Data.Content)
	case "tool.execution_start":
		return c.tool(e.Data.Tool, toolText(e.Data.Arguments))
	case "model.call_failure":
		return c.fail(e.Data.Status, "the model's API failed")
	case "session.error":
		return c.fail(e.Data.Status, e.Data.Message)
	case "result":
		c.done, c.status = true, e.ExitCode
		return []Event{{Kind: Done}}
	}
	return nil
}

// Outcome takes the status of the last event where the process itself ended well.
func (c *copilot) Outcome(exit sandbox.Exit) Outcome {
	if exit.OK() && c.status != 0 {
		exit.Code = c.status
	}
	return c.state.Outcome(exit)
}
