package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Entry is what somebody wants recorded.
type Entry struct {
	Kind       string // such as probe, sandbox.created, finding, trust, github.comment, wish
	Mission    string
	Run        string
	Repository string // owner/name, for people
	Actor      string // the login of a person whose doing it is; empty: the bot's
	Data       any    // what encoding/json takes; the texts in it are redacted and cut
	Time       time.Time
}

// Record is an entry in its place. Its canonical JSON is that of encoding/json without escapes for HTML, the fields in this
// order, the keys of Data sorted.
type Record struct {
	Seq        int64           `json:"seq"`  // from 1, without gaps
	Time       string          `json:"time"` // RFC 3339 in UTC
	Prev       string          `json:"prev"` // hash of the record before; 64 zeros for the first
	Kind       string          `json:"kind"`
	Mission    string          `json:"mission,omitempty"`
	Run        string          `json:"run,omitempty"`
	Repository string          `json:"repository,omitempty"`
	Actor      string          `json:"actor,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// noPrev is what the first record has in place of a hash.
var noPrev = strings.Repeat("0", 64)

// Limits of one record: a sandbox can make things be recorded, and must not be able to fill the disk by it.
const (
	mostText = 4 << 10
	mostData = 64 << 10
)

// canonical is the text that is hashed and kept.
func canonical(r Record) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// line is a record as the file has it: its canonical JSON with its hash as the last member.
func line(text, hash string) string {
	return strings.TrimSuffix(text, "}") + hashMember + hash + `"}`
}

const hashMember = `,"hash":"`

// unline takes a line apart. The text is what was hashed, to the byte, if nothing was changed.
func unline(line string) (text, hash string, err error) {
	at := len(line) - len(hashMember) - 64 - len(`"}`)
	if at < 1 || line[at:at+len(hashMember)] != hashMember || !strings.HasSuffix(line, `"}`) {
		return "", "", fmt.Errorf("not a line of an audit file: %.60q", line)
	}
	return line[:at] + "}", line[at+len(hashMember) : len(line)-2], nil
}

// clean gives data as JSON with every text redacted and cut.
func clean(data any, redact func(string) string) (json.RawMessage, error) {
	if data == nil {
		return nil, nil
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(scrub(value, redact)); err != nil {
		return nil, err
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(out) > mostData {
		sum := sha256.Sum256(out)
		return json.Marshal(map[string]any{"left_out": "too large", "bytes": len(out), "sha256": hex.EncodeToString(sum[:])})
	}
	return out, nil
}

func scrub(value any, redact func(string) string) any {
	switch v := value.(type) {
	case string:
		return short(redact(v))
	case []any:
		for i := range v {
			v[i] = scrub(v[i], redact)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, one := range v {
			out[short(redact(key))] = scrub(one, redact)
		}
		return out
	}
	return value
}

// short cuts a text at a whole letter.
func short(s string) string {
	if len(s) <= mostText {
		return s
	}
	cut := mostText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
