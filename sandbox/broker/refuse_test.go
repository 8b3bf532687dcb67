package broker

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

const good = `{"model":"claude-opus-5","messages":[]}`

// Each is refused, recorded, and does not reach the upstream; the control at the end does.
func TestWhatIsNoActionIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, request, rule string }{
		{"another path", "GET /v1/messages HTTP/1.1\r\nHost: x\r\n\r\n", "action"},
		{"stored files", "GET /model/anthropic/v1/files HTTP/1.1\r\nHost: x\r\n\r\n", "action"},
		{"answers of others", "GET /model/openai/v1/responses/resp_1 HTTP/1.1\r\nHost: x\r\n\r\n", "action"},
		{"another method", "DELETE /model/openai/v1/models/gpt-5.5 HTTP/1.1\r\nHost: x\r\n\r\n", "method"},
		{"trace", "TRACE /model/anthropic/v1/messages HTTP/1.1\r\nHost: x\r\n\r\n", "method"},
		{"GraphQL", "POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "graphql"},
		{"GraphQL of a server", "POST /api/GraphQL HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "graphql"},
		{"absolute form", "GET http://evil.test/model/anthropic/v1/models HTTP/1.1\r\nHost: evil.test\r\n\r\n", "target.form"},
		{"tunnel", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n", "target.form"},
		{"star", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "target.form"},
		{"network path", "GET //evil.test/v1/models HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"dots", "GET /model/anthropic/v1/models/../files HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"escaped dots", "GET /model/anthropic/v1/models/%2e%2e/files HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"escaped slash", "GET /model/anthropic/v1/models/a%2ffiles HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"a user in the path", "GET /model/anthropic/v1/models/@evil.test HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"semicolon", "GET /model/anthropic/v1/models;x=/files HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"WebSocket", "GET /model/openai/v1/responses HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n", "upgrade"},
		{"HTTP/2 by upgrade", "GET /model/openai/v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n\r\n", "upgrade"},
		{"another method by a header", "GET /model/anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nX-HTTP-Method-Override: POST\r\nX-Method-Override: POST\r\n\r\n", "method"},
		{"another path by a header", "GET /v1/x HTTP/1.1\r\nHost: x\r\nX-Original-URL: /model/anthropic/v1/models\r\nX-Rewrite-URL: /model/anthropic/v1/models\r\n\r\n", "action"},
		{"batches", "POST /model/anthropic/v1/messages/batches HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "action"},
		{"batches of Google", "POST /model/gemini/v1beta/models/gemini-2.5-pro:batchGenerateContent HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "action"},
		{"the account", "GET /model/openai/v1/organization/api_keys HTTP/1.1\r\nHost: x\r\n\r\n", "action"},
		{"realtime", "POST /model/openai/v1/realtime/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "action"},
		{"an API's name twice", "GET /model/openai/v1/model/anthropic/v1/models HTTP/1.1\r\nHost: x\r\n\r\n", "action"},
		{"dot", "GET /model/anthropic/./v1/models HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"dots escaped twice", "GET /model/anthropic/v1/models/%252e%252e/files HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"backslash", "GET /model/anthropic/v1/models\\..\\files HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"a slash too many", "GET /model/anthropic/v1/models/ HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"another repository", "GET /git/../other.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n", "target.path"},
		{"another repository below", "GET /git/other.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n", "git"},
		{"push", "POST /git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "git"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			api := scripted()
			w := open(t, api, sandbox.Grant{})
			if got := w.raw(c.request); got != "HTTP/1.1 403 Forbidden" {
				t.Errorf("answer %q", got)
			}
			if status, text, _ := w.do("POST", "/model/anthropic/v1/messages", good); status != 200 {
				t.Errorf("control: %d %s", status, text)
			}
			records := w.records()
			if len(records) != 2 || records[0].Decision != Deny || records[0].Rule != c.rule || records[0].Status != 403 || len(api.Requests()) != 1 {
				t.Errorf("%d reached the API; records %+v", len(api.Requests()), records)
			}
			if len(w.found) != 1 || w.found[0].Kind != "broker.refused" || w.found[0].Outcome != "contained" || !strings.HasPrefix(w.found[0].Evidence, c.rule+": ") {
				t.Errorf("findings %+v", w.found)
			}
		})
	}
}

// What two servers could frame in two ways is framed anew, or ends with the connection: one request inside is at most one outside.
func TestFramingIsNotPassedOn(t *testing.T) {
	t.Parallel()
	const head = "POST /model/anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	smuggled := "GET /model/anthropic/v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, c := range []struct {
		name, request, answer string
		reaches               int
	}{
		{"control", head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(good), good), "HTTP/1.1 200 OK", 1},
		{"chunked", head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(good), good), "HTTP/1.1 200 OK", 1},
		{"chunked with a length", head + fmt.Sprintf("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(good), good), "HTTP/1.1 200 OK", 1},
		{"two lengths", head + fmt.Sprintf("Content-Length: %d\r\nContent-Length: 4\r\n\r\n%s%s", len(good), good, smuggled), "HTTP/1.1 400 Bad Request", 0},
		{"chunk extensions", head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x;a=b;c=\"d\"\r\n%s\r\n0;e\r\n\r\n", len(good), good), "HTTP/1.1 200 OK", 1},
		{"a second one behind", head + fmt.Sprintf("Content-Length: %d\r\n\r\n%sGET /model/anthropic/v1/files HTTP/1.1\r\nHost: x\r\n\r\n", len(good), good), "HTTP/1.1 200 OK", 1},
		{"two codings", head + "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" + good, "HTTP/1.1 501 Not Implemented", 0},
		{"a list of codings", head + "Transfer-Encoding: chunked, identity\r\n\r\n" + good, "HTTP/1.1 501 Not Implemented", 0},
		{"a coding with a stray byte", head + "Transfer-Encoding: \x0bchunked\r\n\r\n" + good, "HTTP/1.1 400 Bad Request", 0},
		{"a length with a sign", head + "Content-Length: +5\r\n\r\n" + good, "HTTP/1.1 400 Bad Request", 0},
		{"a list of lengths", head + "Content-Length: 39, 39\r\n\r\n" + good, "HTTP/1.1 400 Bad Request", 0},
		{"a huge header", head + "X-A: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", "HTTP/1.1 431 Request Header Fields Too Large", 0},
		{"HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 403 Forbidden", 0},
		{"another coding", head + "Transfer-Encoding: xchunked\r\n\r\n" + good, "HTTP/1.1 501 Not Implemented", 0},
		{"bad chunk", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + good, "HTTP/1.1 400 Bad Request", 0},
		{"space before the colon", head + "Content-Length : 5\r\n\r\n" + good, "HTTP/1.1 400 Bad Request: invalid header name", 0},
		{"bare line feed in a header", head + "X-A: b\nX-Api-Key: y\rz\r\n\r\n", "HTTP/1.1 400 Bad Request", 0},
		{"NUL in a header", head + "User-Agent: a\x00b\r\n\r\n", "HTTP/1.1 400 Bad Request", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			api := scripted()
			w := open(t, api, sandbox.Grant{})
			if got := w.raw(c.request); got != c.answer {
				t.Errorf("answer %q, want %q", got, c.answer)
			}
			reqs := api.Requests()
			if len(reqs) != c.reaches || c.reaches == 1 && (string(reqs[0].Body) != good || reqs[0].Header.Get("Content-Length") != fmt.Sprint(len(good))) {
				t.Errorf("reached the API: %+v", reqs)
			}
		})
	}
}

// The servers of a vendor reach the whole internet: what makes them do something for the sandbox is a way past its list of hosts.
func TestServersOfTheModelAreNotMadeToAct(t *testing.T) {
	t.Parallel()
	const anthropic, responses, chat = "/model/anthropic/v1/messages", "/model/openai/v1/responses", "/model/openai/v1/chat/completions"
	const gemini = "/model/gemini/v1beta/models/gemini-2.5-pro:generateContent"
	for _, c := range []struct{ name, path, body, rule string }{
		{"search", anthropic, `{"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, "body.tool"},
		{"fetch", anthropic, `{"tools":[{"name":"a","input_schema":{}},{"type":"web_fetch_20250910","name":"web_fetch"}]}`, "body.tool"},
		{"code", anthropic, `{"tools":[{"type":"code_execution_20250825","name":"c"}]}`, "body.tool"},
		{"tool server", anthropic, `{"mcp_servers":[{"type":"url","url":"https://evil.test"}]}`, "body.mcp_servers"},
		{"image by address", anthropic, `{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://evil.test/?code"}}]}]}`, "body.url"},
		{"file of the account", anthropic, `{"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}`, "body.url"},
		{"the same key twice", anthropic, `{"tools":[],"tools":[{"type":"web_search_20250305"}]}`, "body.twice"},
		{"twice by an escape", anthropic, `{"tools":[],"t\u006fols":[{"type":"web_search_20250305"}]}`, "body.twice"},
		{"search", responses, `{"tools":[{"type":"web_search"}]}`, "body.tool"},
		{"tool server", responses, `{"tools":[{"type":"mcp","server_url":"https://evil.test"}]}`, "body.tool"},
		{"tool in a namespace", responses, `{"tools":[{"type":"namespace","tools":[{"type":"code_interpreter"}]}]}`, "body.tool"},
		{"tool in the history", responses, `{"input":[{"type":"tool_search_output","tools":[{"type":"mcp"}]}]}`, "body.tool"},
		{"image by address", responses, `{"input":[{"content":[{"type":"input_image","image_url":"https://evil.test/?code"}]}]}`, "body.url"},
		{"file by address", responses, `{"input":[{"content":[{"type":"input_file","file_url":"https://evil.test"}]}]}`, "body.url"},
		{"in the background", responses, `{"background":true}`, "body.background"},
		{"search", chat, `{"web_search_options":{}}`, "body.web_search_options"},
		{"search by the model", chat, `{"model":"gpt-4o-search-preview"}`, "model.search"},
		{"image by address", chat, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"HTTPS://evil.test"}}]}]}`, "body.url"},
		{"search", gemini, `{"tools":[{"googleSearch":{}}]}`, "body.tool"},
		{"fetch", gemini, `{"tools":[{"functionDeclarations":[],"url_context":{}}]}`, "body.tool"},
		{"search in no list", gemini, `{"tools":{"googleSearch":{}}}`, "body.tool"},
		{"search in a list too many", gemini, `{"tools":[[{"googleSearch":{}}]]}`, "body.tool"},
		{"file by address", gemini, `{"contents":[{"parts":[{"fileData":{"fileUri":"https://evil.test"}}]}]}`, "body.url"},
		{"no JSON", gemini, `{"contents":[}`, "body.json"},
		{"two values", gemini, `{}{}`, "body.json"},
		{"a list", gemini, `[]`, "body.json"},
		{"not UTF-8", gemini, "{\"a\":\"\xff\"}", "body.json"},
		{"too deep", gemini, `{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, "body.size"},
	} {
		t.Run(c.path+" "+c.name, func(t *testing.T) {
			t.Parallel()
			api := scripted()
			w := open(t, api, sandbox.Grant{})
			if status, text, _ := w.do("POST", c.path, c.body); status != 403 || !strings.Contains(text, "sandpiper: model.") {
				t.Errorf("%d %s", status, text)
			}
			if r := w.records()[0]; r.Rule != c.rule || len(api.Requests()) != 0 {
				t.Errorf("rule %s, %d reached the API", r.Rule, len(api.Requests()))
			}
		})
	}
	// Controls: what agents send, also where it looks like the above.
	for _, c := range []struct{ path, body string }{
		{anthropic, `{"tools":[{"type":"custom","name":"WebFetch","input_schema":{"properties":{"url":{"type":"string"},"tools":[{"type":"mcp"}]}}},{"type":"bash_20250124","name":"bash"}],
			"messages":[{"content":[{"type":"tool_use","input":{"url":"https://example.com","source":{"url":"https://example.com"}}},{"type":"image","source":{"type":"base64","data":"eA=="}}]}]}`},
		{responses, `{"tools":[{"type":"function","name":"f","parameters":{"properties":{"image_url":{"default":"https://example.com"}}}},{"type":"custom","name":"apply_patch"}],
			"input":[{"type":"function_call","arguments":"{\"image_url\":\"https://example.com\"}"},{"content":[{"image_url":"data:image/png;base64,eA=="}]}]}`},
		{chat, `{"tools":[{"type":"function","function":{"name":"web_search_options"}}],"messages":[{"content":"https://example.com tools mcp"}]}`},
		{gemini, `{"tools":[{"functionDeclarations":[{"name":"googleSearch"}]}],"contents":[{"parts":[{"functionCall":{"args":{"fileUri":"https://example.com"}}}]}]}`},
	} {
		w := open(t, scripted(), sandbox.Grant{})
		if status, text, _ := w.do("POST", c.path, c.body); status != 200 {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	w := open(t, scripted(), sandbox.Grant{})
	const path = "/model/anthropic/v1/messages"
	big := `{"a":"` + strings.Repeat("x", maxBody) + `"}`
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		want               int
	}{
		"control":           {"POST", path, good, nil, 200},
		"compressed":        {"POST", path, good, []string{"Content-Encoding", "zstd"}, 403},
		"form":              {"POST", path, good, []string{"Content-Type", "text/plain"}, 403},
		"too large":         {"POST", path, big, nil, http.StatusRequestEntityTooLarge},
		"where none is due": {"GET", "/model/anthropic/v1/models", good, nil, 403},
	} {
		if status, text, _ := w.do(c.method, c.path, c.body, c.header...); status != c.want {
			t.Errorf("%s: %d %.200s", name, status, text)
		}
	}
}

// An action of the organisation is in the same table, and gets the same records.
func TestActionsOfTheOrganisation(t *testing.T) {
	t.Parallel()
	w := open(t, scripted(), sandbox.Grant{}, Action{Name: "tickets.read", Method: "GET", Path: "/tickets/{id}", Query: []string{"part"}, Do: ticket{}})
	if status, text, _ := w.do("GET", "/tickets/T-7?part=title&token=x", ""); status != 200 || text != "T-7 part=title" {
		t.Errorf("%d %s", status, text)
	}
	if status, text, _ := w.do("GET", "/tickets/secret", ""); status != 403 || text != "sandpiper: tickets.read: not yours\n" {
		t.Errorf("%d %s", status, text)
	}
	if r := w.records(); r[0].Action != "tickets.read" || r[0].Path != "/tickets/{id}" || r[1].Rule != "tickets.own" {
		t.Errorf("%+v", r)
	}
}

type ticket struct{}

func (ticket) Do(w http.ResponseWriter, r *http.Request, c *Call) {
	if c.Params["id"] == "secret" {
		c.Refuse(w, http.StatusForbidden, "tickets.own", "not yours")
		return
	}
	fmt.Fprint(w, c.Params["id"], " ", r.URL.RawQuery)
}
