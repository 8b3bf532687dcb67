package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is what a mission does.
type Kind string

// An issue mission lets an agent work on an issue; a checks mission runs the repository's checks on a pull request's head.
const (
	KindIssue  Kind = "issue"
	KindChecks Kind = "checks"
	KindGroup  Kind = "group" // as KindChecks, on the commit of a merge queue; Number is the pull request that the group ends with
)

// Mission is one request by a human for work on an issue or a pull request.
type Mission struct {
	ID             string
	Kind           Kind
	InstallationID int64
	RepositoryID   int64
	Owner, Name    string // for people; the id is the key
	Number         int
	Title          string
	Task           string // JSON: the issue's text as of the trigger
	TriggerKey     string // what started it: delivery:<guid> or comment:<id>:<line>
	Requester      string
	RequesterID    int64
	Instruction    string // what the requester wrote after the command
	TriggeredAt    time.Time
	BaseBranch     string
	Base           string
	Head           string
	OnlyCheck      string // a re-run of this check alone
	Policy         string // JSON
	PolicySource   string
	Step           string
	Attempt        int
	Run            string
	Want           string // set by Want, cleared by Wanted
	WantBy         string
	NextHead       string // set by Supersede
	Outcome        string
	Message        string
	Pull           int
	PullURL        string
	Branch         string
	CommentID      int64
	CommentDigest  string
	Failures       int    // of the step, in a row, that time mends
	Defects        int    // and others
	Trouble        string // why the step is tried again
	DueAt          time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time
	EndedAt        time.Time
	Host           string    // whose disk has the run's sandbox; "" before there is one
	ReadyAt        time.Time // since when it waits for a place
	Position       int       // in the line for a place, from 1, when that was last worth telling; 0: it was not yet. Set by Schedule
	OwnRules       string    // JSON: the rules for the bot's branch, when the base was pinned
}

// Ended says whether the mission is over.
func (m *Mission) Ended() bool { return !m.EndedAt.IsZero() }

// ErrNone is returned when there is no such row.
var ErrNone = errors.New("not in the database")

// ErrID is returned by Begin when another mission has the id: make another.
var ErrID = errors.New("the id is taken")

// ErrOpen is returned by Begin when the issue has an open mission already, or the trigger has started one before.
var ErrOpen = errors.New("there is a mission already")

const missionColumns = `id, kind, installation_id, repository_id, owner, name, number, title, task, trigger_key, requester, requester_id,
	instruction, triggered_at, base_branch, base, head, only_check, policy, policy_source, step, attempt, run, want, want_by, next_head,
	outcome, message, pull, pull_url, branch, comment_id, comment_digest, failures, due_at, created_at, updated_at, ended_at, host, ready_at, position, own_rules, defects, trouble`

// Begin stores a new mission. One of several at the same time wins; the others get ErrOpen.
func (s *Store) Begin(ctx context.Context, m *Mission) error {
	marks := strings.TrimSuffix(strings.Repeat("?, ", strings.Count(missionColumns, ",")+1), ", ")
	err := s.due(ctx, Tick{Mission: m.ID, At: m.DueAt}, func(c conn) error {
		_, err := c.exec(ctx, `insert into missions (`+missionColumns+`) values (`+marks+`)`,
			m.ID, m.Kind, m.InstallationID, m.RepositoryID, m.Owner, m.Name, m.Number, m.Title, m.Task, m.TriggerKey, m.Requester, m.RequesterID,
			m.Instruction, millis(m.TriggeredAt), m.BaseBranch, m.Base, m.Head, m.OnlyCheck, m.Policy, m.PolicySource, m.Step, m.Attempt, m.Run,
			m.Want, m.WantBy, m.NextHead, m.Outcome, m.Message, m.Pull, m.PullURL, m.Branch, m.CommentID, m.CommentDigest, m.Failures,
			millis(m.DueAt), millis(m.CreatedAt), millis(m.UpdatedAt), millis(m.EndedAt), m.Host, millis(m.ReadyAt), m.Position, m.OwnRules, m.Defects, m.Trouble)
		return err
	})
	switch taken, id := isTaken(err); {
	case id:
		return fmt.Errorf("mission %s: %w", m.ID, ErrID)
	case taken:
		return fmt.Errorf("mission for %s/%s#%d: %w", m.Owner, m.Name, m.Number, ErrOpen)
	case err != nil:
		return fmt.Errorf("mission for %s/%s#%d: %w", m.Owner, m.Name, m.Number, err)
	}
	return nil
}

