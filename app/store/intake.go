package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// mostTogether bounds one commit of deliveries. GitHub was never seen to send more at once, and the first of them waits for
// the last.
const mostTogether = 64

// patience is how long GitHub waits for an answer: https://docs.github.com/en/webhooks/using-webhooks/best-practices-for-using-webhooks
// A commit that takes longer, since the way to the database takes everything and gives nothing back, is of no use to anybody, and
// whoever comes behind it may have a connection that works.
const patience = 10 * time.Second

// intake commits the deliveries that come at the same time together: a commit costs a write to the disk, however much is in
// it. Whoever comes while no commit is under way makes the next one, for everybody who waits.
type intake struct {
	turn     chan struct{} // held by whoever commits
	patience time.Duration // with one commit

	// These belong to whoever has the turn.
	last       int               // deliveries in the last commit
	took       time.Duration     // the last commit
	statements map[int]*sql.Stmt // by the number of deliveries

	mu      sync.Mutex
	waiting []*arrival
}

// arrival is a delivery on its way into the database.
type arrival struct {
	webhooks.Delivery
	done  chan struct{} // closed when the two below are set
	fresh bool
	err   error
}

func newIntake() *intake {
	return &intake{turn: make(chan struct{}, 1), patience: patience, statements: map[int]*sql.Stmt{}}
}

func (in *intake) add(d webhooks.Delivery) *arrival {
	a := &arrival{Delivery: d, done: make(chan struct{})}
	in.mu.Lock()
	in.waiting = append(in.waiting, a)
	in.mu.Unlock()
	return a
}

const (
	quickCommit   = 4 * time.Millisecond // of a disk that is quick
	longestGather = 5 * time.Millisecond // bounds what a commit is held back for
)

// gather lets others catch up where a commit waits long for the disk: the senders whom the last one has answered are about to
// send again, and a commit for the first of them alone would keep all others waiting for as long as one for all. On a quick
// disk the time of the processors is what is short, and they take the next deliveries while these are committed. A delivery
// that comes by itself is not held back.
func (in *intake) gather() {
	if in.last < 2 || in.took <= quickCommit {
		return
	}
	full := time.NewTimer(min(in.took-quickCommit, longestGather))
	defer full.Stop()
	step := time.NewTicker(200 * time.Microsecond)
	defer step.Stop()
	for in.count() < in.last {
		select {
		case <-full.C:
			return
		case <-step.C:
		}
	}
}

func (in *intake) count() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.waiting)
}

// take gives what waits, the oldest first.
func (in *intake) take() []*arrival {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := min(len(in.waiting), mostTogether)
	batch := in.waiting[:n:n]
	in.waiting = in.waiting[n:]
	if len(in.waiting) == 0 {
		in.waiting = nil // let go of the array
	}
	return batch
}

// Put stores a delivery durably, together with those that come at the same time. fresh is false when one with its id is
// stored already, whatever it held: GitHub uses the id again when it delivers again
// (https://docs.github.com/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks). It does not end with ctx:
// another caller may be committing for this one. After an error it may be stored all the same, and is found so by the next try.
func (s *Store) Put(ctx context.Context, d webhooks.Delivery) (fresh bool, err error) {
	room := packs.Get().(*packRoom)
	defer packs.Put(room)
	d.Body = pack(d.Body, room[:]) // here, where callers do it beside each other
	a := s.intake.add(d)
	for {
		select {
		case <-a.done:
			return a.fresh, a.err
		case s.intake.turn <- struct{}{}:
			s.commitWaiting(context.WithoutCancel(ctx), a)
			<-s.intake.turn
		}
	}
}

// commitWaiting commits what waits, for whoever has the turn; its own delivery may have been in the commit before.
func (s *Store) commitWaiting(ctx context.Context, own *arrival) {
	select {
	case <-own.done:
		return
	default:
	}
	s.intake.gather()
	ctx, cancel := context.WithTimeout(ctx, s.intake.patience)
	defer cancel()
	began := time.Now()
	batch := s.intake.take()
	s.commit(ctx, batch)
	s.intake.last, s.intake.took = len(batch), time.Since(began)
}

// commit stores deliveries in one statement, and tells each caller what became of theirs.
func (s *Store) commit(ctx context.Context, batch []*arrival) {
	fresh, err := s.insert(ctx, batch)
	for _, a := range batch {
		a.err = err
		a.fresh = err == nil && fresh[a.ID]
		delete(fresh, a.ID) // twice in one batch: the first is the fresh one
		close(a.done)
	}
}

// inserting gives the statement for so many deliveries. It is kept: compiling it costs as much as a third of running it.
func (s *Store) inserting(ctx context.Context, n int) (*sql.Stmt, error) {
	if kept := s.intake.statements[n]; kept != nil {
		return kept, nil
	}
	rows := strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?, ?, ?, ?, ?), ", n), ", ")
	made, err := s.pool.PrepareContext(ctx, s.rebind(`insert into deliveries (id, event, action, installation_id, repository_id, received_at, body, due_at) values `+
		rows+` on conflict (id) do nothing returning id`))
	if err == nil {
		s.intake.statements[n] = made
	}
	return made, err
}

func (s *Store) insert(ctx context.Context, batch []*arrival) (fresh map[string]bool, err error) {
	args := make([]any, 0, 8*len(batch))
	for _, a := range batch {
		at := millis(a.ReceivedAt)
		args = append(args, a.ID, a.Event, a.Action, a.InstallationID, a.RepositoryID, at, a.Body, at)
	}
	insert, err := s.inserting(ctx, len(batch))
	if err != nil {
		return nil, fmt.Errorf("store deliveries: %w", err)
	}
	rows, err := insert.QueryContext(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("store deliveries: %w", err)
	}
	defer rows.Close()
	fresh = make(map[string]bool, len(batch))
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("store deliveries: %w", err)
		}
		fresh[id] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("store deliveries: %w", err)
	}
	return fresh, rows.Close()
}
