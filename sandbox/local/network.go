package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
)

// A command in a loop can ask for much: beyond these, decisions are counted and hosts are not told one by one.
const (
	mostDecisions = 10_000
	mostFindings  = 20
)

// way is the way out of one command: its proxy and the record of what that decided. A nil one is the usual: there is none.
type way struct {
	proxy *egress.Proxy
	env   []string

	mu      sync.Mutex
	file    *os.File
	written int
	left    int   // decisions that were not written
	err     error // the first that kept a decision from being recorded
}

// openWay makes the way out that a command asks for; nil when it asks for none.
func (p Place) openWay(w sandbox.Workspace, c sandbox.Command) (*way, error) {
	if len(c.Network) == 0 {
		return nil, nil
	}
	rules, err := egress.Parse(c.Network)
	if err != nil {
		return nil, err
	}
	o := p.Egress
	out := &way{env: rules.Environment()}
	o.Run, o.Rules, o.Record, o.Now = string(w.ID), rules, out.record, p.Now
	if out.proxy, err = egress.New(o); err != nil {
		return nil, err
	}
	out.file, err = os.OpenFile(filepath.Join(w.Exec, "egress.jsonl"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return out, err
}

// record writes one decision as one line, in one write.
func (o *way) record(d egress.Decision) {
	line, err := json.Marshal(d)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written >= mostDecisions {
		o.left++
		return
	}
	o.written++
	if err == nil {
		_, err = o.file.Write(append(line, '\n'))
	}
	if err != nil && o.err == nil {
		o.err = err
	}
}

// close is called when nobody asks any more.
func (o *way) close() {
	if o == nil {
		return
	}
	if o.left > 0 {
		_, err := fmt.Fprintf(o.file, "{\"left_out\":%d}\n", o.left)
		o.err = errors.Join(o.err, err)
	}
	o.err = errors.Join(o.err, o.file.Close())
}

// blocked lists the hosts that a policy could have opened, as it would name them.
func (o *way) blocked() []string {
	if o == nil {
		return nil
	}
	var hosts []string
	for _, d := range o.proxy.Denied() {
		if d.Line != "" && len(hosts) < mostFindings {
			hosts = append(hosts, d.Host)
		}
	}
	return hosts
}

// findings are what was refused. It was contained: the host saw it, and nothing went out.
func (o *way) findings(run sandbox.ID, now time.Time) []sandbox.Finding {
	if o == nil {
		return nil
	}
	var out []sandbox.Finding
	denied := o.proxy.Denied()
	for _, d := range denied[:min(len(denied), mostFindings)] {
		severity := "low"
		switch d.Reason {
		case egress.BadAddress, egress.WrongName, egress.HiddenName: // no build tool does this by mistake
			severity = "medium"
		}
		out = append(out, sandbox.Finding{Run: run, Time: now.UTC(), Kind: "net.denied", Severity: severity, Observer: "host",
			Evidence: fmt.Sprintf("%s: %s: %s (%d times)", cmp.Or(d.Host, "a request"), d.Reason, d.Detail, d.Times), Outcome: "contained"})
	}
	if more := len(denied) - mostFindings; more > 0 {
		out = append(out, sandbox.Finding{Run: run, Time: now.UTC(), Kind: "net.denied", Severity: "low", Observer: "host",
			Evidence: fmt.Sprintf("%d more hosts were refused, see egress.jsonl", more), Outcome: "contained"})
	}
	if o.err != nil { // what happened is not all known
		out = append(out, sandbox.Finding{Run: run, Time: now.UTC(), Kind: "net.unrecorded", Severity: "high", Observer: "host",
			Evidence: "egress.jsonl: " + o.err.Error(), Outcome: "inconclusive"})
	}
	return out
}
