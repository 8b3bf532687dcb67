package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrOver is returned by Cancel for a mission that has ended, and by Again for one that has not.
var ErrOver = errors.New("not in a state for that")

// Cancel has an operator end a mission.
func (s *Store) Cancel(ctx context.Context, id, by string, now time.Time) (*Mission, error) {
	m, err := s.Mission(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("mission %s: %w", id, err)
	}
	if m.Ended() {
		return nil, fmt.Errorf("mission %s has ended already (%s): %w", id, m.Outcome, ErrOver)
	}
	if err := s.Want(ctx, id, "cancel", by, now); err != nil {
		return nil, err
	}
	return s.Mission(ctx, id)
}

// Again begins a new mission that asks for the same as one that has ended. The requester stays the person who asked then.
func (s *Store) Again(ctx context.Context, id string, now time.Time) (*Mission, error) {
	old, err := s.Mission(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("mission %s: %w", id, err)
	}
	if !old.Ended() {
		return nil, fmt.Errorf("mission %s is at %s and has not ended; cancel it first: %w", id, old.Step, ErrOver)
	}
	m := &Mission{
		Kind: old.Kind, InstallationID: old.InstallationID, RepositoryID: old.RepositoryID, Owner: old.Owner, Name: old.Name, Number: old.Number,
		Title: old.Title, Task: old.Task, TriggerKey: fmt.Sprintf("retry:%s:%d", old.ID, now.UnixNano()), Requester: old.Requester, RequesterID: old.RequesterID,
		Instruction: old.Instruction, TriggeredAt: old.TriggeredAt, Head: old.Head, OnlyCheck: old.OnlyCheck, Step: "take", Attempt: 1,
		DueAt: now, CreatedAt: now, UpdatedAt: now,
	}
	if m.Kind == KindIssue {
		m.Head = "" // of what was promoted then
	}
	for {
		m.ID = NewID()
		m.Run = RunID(m.ID, m.Attempt)
		if err := s.Begin(ctx, m); !errors.Is(err, ErrID) {
			return m, err
		}
	}
}

// NewID makes the id of a mission: five letters of a base of 32, short enough to be said aloud. Begin says when it is taken.
func NewID() string { return "m-" + strings.ToLower(rand.Text()[:5]) }

// RunID names the run of an attempt at a mission, and with it everything that the run owns.
func RunID(mission string, attempt int) string {
	return fmt.Sprintf("r-%s-%d", strings.TrimPrefix(mission, "m-"), attempt)
}

// Runs reads the runs of a mission, the oldest first.
func (s *Store) Runs(ctx context.Context, mission string) ([]*Run, error) {
	rows, err := s.query(ctx, `select id from runs where mission = ? order by attempt`, mission)
	if err != nil {
		return nil, fmt.Errorf("runs of %s: %w", mission, err)
	}
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			rows.Close()
			return nil, fmt.Errorf("runs of %s: %w", mission, err)
		}
		ids = append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, fmt.Errorf("runs of %s: %w", mission, err)
	}
	runs := make([]*Run, 0, len(ids))
	for _, id := range ids {
		r, err := s.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}
