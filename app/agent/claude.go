package agent

import "encoding/json"

// claude reads `claude --output-format stream-json`. An API error ends with subtype "success" and is_error true, and a
// refused tool with is_error false and a list of permission_denials: the subtype says nothing.
type claude struct {
	state
	message string // id of the answer that was counted last; one answer comes in several events
}

func newClaude() Parser { return &claude{} }

type claudeEvent struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Message struct {
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
		Usage   claudeUsage     `json:"usage"`
	} `json:"message"`
	Version     string `json:"claude_code_version"`
	Model       string `json:"model"`
	APIError    bool   `json:"is_api_error_message"`
	Attempt     int    `json:"attempt"`
	ErrorStatus int    `json:"error_status"`
	Error       string `json:"error"`

	IsError   bool        `json:"is_error"`
	APIStatus int         `json:"api_error_status"`
	Result    string      `json:"result"`
	Dollars   float64     `json:"total_cost_usd"`
	Turns     int         `json:"num_turns"`
	Usage     claudeUsage `json:"usage"`
	Denials   []struct {
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
}

type claudeUsage struct {
	Input   int64 `json:"input_tokens"`
	Written int64 `json:"cache_creation_input_tokens"`
	Read    int64 `json:"cache_read_input_tokens"`
	Output  int64 `json:"output_tokens"`
}

type claudeBlock struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

func (c *claude) Line(line []byte) []Event {
	var e claudeEvent
	if !decodeEvent(line, &e) {
		return c.noise(line)
	}
	switch e.Type {
	case "system":
		switch e.Subtype {
		case "api_retry":
			return c.fail(e.ErrorStatus, e.Error)
		case "init":
			c.version = named(e.Version, e.Model)
		}
	case "assistant":
		return c.assistant(e)
	case "result":
		return c.result(e)
	}
	return nil
}

func (c *claude) assistant(e claudeEvent) []Event {
	var blocks []claudeBlock
	if json.Unmarshal(e.Message.Content, &blocks) != nil {
		return nil
	}
	var events []Event
	for _, b := range blocks {
		switch {
		case b.Type == "text" && e.APIError:
			events = append(events, c.fail(e.APIStatus, b.Text)...)
		case b.Type == "text":
			events = append(events, c.say(b.Text)...)
		case b.Type == "tool_use":
			events = append(events, c.tool(b.Name, toolText(b.Input))...)
		}
	}
	if e.Message.ID != c.message && !e.APIError {
		c.message = e.Message.ID
		u := e.Message.Usage
		c.usage.Input += u.Input + u.Written + u.Read
		c.usage.Output += u.Output
		c.usage.Turns++
		events = append(events, Event{Kind: Cost, Usage: c.usage.sane()})
	}
	return events
}

func (c *claude) result(e claudeEvent) []Event {
	u := e.Usage
	c.usage = Usage{Dollars: e.Dollars, Input: u.Input + u.Written + u.Read, Output: u.Output, Turns: e.Turns}
	c.done = true
	for _, d := range e.Denials {
		c.refuse(d.Tool + " was not permitted: " + toolText(d.Input))
	}
	events := []Event{{Kind: Cost, Usage: c.usage.sane()}}
	if e.IsError {
		return append(append(events, c.fail(e.APIStatus, first(e.Result, e.Subtype))...), Event{Kind: Done})
	}
	c.trouble = nil
	if e.Result != "" {
		c.last = tail(e.Result, maxSummary)
	}
	return append(events, Event{Kind: Done})
}
