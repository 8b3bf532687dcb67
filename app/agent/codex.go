package agent

import "strings"

// codex reads `codex exec --json`. Without a network it repeats an error event for as long as it is let.
type codex struct{ state }

func newCodex() Parser { return &codex{} }

type codexEvent struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Item struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Command string `json:"command"`
		Server  string `json:"server"`
		Tool    string `json:"tool"`
		Query   string `json:"query"`
		Message string `json:"message"`
		Status  string `json:"status"`
		Changes []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"changes"`
	} `json:"item"`
	Usage struct {
		Input  int64 `json:"input_tokens"` // with what was cached
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
}

func (c *codex) Line(line []byte) []Event {
	var e codexEvent
	if !decodeEvent(line, &e) {
		return c.noise(line)
	}
	switch e.Type {
	case "item.started":
		return c.begun(e)
	case "item.completed":
		return c.completed(e)
	case "error":
		return c.fail(0, e.Message)
	case "turn.completed":
		c.done, c.trouble = true, nil
		c.usage.Input += e.Usage.Input
		c.usage.Output += e.Usage.Output
		c.usage.Turns++
		return []Event{{Kind: Cost, Usage: c.usage.sane()}, {Kind: Done}}
	case "turn.failed":
		c.done = true
		return append(c.fail(0, e.Error.Message), Event{Kind: Done})
	}
	return nil
}

func (c *codex) begun(e codexEvent) []Event {
	switch e.Item.Type {
	case "command_execution":
		return c.tool("shell", e.Item.Command)
	case "mcp_tool_call":
		return c.tool(e.Item.Tool, e.Item.Server)
	case "web_search":
		return c.tool("web search", e.Item.Query)
	}
	return nil
}

func (c *codex) completed(e codexEvent) []Event {
	switch e.Item.Type {
	case "agent_message":
		return c.say(e.Item.Text)
	case "file_change":
		var paths []string
		for _, ch := range e.Item.Changes {
			paths = append(paths, ch.Kind+" "+ch.Path)
		}
		if e.Item.Status == "declined" {
			c.refuse("a change of files was declined: " + strings.Join(paths, ", "))
		}
		return c.tool("edit", strings.Join(paths, ", "))
	case "command_execution":
		if e.Item.Status == "declined" {
			c.refuse("a command was declined: " + e.Item.Command)
		}
	case "error":
		return []Event{{Kind: Progress, Text: Line(e.Item.Message)}} // a warning: the turn goes on
	}
	return nil
}