// Save writes what a tick may change. What people ask for meanwhile (Want, NextHead, OnlyCheck) has statements of its own, so that
// a tick that runs at the same time cannot write over it.
func (s *Store) Save(ctx context.Context, m *Mission, now time.Time) error {
	m.UpdatedAt = now
	_, err := s.exec(ctx, `update missions set owner = ?, name = ?, title = ?, base_branch = ?, base = ?, head = ?, task = ?,
		policy = ?, policy_source = ?, step = ?, attempt = ?, run = ?, outcome = ?, message = ?, pull = ?, pull_url = ?, branch = ?,
		comment_id = ?, comment_digest = ?, failures = ?, defects = ?, trouble = ?,
		due_at = case when want <> ? or next_head <> ? then cast(? as bigint) else cast(? as bigint) end, updated_at = ?, ended_at = ?, host = ?, ready_at = ?, own_rules = ? where id = ?`,
		m.Owner, m.Name, m.Title, m.BaseBranch, m.Base, m.Head, m.Task,
		m.Policy, m.PolicySource, m.Step, m.Attempt, m.Run, m.Outcome, m.Message, m.Pull, m.PullURL, m.Branch,
		m.CommentID, m.CommentDigest, m.Failures, m.Defects, m.Trouble,
		m.Want, m.NextHead, millis(now), millis(m.DueAt), millis(m.UpdatedAt), millis(m.EndedAt), m.Host, millis(m.ReadyAt), m.OwnRules, m.ID)
	if err != nil {
		return fmt.Errorf("mission %s: %w", m.ID, err)
	}
	return nil
}

// Told records what the status comment says. It does not wait for the end of a step, which may be parked or interrupted after it.
func (s *Store) Told(ctx context.Context, id string, comment int64, digest string) error {
	return one(ctx, s.conn, id, `update missions set comment_id = ?, comment_digest = ? where id = ?`, comment, digest, id)
}

// Want records what a person asks of an open mission and makes it due at once.
func (s *Store) Want(ctx context.Context, id, want, by string, now time.Time) error {
	return s.wake(ctx, id, now, `update missions set want = ?, want_by = ?, due_at = ? where id = ? and ended_at = 0`, want, by, millis(now), id)
}

// Wanted clears the wish once it is fulfilled.
func (s *Store) Wanted(ctx context.Context, id string) error {
	return one(ctx, s.conn, id, `update missions set want = '', want_by = '' where id = ?`, id)
}

// Supersede records that a pull request has a newer head, or that its checks are to run again, and makes the mission due.
func (s *Store) Supersede(ctx context.Context, id, head, onlyCheck string, now time.Time) error {
	return s.wake(ctx, id, now, `update missions set next_head = ?, only_check = ?, due_at = ? where id = ? and ended_at = 0`, head, onlyCheck, millis(now), id)
}

// Superseded clears the newer head once it is taken up, unless an even newer one has come.
func (s *Store) Superseded(ctx context.Context, id, head string) error {
	_, err := s.exec(ctx, `update missions set next_head = '' where id = ? and next_head = ?`, id, head)
	if err != nil {
		return fmt.Errorf("mission %s: %w", id, err)
	}
	return nil
}

// wake changes one mission and has it looked at.
func (s *Store) wake(ctx context.Context, id string, now time.Time, query string, args ...any) error {
	return s.due(ctx, Tick{Mission: id, At: now}, func(c conn) error { return one(ctx, c, id, query, args...) })
}

