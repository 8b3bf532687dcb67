package broker

import (
	"net/http"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// api is what the broker knows of one vendor's API.
type api struct {
	host    string   // the vendor's
	dearest string   // the model of the list of prices that costs most
	headers []string // of requests that are passed on, beside those of all
	sign    func(h http.Header, key redact.Secret)
	actions []modelAction
}

// modelAction is one path of an API. Paths that read or write what an account keeps (files, stored answers, batches) are not here:
// runs would meet in them.
type modelAction struct {
	name, method, path string
	query              []string
	rules              *inputRules // nil: there is no body
	free               bool        // not counted against the budget
}

// apis are the endpoints by the names that settings and grants use.
var apis = map[string]*api{
	// https://platform.claude.com/docs/en/api/messages
	"anthropic": {
		host: "api.anthropic.com", dearest: "claude-fable-5-1",
		headers: []string{"Anthropic-Version", "Anthropic-Beta"},
		sign:    func(h http.Header, key redact.Secret) { h.Set("X-Api-Key", key.Reveal()) },
		actions: []modelAction{
			{name: "messages", method: "POST", path: "/v1/messages", query: []string{"beta"}, rules: anthropicInput},
			{name: "count", method: "POST", path: "/v1/messages/count_tokens", query: []string{"beta"}, rules: anthropicInput, free: true},
			{name: "models", method: "GET", path: "/v1/models", query: []string{"limit", "after_id", "before_id", "beta"}, free: true},
			{name: "model", method: "GET", path: "/v1/models/{model}", query: []string{"beta"}, free: true},
		},
	},
	// https://platform.openai.com/docs/api-reference
	"openai": {
		host: "api.openai.com", dearest: "gpt-5.5-pro",
		headers: []string{"OpenAI-Beta"},
		sign:    func(h http.Header, key redact.Secret) { h.Set("Authorization", "Bearer "+key.Reveal()) },
		actions: []modelAction{
			{name: "responses", method: "POST", path: "/v1/responses", rules: responsesInput},
			{name: "chat", method: "POST", path: "/v1/chat/completions", rules: chatInput},
			{name: "models", method: "GET", path: "/v1/models", query: []string{"client_version"}, free: true},
			{name: "model", method: "GET", path: "/v1/models/{model}", free: true},
		},
	},
	// https://ai.google.dev/api/generate-content
	"gemini": {
		host: "generativelanguage.googleapis.com", dearest: "gemini-3.1-pro",
		headers: []string{"X-Goog-Api-Client"},
		sign:    func(h http.Header, key redact.Secret) { h.Set("X-Goog-Api-Key", key.Reveal()) },
		actions: []modelAction{
			{name: "generate", method: "POST", path: "/v1beta/models/{model}:generateContent", rules: geminiInput},
			{name: "stream", method: "POST", path: "/v1beta/models/{model}:streamGenerateContent", query: []string{"alt"}, rules: geminiInput},
			{name: "count", method: "POST", path: "/v1beta/models/{model}:countTokens", rules: geminiInput, free: true},
			{name: "models", method: "GET", path: "/v1beta/models", query: []string{"pageSize", "pageToken"}, free: true},
			{name: "model", method: "GET", path: "/v1beta/models/{model}", free: true},
		},
	},
}

// Which tools are run by whom, and what a server fetches, is in the references above.
var (
	anthropicInput = &inputRules{
		tools:  []string{"custom", "bash_*", "text_editor_*", "computer_*", "memory_*", "tool_search_tool_*"},
		banned: []string{"mcp_servers", "container"},
		urls:   []string{"source.url", "source.file_id", "file_id"},
		opaque: []string{"input", "input_schema"},
	}
	responsesInput = &inputRules{
		tools:  []string{"function", "custom", "local_shell", "apply_patch", "namespace", "tool_search"},
		banned: []string{"background", "conversation", "prompt"},
		urls:   []string{"image_url", "file_url", "file_id", "image_url.url"},
		opaque: []string{"parameters", "arguments", "schema"},
	}
	chatInput = &inputRules{
		tools:  []string{"function", "custom"},
		banned: []string{"web_search_options"},
		urls:   []string{"image_url.url", "image_url", "file_id"},
		opaque: []string{"parameters", "arguments", "schema"},
	}
	geminiInput = &inputRules{
		keys:   []string{"functionDeclarations", "function_declarations"},
		banned: []string{"cachedContent", "cached_content"},
		urls:   []string{"fileUri", "file_uri"},
		opaque: []string{"args", "parameters", "parametersJsonSchema", "parameters_json_schema", "response", "responseSchema", "response_schema",
			"responseJsonSchema", "response_json_schema", "_responseJsonSchema"},
	}
)
