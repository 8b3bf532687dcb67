package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"sync"

	"github.com/sandpiper-bot/sandpiper/app"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// journal puts what a person does to sandboxes by hand on the bot's audit record, and what was found into its database. Both are
// opened when something happens first: most commands only look.
type journal struct {
	config *config.Config
	mu     sync.Mutex
	opened *record
	failed bool
}

// note is told of everything, and of most of it in the middle of the work: what cannot be recorded is said and stops nothing.
func (j *journal) note(e sandbox.Event) {
	if len(e.Findings) == 0 && (e.Kind == "collected" || e.Kind == "findings") { // somebody looks
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed {
		return
	}
	if err := j.append(context.Background(), e); err != nil {
		j.failed = true
		fmt.Fprintf(os.Stderr, "sandpiper: not on the audit record: %v\n", err)
	}
}

func (j *journal) append(ctx context.Context, e sandbox.Event) (err error) {
	if j.opened == nil {
		if j.opened, err = openRecordOf(ctx, j.config); err != nil {
			return err
		}
	}
	if len(e.Findings) > 0 {
		if e.Findings, err = j.opened.store.AddFindings(ctx, e.Findings); err != nil {
			return err
		}
		if e.Kind == "findings" && len(e.Findings) == 0 { // all known
			return nil
		}
	}
	entry := app.SandboxEntry(e)
	entry.Actor = "local user " + loginName()
	return j.opened.audit.Append(ctx, entry)
}

func (j *journal) close() {
	if j != nil && j.opened != nil {
		j.opened.close()
	}
}

func loginName() string {
	u, err := user.Current()
	if err != nil {
		return fmt.Sprint(os.Getuid())
	}
	return u.Username
}

// openRecorded opens the sandboxes for a person whose doings go on record. Close them.
func openRecorded(environ []string) (*sandboxes, error) {
	j := &journal{}
	s, err := openSandboxesFor(environ, j.note)
	if err != nil {
		return nil, err
	}
	j.config, s.journal = s.config, j
	return s, nil
}

// way records that a command is let out to hosts or to the broker. Of the command itself only the name: arguments may hold secrets.
func (s *sandboxes) way(id sandbox.ID, c sandbox.Command) {
	var open []string
	if len(c.Network) > 0 {
		open = append(open, "network "+strings.Join(c.Network, ", "))
	}
	if c.Broker != nil {
		open = append(open, "models "+strings.Join(c.Broker.Models, ", "))
	}
	if len(open) > 0 {
		s.journal.note(sandbox.Event{Run: id, Kind: "opened", Detail: fmt.Sprintf("%s: %s", c.Argv[0], strings.Join(open, "; "))})
	}
}
