package webhooks

import "time"

// Command is one thing that GitHub told us and that somebody may have to act on. The concrete types are the structs of
// this file, by value.
type Command interface {
	Origin() Meta
}

// Meta says where a command comes from.
type Meta struct {
	DeliveryID     string
	Event, Action  string
	InstallationID int64
	Repo           Repo // zero for events of an installation
	Sender         User // who did it; zero when the account is gone
}

// Origin returns m.
func (m Meta) Origin() Meta { return m }

// Repo is a repository. ID is its identity; the names are of the moment, and can be given to another repository later.
type Repo struct {
	ID                    int64
	Owner, Name, FullName string
	DefaultBranch         string
}

// User is an account. Type is User, Organization, Bot or Mannequin.
type User struct {
	Login string
	ID    int64
	Type  string
}

// Issue is an issue or pull request as it was when the event happened. What an agent is given may not be younger than
// that, so the text is kept here rather than read again later.
type Issue struct {
	Number    int
	IsPR      bool
	Title     string
	Body      string // "" when it has none
	State     string // open or closed
	Author    User   // zero when the account was deleted
	UpdatedAt time.Time
}

// LabelAdded says that a label was put on an issue or pull request.
type LabelAdded struct {
	Meta
	Issue
	Label   string
	HeadSHA string // of a pull request; "" for an issue
}

// IssueChanged says that an issue was closed, reopened, deleted, transferred or edited; Meta.Action says which.
type IssueChanged struct {
	Meta
	Issue
	MovedTo Repo // of a transfer: the new repository
}

// Slash is one line "/sandpiper verb args" of a comment. CommentID, Place and Line together are its identity.
type Slash struct {
	Meta
	Issue
	CommentID int64
	Place     Place
	Line      int    // in the comment, from 1
	Verb      string // lower case; help where the line has none
	Args      string // the rest of the line, trimmed
	Author    User   // of the comment
	At        time.Time
}

// Place is where a comment stands: reactions and answers go to different addresses for each.
type Place string

// The places of a comment.
const (
	IssueComment  Place = "issue_comment"
	Review        Place = "pull_request_review"
	ReviewedLines Place = "pull_request_review_comment"
)

// PullRequest is what the events of pull requests say about it.
type PullRequest struct {
	Number              int
	HeadSHA, HeadRef    string
	HeadRepoID          int64 // 0 when the fork was deleted
	BaseRef, BaseSHA    string
	Draft, Open, Merged bool
}

// PullRequestChanged says that a pull request was opened, reopened, synchronize(d), closed, edited, ready_for_review or
// converted_to_draft; Meta.Action says which. A merge is closed with Merged set.
type PullRequestChanged struct {
	Meta
	PullRequest
	Title, Body string
	Author      User
	UpdatedAt   time.Time
	Before      string // of a synchronize: the head before
	BaseChanged bool   // of an edit
}

// ReviewSubmitted says that a person submitted a review, or that one was dismissed; Meta.Action says which.
type ReviewSubmitted struct {
	Meta
	PullRequest
	ReviewID int64
	State    string // approved, changes_requested, commented or dismissed
	CommitID string // that the reviewer looked at; need not be the head
	Body     string
	Author   User
}

// ReviewComment says that a person commented on lines of a pull request.
type ReviewComment struct {
	Meta
	PullRequest
	CommentID, InReplyTo int64 // InReplyTo is 0 for the first of a thread
	Path, Body           string
	CommitID             string
	Author               User
	At                   time.Time
}

// CheckRerun says that somebody asked for one check run again. It names no pull request, because GitHub's list of them
// is always empty for a head in a fork (nearform/lastlight#283): look it up by HeadSHA.
type CheckRerun struct {
	Meta
	CheckRunID     int64
	Name, HeadSHA  string
	ExternalID     string
	SuiteID, AppID int64
}

// CheckAction says that somebody pressed a button of a check run.
type CheckAction struct {
	CheckRerun
	Identifier string
}

// SuiteRerun says that somebody asked for all checks of a commit again. It names no pull request; see CheckRerun.
type SuiteRerun struct {
	Meta
	SuiteID, AppID      int64
	HeadSHA, HeadBranch string
}

// Pushed says that a branch was made, moved or deleted.
type Pushed struct {
	Meta
	Ref, Before, After       string // Ref is refs/heads/…; an id of zeros stands for "none"
	Created, Deleted, Forced bool
}

// InstallationChanged says that the App was installed or removed, suspended or unsuspended, given new permissions, or that
// repositories were added to or removed from an installation; Meta.Action says which. Meta.InstallationID says where.
type InstallationChanged struct {
	Meta
	Account        User
	Permissions    map[string]string // name to read or write, as granted now
	Added, Removed []Repo            // Added holds all of them when the App was installed, Removed when it was deleted
}

// MergeGroup says that a merge queue wants checks on a commit (checks_requested), or no longer does (destroyed).
type MergeGroup struct {
	Meta
	HeadSHA, HeadRef, BaseSHA, BaseRef string
}

// Ping says that the hook was made or tested.
type Ping struct {
	Meta
	HookID int64
}

// Ignored says why a delivery, or a line of it, asks nothing of us.
type Ignored struct {
	Meta
	Reason string
}

// Each command type carries its origin.
var (
	_ Command = LabelAdded{}
	_ Command = IssueChanged{}
	_ Command = Slash{}
	_ Command = PullRequestChanged{}
	_ Command = ReviewSubmitted{}
	_ Command = ReviewComment{}
	_ Command = CheckRerun{}
	_ Command = CheckAction{}
	_ Command = SuiteRerun{}
	_ Command = Pushed{}
	_ Command = InstallationChanged{}
	_ Command = MergeGroup{}
	_ Command = Ping{}
	_ Command = Ignored{}
)
