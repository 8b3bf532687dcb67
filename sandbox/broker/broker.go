// Package broker holds the credentials that the commands of a sandbox need, and offers what can be done with them as named actions.
//
// A command sees an address on its own loopback, and a key that is none. What it asks for there is compared with a table of actions:
// method, path, the names of the query's parameters. An action checks its input, adds the credential, talks to the one host that
// the settings name, and is counted against a budget. Whatever is not in the table is refused. Each call is recorded, without
// bodies: who asked (known from the listener, never from the client), for what, what was decided and why, and what it cost.
//
// The package must not know missions, policies or GitHub, hand out a credential, or follow an address that came from inside.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// Address is where a command finds the broker: a port of the loopback of its own network namespace. The egress proxy is on the
// same one. A request for a path is for the broker, one for a tunnel or a whole address for the proxy.
const Address = "127.0.0.1:3128"

// GitURL is the address of the run's repository for git inside.
const GitURL = "http://" + Address + "/git"

// Endpoint is the base address of a model's API inside, as its vendor's own would be without /v1.
func Endpoint(model string) string { return "http://" + Address + "/model/" + model }

// Calls is the name of the file of records in the directory of a command, one JSON object a line.
const Calls = "broker.jsonl"

// Upstream is where a model's API is, and the key for it.
type Upstream struct {
	URL string // scheme and host, and a path before the API's own if there is one
	Key redact.Secret
}

// Action is one thing that can be asked for. Policies of an organisation may bring more of them (Options.Actions).
type Action struct {
	Name   string   // in records and refusals, such as model.messages
	Method string   // one
	Path   string   // a template: {x} stands for one or more of [A-Za-z0-9._-] within a segment
	Query  []string // parameters that may be there; others are dropped
	Do     Doer
}

// Doer does an action. It writes the answer, and into c what is to be recorded.
type Doer interface {
	Do(w http.ResponseWriter, r *http.Request, c *Call)
}

// Options of New.
type Options struct {
	Models    map[string]Upstream // by name: anthropic, openai, gemini. Those without a key are not offered.
	Stores    *gitstore.Stores    // nil: no repository is offered
	Actions   []Action            // of the organisation, for every run
	Transport http.RoundTripper   // to the models; nil: one of its own
	Log       *slog.Logger
	Now       func() time.Time
}

// Broker makes sessions. It is safe for concurrent use.
type Broker struct {
	o        Options
	redactor *redact.Redactor
}

// New checks the addresses of the models.
func New(o Options) (*Broker, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	b := &Broker{o: o, redactor: redact.New()}
	for name, up := range o.Models {
		if apis[name] == nil {
			return nil, fmt.Errorf("broker: there is no model endpoint %q", name)
		}
		if err := checkUpstream(up.URL); err != nil {
			return nil, fmt.Errorf("broker: endpoint %s: %w", name, err)
		}
		b.redactor.Add(up.Key)
	}
	return b, nil
}

// Models are the names of the endpoints that have a key.
func (b *Broker) Models() []string {
	var names []string
	for name, up := range b.o.Models {
		if !up.Key.IsZero() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ErrNoModel is the error of a grant for an endpoint that has no key.
type ErrNoModel struct{ Model string }

func (e *ErrNoModel) Error() string {
	return fmt.Sprintf("the broker has no key for the model endpoint %s", e.Model)
}

// Session serves one command of one run.
type Session struct {
	run       sandbox.ID
	actions   []Action
	budget    *budget
	turns     chan struct{}
	bodies    *room
	log       *slog.Logger
	now       func() time.Time
	transport *http.Transport // made for this session; nil: somebody else's

	ctx   context.Context // of all calls
	stop  context.CancelFunc
	calls sync.WaitGroup

	mu      sync.Mutex
	file    *os.File
	written int              // records, also those that were left out
	refused map[string]int64 // by evidence
}

// maxInFlight is how many calls of one command are worked on at once; more wait for their turn. Agents have a handful at a time.
const maxInFlight = 16

// Open makes the session of one command. Its records are added to Calls in the directory of the command.
func (b *Broker) Open(w sandbox.Workspace, g sandbox.Grant) (*Session, error) {
	s := &Session{run: w.ID, budget: newBudget(g), turns: make(chan struct{}, maxInFlight), bodies: newRoom(maxBodies), log: b.o.Log, now: b.o.Now,
		refused: map[string]int64{}}
	transport := b.o.Transport
	if transport == nil {
		s.transport = newTransport()
		transport = s.transport
	}
	for _, name := range g.Models {
		up, ok := b.o.Models[name]
		if !ok || up.Key.IsZero() {
			return nil, &ErrNoModel{name}
		}
		s.actions = append(s.actions, modelActions(name, &upstream{api: apis[name], Upstream: up, transport: transport, redact: b.redactor})...)
	}
	if g.Git {
		if b.o.Stores == nil {
			return nil, errors.New("broker: no store to fetch from")
		}
		s.actions = append(s.actions, gitActions(&repository{stores: b.o.Stores, key: storeKey(w.Store), run: w.ID})...)
	}
	s.actions = append(s.actions, b.o.Actions...)
	file, err := os.OpenFile(filepath.Join(w.Exec, Calls), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("broker: records: %w", err)
	}
	s.file = file
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Close says what was used, and what was refused. Call it after Serve has returned.
func (s *Session) Close() (sandbox.Spent, []sandbox.Finding) {
	s.stop()
	s.calls.Wait()
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.written - maxRecords; n > 0 {
		fmt.Fprintf(s.file, "{\"left_out\":%d}\n", n)
	}
	if err := s.file.Close(); err != nil {
		s.log.Error("broker: the records are not complete", "run", s.run, "error", err)
	}
	return s.budget.spent(), s.findings()
}
