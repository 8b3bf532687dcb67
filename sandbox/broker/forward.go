package broker

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// passedBack are the headers of answers that go inside, beside those that tell of limits.
var passedBack = []string{"Content-Type", "Retry-After", "Request-Id", "X-Request-Id"}

// forward sends a request and passes the answer back. begun says that a model has begun to work: what it told of tokens is in u.
func (m *modelCall) forward(w http.ResponseWriter, r *http.Request, c *Call, body []byte, u *usage) (begun bool) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), callTime, errors.New("the call took too long"))
	defer cancel()
	req, err := m.request(r.WithContext(ctx), c, body)
	if err != nil {
		c.Refuse(w, http.StatusBadRequest, "request", "it cannot be sent on")
		return false
	}
	resp, err := m.transport.RoundTrip(req) // not a client: redirects are not followed
	if err != nil {
		m.unreachable(w, c, err)
		return ctx.Err() != nil // who hangs up, or waits too long, pays for what was sent
	}
	defer resp.Body.Close()
	if enc := resp.Header.Get("Content-Encoding"); resp.StatusCode < 200 || enc != "" && enc != "identity" {
		c.Record.Rule = "upstream.encoding"
		c.shape.write(w, http.StatusBadGateway, "upstream", "sandpiper: the model's API answers in a way that was not asked for and cannot be checked")
		return true
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		c.Record.Rule = "upstream.redirect"
		c.shape.write(w, http.StatusBadGateway, "upstream", "sandpiper: the model's API leads to another address, which is not followed")
		return false
	}
	for name, values := range resp.Header {
		if contains(passedBack, name) || strings.Contains(name, "Ratelimit") {
			for _, v := range values {
				w.Header().Add(name, keyless(v, m.Key))
			}
		}
	}
	if resp.StatusCode >= 400 {
		m.passError(w, resp)
		return false
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	u.stream = media == "text/event-stream"
	w.WriteHeader(resp.StatusCode)
	out := newKeyFilter(w, m.Key)
	c.Record.Down, err = pass(ctx, out, w, resp.Body, u, cancel)
	u.close()
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		u.final = false // what was told so far is not all
		// The client must not take what it has for the whole: the connection is cut off where the answer broke.
		c.Record.Rule, c.cut = "upstream.broken", true
	}
	return true
}

// pass copies an answer as it comes: each piece is sent at once.
func pass(ctx context.Context, out io.Writer, w http.ResponseWriter, body io.Reader, u *usage, cancel context.CancelFunc) (n int64, err error) {
	silence := time.AfterFunc(silenceTime, cancel)
	defer silence.Stop()
	control := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		k, err := body.Read(buf)
		silence.Reset(silenceTime)
		if k > 0 {
			u.Write(buf[:k])
			if _, err := out.Write(buf[:k]); err != nil {
				return n, err
			}
			if n += int64(k); n > maxAnswer {
				return n, errors.New("the answer is too long")
			}
			_ = control.Flush() // where it fails, the next write does
		}
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil && ctx.Err() != nil:
			return n, context.Cause(ctx)
		case err != nil:
			return n, err
		}
	}
}

// passError passes on what an API says of a failure, without the key, which some repeat in part.
func (m *modelCall) passError(w http.ResponseWriter, resp *http.Response) {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if len(text) == maxError { // a key may have been cut in two
		text = text[:maxError-min(maxError, len(m.Key.Reveal()))]
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(m.redact.Bytes(text))
}

func (m *modelCall) unreachable(w http.ResponseWriter, c *Call, err error) {
	c.Record.Rule = "upstream.unreachable"
	c.session.log.Warn("broker: the model's API cannot be reached", "run", c.Record.Run, "action", c.Record.Action, "error", err)
	c.shape.write(w, http.StatusBadGateway, "upstream", "sandpiper: the model's API cannot be reached from outside of the sandbox either")
}
