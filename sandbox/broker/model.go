package broker

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// Limits of one call to a model, and of those of one command.
const (
	maxBody     = 32 << 20         // Anthropic's own limit for a request
	maxBodies   = 2 * maxBody      // of the bodies that one command has in this process at once: its own memory is limited, and this is ours
	maxAnswer   = 256 << 20        // far above any answer
	maxError    = 64 << 10         // of an answer that is an error: read whole, to look for what must not go inside
	bodyTime    = time.Minute      // for the client to send its body
	headerTime  = 10 * time.Minute // until the answer begins: a model may think, without streaming, as long as it writes
	silenceTime = 5 * time.Minute  // between two pieces of an answer; streams have a ping much more often
	callTime    = 30 * time.Minute
)

// upstream is one model endpoint of a session.
type upstream struct {
	*api
	Upstream
	transport http.RoundTripper
	redact    *redact.Redactor
}

// modelCall does one action at an upstream.
type modelCall struct {
	*upstream
	modelAction
}

func modelActions(name string, up *upstream) []Action {
	var out []Action
	for _, a := range up.api.actions {
		out = append(out, Action{Name: "model." + name + "." + a.name, Method: a.method, Path: "/model/" + name + a.path, Query: a.query,
			Do: &modelCall{up, a}})
	}
	return out
}

// checkUpstream takes an address that has nothing in it but where it is.
func checkUpstream(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("the address is no http or https address")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the address has a user, a query or a fragment")
	}
	return nil
}

// vendors says whether the address is the vendor's own.
func (up *upstream) vendors() bool {
	u, err := url.Parse(up.URL)
	return err == nil && strings.EqualFold(u.Hostname(), up.host)
}

// newTransport is that of one session, so that nothing of it is left when the session ends. It takes the proxy settings of the
// machine. Answers are not compressed: they are read while they pass.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext, TLSHandshakeTimeout: 15 * time.Second,
		ResponseHeaderTimeout: headerTime, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: maxInFlight,
		MaxResponseHeaderBytes: 64 << 10, DisableCompression: true, ForceAttemptHTTP2: true,
	}
}

// Fingerprint tells keys apart in records: the first 12 hex digits of its SHA-256.
func Fingerprint(key redact.Secret) string {
	sum := sha256.Sum256([]byte(key.Reveal()))
	return "sha256:" + hex.EncodeToString(sum[:6])
}

// Do checks the request, sends it on with the key, and passes the answer back as it comes.
func (m *modelCall) Do(w http.ResponseWriter, r *http.Request, c *Call) {
	c.Record.Credential = Fingerprint(m.Key)
	body, in, give, ok := m.read(w, r, c)
	defer give()
	if !ok {
		return
	}
	if c.Params["model"] != "" {
		in.model = c.Params["model"]
	}
	c.Record.Model = plain(in.model, 80)
	if strings.Contains(in.model, "search") || strings.Contains(in.model, "deep-research") {
		c.Refuse(w, http.StatusForbidden, "model.search", "this model searches the web by itself, which the sandbox may not do")
		return
	}
	if m.free {
		m.forward(w, r, c, body, &usage{})
		return
	}
	most := Tokens{Input: int64(len(body)) / perToken, Output: cmp.Or(in.output, usualOutput) * max(in.times, 1)}
	settle, err := c.session.budget.take(r.Context(), sandbox.Spent{Requests: 1, Input: most.Input, Output: most.Output, Money: m.cost(in, most)})
	if used := (*errSpent)(nil); errors.As(err, &used) {
		// 400 and not 429: clients repeat what may pass with time, and this does not.
		c.Refuse(w, http.StatusBadRequest, "budget", err.Error())
		return
	}
	if err != nil {
		c.Refuse(w, http.StatusServiceUnavailable, "call.cancelled", "the command has ended, or asks no more")
		return
	}
	u := &usage{}
	spent := sandbox.Spent{Requests: 1}
	if m.forward(w, r, c, body, u) {
		c.Record.Tokens, c.Record.Estimated = u.total(int64(len(body)), c.Record.Down)
		c.Record.Money = m.cost(in, c.Record.Tokens)
		spent = sandbox.Spent{Requests: 1, Input: c.Record.Tokens.input(), Output: c.Record.Tokens.Output, Money: c.Record.Money}
	}
	settle(spent)
}

// usualOutput is how many tokens of an answer are held against the budget while it is written, where the request has no limit for them.
const usualOutput = 32_000

// read takes the body in whole: what is sent on is framed by us, whatever framing came. Call give when it is needed no more.
func (m *modelCall) read(w http.ResponseWriter, r *http.Request, c *Call) (body []byte, in input, give func(), ok bool) {
	give = func() {}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		c.Refuse(w, http.StatusForbidden, "body.encoding", "a compressed body cannot be checked; send it as it is")
		return nil, in, give, false
	}
	room := int64(maxBody)
	if 0 <= r.ContentLength && r.ContentLength < room {
		room = r.ContentLength
	}
	if err := c.session.bodies.take(r.Context(), room); err != nil {
		c.Refuse(w, http.StatusServiceUnavailable, "call.cancelled", "the command has ended, or asks no more")
		return nil, in, give, false
	}
	done := within(w, bodyTime)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	done()
	c.session.bodies.give(room - int64(len(body)))
	give = func() { c.session.bodies.give(int64(len(body))) }
	c.Record.Up = int64(len(body))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		c.Refuse(w, http.StatusRequestEntityTooLarge, "body.size", fmt.Sprintf("the body has more than %d bytes", maxBody))
		return body, in, give, false
	case err != nil:
		c.Refuse(w, http.StatusBadRequest, "body.read", "the body did not come to its end")
		return body, in, give, false
	case m.rules == nil && len(body) > 0:
		c.Refuse(w, http.StatusForbidden, "body.none", "this takes no body")
		return body, in, give, false
	case m.rules == nil:
		return nil, in, give, true
	}
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/json" {
		c.Refuse(w, http.StatusForbidden, "body.type", "the body has to be application/json")
		return body, in, give, false
	}
	in, err = m.rules.check(body)
	if refused := (*errInput)(nil); errors.As(err, &refused) {
		c.Refuse(w, http.StatusForbidden, refused.rule, refused.message)
		return body, in, give, false
	}
	return body, in, give, true
}

// passedOn are the headers of every request that reach the upstream. Whatever else a client sends, credentials and cookies among
// it, stays here.
var passedOn = []string{"Accept", "Content-Type", "User-Agent"}

// request is built anew: address and credential are ours, path and query are of the table.
func (m *modelCall) request(r *http.Request, c *Call, body []byte) (*http.Request, error) {
	path := m.path
	for name, value := range c.Params {
		path = strings.Replace(path, "{"+name+"}", value, 1)
	}
	address := strings.TrimSuffix(m.URL, "/") + path
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(r.Context(), m.method, address, reader)
	if err != nil {
		return nil, err
	}
	for _, list := range [][]string{passedOn, m.headers} {
		for _, name := range list {
			if values := r.Header.Values(name); len(values) > 0 {
				req.Header[http.CanonicalHeaderKey(name)] = values
			}
		}
	}
	m.sign(req.Header, m.Key)
	return req, nil
}