// one changes exactly one mission.
func one(ctx context.Context, c conn, id, query string, args ...any) error {
	result, err := c.exec(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("mission %s: %w", id, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return fmt.Errorf("mission %s: %w", id, errors.Join(ErrNone, err))
	}
	return nil
}

// Mission reads one mission.
func (s *Store) Mission(ctx context.Context, id string) (*Mission, error) {
	return s.mission(ctx, `where id = ?`, id)
}

// LastMission reads the newest mission of an issue or pull request, open or ended.
func (s *Store) LastMission(ctx context.Context, repository int64, number int, kind Kind) (*Mission, error) {
	return s.mission(ctx, `where repository_id = ? and number = ? and kind = ? order by (ended_at = 0) desc, created_at desc, id limit 1`, repository, number, kind)
}

// MissionOfPull reads the mission that opened a pull request.
func (s *Store) MissionOfPull(ctx context.Context, repository int64, pull int) (*Mission, error) {
	return s.mission(ctx, `where repository_id = ? and pull = ? and kind = 'issue' order by created_at desc limit 1`, repository, pull)
}

// MissionOfRun reads the mission whose present run has an id.
func (s *Store) MissionOfRun(ctx context.Context, run string) (*Mission, error) {
	return s.mission(ctx, `where run = ? limit 1`, run)
}

func (s *Store) mission(ctx context.Context, where string, args ...any) (*Mission, error) {
	found, err := s.missions(ctx, where, args...)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("mission: %w", ErrNone)
	}
	return found[0], nil
}

// Missions gives the missions, the newest first.
func (s *Store) Missions(ctx context.Context, openOnly bool, most int) ([]*Mission, error) {
	where := `order by created_at desc, id limit ?`
	if openOnly {
		where = `where ended_at = 0 ` + where
	}
	return s.missions(ctx, where, most)
}

// OpenOfInstallation gives the open missions of an installation, or of one repository of it where repository is not 0.
func (s *Store) OpenOfInstallation(ctx context.Context, installation, repository int64) ([]*Mission, error) {
	return s.missions(ctx, `where ended_at = 0 and installation_id = ? and (cast(? as bigint) = 0 or repository_id = ?)`, installation, repository, repository)
}

func (s *Store) missions(ctx context.Context, where string, args ...any) ([]*Mission, error) {
	rows, err := s.query(ctx, `select `+missionColumns+` from missions `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("missions: %w", err)
	}
	defer rows.Close()
	var found []*Mission
	for rows.Next() {
		m, err := scanMission(rows)
		if err != nil {
			return nil, fmt.Errorf("missions: %w", err)
		}
		found = append(found, m)
	}
	return found, rows.Err()
}

func scanMission(rows *sql.Rows) (*Mission, error) {
	m := new(Mission)
	var triggered, due, created, updated, ended, ready int64
	err := rows.Scan(&m.ID, &m.Kind, &m.InstallationID, &m.RepositoryID, &m.Owner, &m.Name, &m.Number, &m.Title, &m.Task, &m.TriggerKey, &m.Requester, &m.RequesterID,
		&m.Instruction, &triggered, &m.BaseBranch, &m.Base, &m.Head, &m.OnlyCheck, &m.Policy, &m.PolicySource, &m.Step, &m.Attempt, &m.Run,
		&m.Want, &m.WantBy, &m.NextHead, &m.Outcome, &m.Message, &m.Pull, &m.PullURL, &m.Branch, &m.CommentID, &m.CommentDigest, &m.Failures,
		&due, &created, &updated, &ended, &m.Host, &ready, &m.Position, &m.OwnRules, &m.Defects, &m.Trouble)
	m.TriggeredAt, m.DueAt = fromMillis(triggered), fromMillis(due)
	m.CreatedAt, m.UpdatedAt, m.EndedAt = fromMillis(created), fromMillis(updated), fromMillis(ended)
	m.ReadyAt = fromMillis(ready)
	return m, err
}
