package broker

import (
	"encoding/json"
	"net/http"
	"strings"
)

// shape is how an API words its errors, so that its clients show the message and do not try again.
type shape int

const (
	shapeText      shape = iota
	shapeAnthropic       // https://platform.claude.com/docs/en/api/errors
	shapeOpenAI          // https://platform.openai.com/docs/guides/error-codes
	shapeGoogle          // https://google.aip.dev/193
)

func shapeOf(path string) shape {
	for prefix, s := range map[string]shape{
		"/model/anthropic/": shapeAnthropic, "/model/openai/": shapeOpenAI, "/model/gemini/": shapeGoogle,
	} {
		if strings.HasPrefix(path, prefix) {
			return s
		}
	}
	return shapeText
}

func (s shape) write(w http.ResponseWriter, status int, rule, message string) {
	var body any
	switch s {
	case shapeAnthropic:
		body = map[string]any{"type": "error", "error": map[string]any{"type": anthropicType(status), "message": message}}
	case shapeOpenAI:
		body = map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "param": nil, "code": rule}}
	case shapeGoogle:
		body = map[string]any{"error": map[string]any{"code": status, "message": message, "status": googleStatus(status)}}
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(message + "\n"))
		return
	}
	data, _ := json.Marshal(body) // texts and a number
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

func anthropicType(status int) string {
	switch {
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}

func googleStatus(status int) string {
	switch {
	case status == http.StatusForbidden:
		return "PERMISSION_DENIED"
	case status >= 500:
		return "UNAVAILABLE"
	}
	return "FAILED_PRECONDITION"
}
