package broker

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// Call is one request while it is served.
type Call struct {
	Record Record            // what will be recorded; the action fills in what it knows
	Params map[string]string // what stood for the {names} of the path

	session *Session
	shape   shape // of errors
	cut     bool  // the answer broke off: so has the connection to
}

// Refuse answers with an error that says what was asked for and why it is not done.
func (c *Call) Refuse(w http.ResponseWriter, status int, rule, message string) {
	c.Record.Decision, c.Record.Rule = Deny, rule
	c.shape.write(w, status, rule, "sandpiper: "+c.Record.Action+": "+message)
}

// ServeHTTP compares a request with the table of actions and lets the one that fits do it.
func (s *Session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	defer s.calls.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	r = r.WithContext(ctx)
	begin := s.now()
	c := &Call{session: s, shape: shapeOf(r.URL.Path), Record: Record{
		Time: begin.UTC(), Run: s.run, Method: plain(r.Method, 16), Decision: Allow,
	}}
	answer := &answer{ResponseWriter: w}
	defer func() {
		c.Record.Status, c.Record.Down = answer.status, answer.bytes
		c.Record.Duration = s.now().Sub(begin)
		s.record(c.Record)
	}()
	s.serve(answer, r, c)
	if c.cut {
		panic(http.ErrAbortHandler)
	}
}

func (s *Session) serve(w http.ResponseWriter, r *http.Request, c *Call) {
	a, params, rule := s.find(r)
	c.Record.Path = plain(r.RequestURI, 200)
	if at := strings.IndexByte(c.Record.Path, '?'); at >= 0 {
		c.Record.Path = c.Record.Path[:at] // a query may hold a key
	}
	if rule != "" {
		c.Record.Action = c.Record.Method + " " + c.Record.Path
		c.Refuse(w, http.StatusForbidden, rule, rules[rule])
		return
	}
	c.Record.Action, c.Record.Path, c.Params = a.Name, a.Path, params
	query := r.URL.Query()
	for name := range query {
		if !contains(a.Query, name) {
			query.Del(name)
		}
	}
	r.URL.RawQuery = query.Encode()
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-r.Context().Done():
		c.Refuse(w, http.StatusServiceUnavailable, "call.cancelled", "the command has ended, or asks no more")
		return
	}
	a.Do.Do(w, r, c)
}

// find gives the action that a request asks for, or the rule that refuses it.
func (s *Session) find(r *http.Request) (Action, map[string]string, string) {
	switch {
	case r.Method == http.MethodConnect || !strings.HasPrefix(r.RequestURI, "/") || r.URL.Host != "":
		return Action{}, nil, "target.form"
	case r.Header.Get("Upgrade") != "" || hasToken(r.Header["Connection"], "upgrade"):
		return Action{}, nil, "upgrade"
	case !plainPath(r):
		return Action{}, nil, "target.path"
	}
	known := false
	for _, a := range s.actions {
		params, ok := match(a.Path, r.URL.Path)
		if ok && a.Method == r.Method {
			return a, params, ""
		}
		known = known || ok
	}
	switch {
	case known:
		return Action{}, nil, "method"
	case strings.Contains(strings.ToLower(r.URL.Path), "graphql"):
		return Action{}, nil, "graphql"
	case strings.HasPrefix(r.URL.Path, "/git/"):
		return Action{}, nil, "git"
	}
	return Action{}, nil, "action"
}

// rules are why a request is refused before any action looks at it.
var rules = map[string]string{
	"target.form": "this is no proxy; ask for a path",
	"target.path": "escapes, empty and dotted segments are not taken in a path",
	"upgrade":     "there is no WebSocket and no other protocol here",
	"method":      "this path is not offered with this method",
	"graphql":     "GraphQL is one address for everything, and is not offered",
	"git":         "the repository can be fetched from here, and nothing else; what you change is collected from the files",
	"action":      "this is not offered to this run",
}

func hasToken(values []string, token string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// answer counts what goes out.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// within gives the client a time to send its body, and takes the deadline back: it would end the call later.
func within(w http.ResponseWriter, d time.Duration) (done func()) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(d)) // not supported by a test's recorder
	return func() { _ = control.SetReadDeadline(time.Time{}) }
}
