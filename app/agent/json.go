package agent

import (
	"bytes"
	"encoding/json"
)

// decodeEvent reads one event of a stream. It is false for what is no JSON object, such as a warning of the command line.
func decodeEvent(line []byte, into any) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 1 && line[0] == '{' && json.Unmarshal(line, into) == nil
}

// toolText says in a few words what a tool is used for.
func toolText(input json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(input, &fields) != nil {
		return ""
	}
	for _, key := range []string{"command", "file_path", "filePath", "path", "pattern", "query", "url", "description"} {
		switch v := fields[key].(type) {
		case string:
			return v
		case []any: // a command as a list of words
			if text, err := json.Marshal(v); err == nil {
				return string(text)
			}
		}
	}
	return ""
}
