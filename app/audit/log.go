package audit

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Chain is where the records are kept.
type Chain interface {
	AppendAudit(ctx context.Context, next func(last store.AuditRow) (store.AuditRow, error)) (store.AuditRow, error)
	Audit(ctx context.Context, after int64, most int) ([]store.AuditRow, error)
}

// Log appends records to the chain and keeps the copy in files. It is safe for concurrent use, also by several processes.
type Log struct {
	chain  Chain
	redact func(string) string
	log    *slog.Logger
	now    func() time.Time

	mu    sync.Mutex
	files *Files
}

// Options of New. Dir is where the copy in files lies; empty: there is none.
type Options struct {
	Chain  Chain
	Dir    string
	Redact func(string) string
	Log    *slog.Logger
	Now    func() time.Time
}

// New makes a log.
func New(o Options) *Log {
	l := &Log{chain: o.Chain, redact: o.Redact, log: o.Log, now: o.Now}
	if l.redact == nil {
		l.redact = func(s string) string { return s }
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.now == nil {
		l.now = time.Now
	}
	if o.Dir != "" {
		l.files = &Files{Dir: o.Dir}
	}
	return l
}

// Append records an entry. It has happened: a record that cannot be written is an error for the log of the program, and only
// where somebody is to be kept from going on without it, for the caller.
func (l *Log) Append(ctx context.Context, e Entry) error {
	ctx = context.WithoutCancel(ctx)
	err := l.append(ctx, e)
	if err != nil {
		l.log.Error("audit record not written", "kind", e.Kind, "mission", e.Mission, "run", e.Run, "error", err)
		return err
	}
	if err := l.Sync(ctx); err != nil { // the database has it, and the next record tries again
		l.log.Error("audit file not written", "error", err)
	}
	return nil
}

func (l *Log) append(ctx context.Context, e Entry) error {
	if e.Time.IsZero() {
		e.Time = l.now()
	}
	data, err := clean(e.Data, l.redact)
	if err != nil {
		return fmt.Errorf("audit record %s: %w", e.Kind, err)
	}
	r := Record{Time: e.Time.UTC().Format(time.RFC3339Nano), Kind: e.Kind, Mission: e.Mission, Run: e.Run,
		Repository: short(l.redact(e.Repository)), Actor: short(l.redact(e.Actor)), Data: data}
	_, err = l.chain.AppendAudit(ctx, func(last store.AuditRow) (store.AuditRow, error) {
		r.Seq, r.Prev = last.Seq+1, last.Hash
		if last.Seq == 0 {
			r.Prev = noPrev
		}
		text, err := canonical(r)
		if err != nil {
			return store.AuditRow{}, err
		}
		return store.AuditRow{Seq: r.Seq, At: e.Time, Kind: r.Kind, Mission: r.Mission, Run: r.Run, Hash: hashOf(text), Record: text}, nil
	})
	return err
}

// Sync writes what the files do not have yet: also what other bots on the same database have recorded, and what a crash has kept
// from being written.
func (l *Log) Sync(ctx context.Context) error {
	if l.files == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files.follow(ctx, l.chain)
}
