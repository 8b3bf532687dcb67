package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// input is what a request's body says.
type input struct {
	model  string
	stream bool
	output int64   // tokens that the answer may have at most; 0: it does not say
	times  int64   // how many answers are asked for; 0: it does not say
	factor float64 // what the price is multiplied with; 0: 1
}

// inputRules are what a request to a model's API may not ask for. The vendors' servers can do things on behalf of a request: search
// and fetch pages, call a tool server at any address, run code, read files of the account. Text of the workspace would leave by
// that, to where the request says, past the list of hosts that may be reached. So only what the client does itself may be asked.
type inputRules struct {
	tools  []string // types of tools that the client runs; a name that ends in * is a prefix. A tool without a type is one.
	keys   []string // the keys that a tool may have, where tools have no type
	banned []string // keys of the request itself
	urls   []string // keys, or parent.key, that name what the server would fetch
	opaque []string // keys whose values are the client's own data: schemas, and arguments of its tools
}

// errInput is why a body is refused; rule for records.
type errInput struct{ rule, message string }

func (e *errInput) Error() string { return e.message }

// Limits of a body's structure. They are far above what agents send, and keep its reading cheap.
const (
	maxDepth = 256
	maxKeys  = 100_000 // of all objects that a value is in
)

// check reads a body as one JSON value in which no key is there twice (readers do not agree which counts) and no rule is broken.
func (rules *inputRules) check(body []byte) (input, error) {
	w := &walk{rules: rules, d: json.NewDecoder(bytes.NewReader(body))}
	w.d.UseNumber()
	bad := func(why string) (input, error) { return input{}, &errInput{"body.json", why} }
	if !utf8.Valid(body) {
		return bad("the body is not UTF-8")
	}
	first, err := w.d.Token()
	if err != nil || first != json.Delim('{') {
		return bad("the body is no JSON object")
	}
	if err := w.object(nil); err != nil {
		var refused *errInput
		if errors.As(err, &refused) {
			return input{}, err
		}
		return bad("the body is no JSON: " + plain(err.Error(), 80))
	}
	if _, err := w.d.Token(); !errors.Is(err, io.EOF) {
		return bad("something follows the JSON object")
	}
	return w.in, nil
}

// dearer are the ways to ask for the same at a higher price, and how much higher at most.
var dearer = map[string]float64{
	"speed=fast":            6,   // https://platform.claude.com/docs/en/build-with-claude/fast-mode
	"inference_geo=us":      1.1, // https://platform.claude.com/docs/en/about-claude/pricing
	"service_tier=priority": 2.5, // https://developers.openai.com/api/docs/pricing
	"service_tier=fast":     2.5,
}

type walk struct {
	rules  *inputRules
	d      *json.Decoder
	keys   int
	opaque int // how many keys around this value make it the client's own
	in     input
}

// object reads the rest of an object. path are the keys that lead to it, "" for a place in a list.
func (w *walk) object(path []string) error {
	if len(path) >= maxDepth {
		return &errInput{"body.size", "the body is nested too deeply"}
	}
	seen := map[string]bool{}
	defer func() { w.keys -= len(seen) }()
	for w.d.More() {
		token, err := w.d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if seen[key] {
			return &errInput{"body.twice", fmt.Sprintf("the key %q is there twice", plain(key, 40))}
		}
		seen[key] = true
		if w.keys++; w.keys > maxKeys {
			return &errInput{"body.size", "the body has too many keys"}
		}
		if err := w.key(path, key); err != nil {
			return err
		}
		own := slices.Contains(w.rules.opaque, key) && len(path) > 0
		if own {
			w.opaque++
		}
		err = w.value(append(path[:len(path):len(path)], key))
		if own {
			w.opaque--
		}
		if err != nil {
			return err
		}
	}
	_, err := w.d.Token()
	return err
}

func (w *walk) value(path []string) error {
	token, err := w.d.Token()
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return w.object(path)
		}
		return w.list(path)
	case string:
		return w.text(path, v)
	case bool:
		if len(path) == 1 && path[0] == "stream" {
			w.in.stream = v
		}
	case json.Number:
		w.number(path, v)
	}
	return err
}

func (w *walk) list(path []string) error {
	if len(path) >= maxDepth {
		return &errInput{"body.size", "the body is nested too deeply"}
	}
	inside := append(path[:len(path):len(path)], "")
	for w.d.More() {
		if err := w.value(inside); err != nil {
			return err
		}
	}
	_, err := w.d.Token()
	return err
}

// number takes what bounds the cost of the answer.
func (w *walk) number(path []string, v json.Number) {
	if len(path) > 2 || len(path) == 2 && path[0] != "generationConfig" && path[0] != "generation_config" {
		return
	}
	n, err := strconv.ParseInt(v.String(), 10, 32)
	if err != nil || n < 0 {
		n = 0 // not for us to judge: the vendor refuses it
	}
	switch path[len(path)-1] {
	case "max_tokens", "max_output_tokens", "max_completion_tokens", "maxOutputTokens":
		w.in.output = max(w.in.output, n)
	case "n", "candidateCount", "candidate_count":
		w.in.times = max(w.in.times, n)
	}
}

// inTool says whether path leads to an object that describes a tool. Google's servers take one that is in no list for a list of one.
func inTool(path []string) bool {
	n := len(path)
	for n > 0 && path[n-1] == "" {
		n--
	}
	return n > 0 && path[n-1] == "tools"
}

func (w *walk) key(path []string, key string) error {
	switch {
	case len(path) == 0 && slices.Contains(w.rules.banned, key):
		return &errInput{"body." + key, fmt.Sprintf("%q would have the model's servers act for the sandbox", key)}
	case w.opaque == 0 && inTool(path) && w.rules.keys != nil && !slices.Contains(w.rules.keys, key):
		return &errInput{"body.tool", fmt.Sprintf("the tool %q would be run by the model's servers, which reach what the sandbox must not", plain(key, 40))}
	}
	return nil
}

func (w *walk) text(path []string, v string) error {
	n := len(path)
	key := path[n-1]
	if n == 1 && key == "model" {
		w.in.model = v
	}
	if n == 1 {
		w.in.factor = max(w.in.factor, dearer[key+"="+v])
	}
	if w.opaque > 0 {
		return nil
	}
	if key == "type" && inTool(path[:n-1]) && w.rules.tools != nil && !w.rules.allowsTool(v) {
		return &errInput{"body.tool", fmt.Sprintf("a tool of the type %q would be run by the model's servers, which reach what the sandbox must not", plain(v, 40))}
	}
	full := key
	if n > 1 {
		full = path[n-2] + "." + key
	}
	if (slices.Contains(w.rules.urls, key) || slices.Contains(w.rules.urls, full)) && !strings.HasPrefix(v, "data:") {
		return &errInput{"body.url", fmt.Sprintf("%q would have the model's servers fetch an address; send the content itself", plain(full, 40))}
	}
	return nil
}

func (rules *inputRules) allowsTool(kind string) bool {
	for _, t := range rules.tools {
		if prefix, ok := strings.CutSuffix(t, "*"); ok && strings.HasPrefix(kind, prefix) || kind == t {
			return true
		}
	}
	return false
}
