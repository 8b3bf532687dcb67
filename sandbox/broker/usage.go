package broker

import (
	"bytes"
	"encoding/json"
)

// Tokens of one call. Input is what was neither read from a cache of the model nor written to one.
type Tokens struct {
	Input   int64 `json:"input"`
	Read    int64 `json:"cache_read,omitempty"`
	Written int64 `json:"cache_write,omitempty"`
	Hour    int64 `json:"cache_write_1h,omitempty"` // written to be kept for an hour
	Output  int64 `json:"output"`
}

func (t Tokens) input() int64 { return t.Input + t.Read + t.Written + t.Hour }

// rawUsage is what the four APIs call the same things.
type rawUsage struct {
	// Anthropic Messages; OpenAI Responses, whose input has what was cached in it.
	Input         *int64 `json:"input_tokens"`
	Output        *int64 `json:"output_tokens"`
	CacheRead     int64  `json:"cache_read_input_tokens"`
	CacheWritten  int64  `json:"cache_creation_input_tokens"`
	CacheCreation struct {
		Hour int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	InputDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	// OpenAI Chat Completions.
	Prompt        *int64 `json:"prompt_tokens"`
	Completion    int64  `json:"completion_tokens"`
	PromptDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// rawGoogle is the usageMetadata of Gemini.
type rawGoogle struct {
	Prompt     int64 `json:"promptTokenCount"`
	Tools      int64 `json:"toolUsePromptTokenCount"`
	Cached     int64 `json:"cachedContentTokenCount"`
	Candidates int64 `json:"candidatesTokenCount"`
	Thoughts   int64 `json:"thoughtsTokenCount"`
}

// rawAnswer is a whole answer, or one event of a stream.
type rawAnswer struct {
	Type    string    `json:"type"`
	Usage   *rawUsage `json:"usage"`
	Message struct {
		Usage *rawUsage `json:"usage"` // message_start of Anthropic
	} `json:"message"`
	Response struct {
		Usage *rawUsage `json:"usage"` // response.completed and its like of OpenAI
	} `json:"response"`
	Google *rawGoogle `json:"usageMetadata"`
}

// usage follows an answer while it passes, and keeps what it says of tokens.
type usage struct {
	tokens Tokens
	final  bool // the answer has told all

	stream bool
	buf    []byte
	over   bool // the line, or the whole answer, is too long to be read
}

// maxUnit is the longest answer, or line of a stream, that is read: the last event of OpenAI's Responses holds the whole answer.
const maxUnit = 16 << 20

// Write takes the next piece.
func (u *usage) Write(p []byte) {
	if !u.stream {
		u.keep(p)
		return
	}
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		u.keep(line)
		if ended {
			u.line()
		}
		p = rest
	}
}

func (u *usage) keep(p []byte) {
	if u.over = u.over || len(u.buf)+len(p) > maxUnit; u.over {
		u.buf = nil
		return
	}
	u.buf = append(u.buf, p...)
}

// line reads one line of server-sent events. Most have no usage in them and are not decoded.
func (u *usage) line() {
	data, ok := bytes.CutPrefix(u.buf, []byte("data:"))
	if ok && bytes.Contains(data, []byte(`sage`)) {
		u.read(data)
	}
	u.buf, u.over = u.buf[:0], false
	if cap(u.buf) > 1<<20 {
		u.buf = nil
	}
}

// close reads what is left: an answer that is no stream, or the last line of one.
func (u *usage) close() {
	switch data := bytes.TrimSpace(u.buf); {
	case u.stream:
		u.line()
	case len(data) > 0 && data[0] == '[': // Gemini's stream without alt=sse is one list
		var all []json.RawMessage
		if json.Unmarshal(data, &all) == nil {
			for _, one := range all {
				u.read(one)
			}
		}
	default:
		u.read(data)
		u.final = u.final || u.tokens != Tokens{}
	}
	u.buf = nil
}

func (u *usage) read(data []byte) {
	var a rawAnswer
	if json.Unmarshal(data, &a) != nil {
		return
	}
	switch {
	case a.Message.Usage != nil:
		u.take(a.Message.Usage)
	case a.Response.Usage != nil:
		u.take(a.Response.Usage)
		u.final = true
	case a.Usage != nil:
		u.take(a.Usage)
		u.final = true // message_delta of Anthropic comes with the end; the last chunk of OpenAI
	case a.Google != nil:
		g := a.Google
		u.tokens = Tokens{Input: max(g.Prompt+g.Tools-g.Cached, 0), Read: max(g.Cached, 0), Output: max(g.Candidates, 0) + max(g.Thoughts, 0)}
		u.final = true // each chunk has the sum so far
	}
}

// take overwrites what is told again, as the counts are sums.
func (u *usage) take(r *rawUsage) {
	t := &u.tokens
	if r.Prompt != nil {
		t.Read = max(r.PromptDetails.Cached, 0)
		t.Input, t.Output = max(*r.Prompt-t.Read, 0), max(r.Completion, 0)
		return
	}
	if r.Input != nil {
		t.Hour = max(r.CacheCreation.Hour, 0)
		t.Written = max(r.CacheWritten-t.Hour, 0)
		t.Read = max(r.CacheRead, 0) + max(r.InputDetails.Cached, 0)
		t.Input = max(*r.Input-max(r.InputDetails.Cached, 0), 0)
	}
	if r.Output != nil {
		t.Output = max(*r.Output, 0)
	}
}

// perToken is how many bytes are taken for a token where nobody told: few, so that the guess is rather too high than too low.
const perToken = 3

// total gives the tokens of the answer. An answer that was cut off (by the client, perhaps to hide what it cost) is estimated.
func (u *usage) total(up, down int64) (t Tokens, estimated bool) {
	if u.final {
		return u.tokens, false
	}
	t = u.tokens
	if t.input() == 0 {
		t.Input = up / perToken
	}
	t.Output = max(t.Output, down/perToken)
	return t, true
}
