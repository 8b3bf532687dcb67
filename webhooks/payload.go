package webhooks

import (
	"strings"
	"time"
)

// payload holds the members that Decode reads, of all events. They are our own and few, instead of go-github's event
// types: a member that we do not use cannot break the decoding (v60 refuses published examples for a date of theirs),
// and a new event cannot either.
type payload struct {
	head
	Label               struct{ Name string }
	Issue               *issue
	Comment             *comment
	PullRequest         *pullRequest `json:"pull_request"`
	Review              *review
	CheckRun            *checkRun                   `json:"check_run"`
	CheckSuite          *checkSuite                 `json:"check_suite"`
	MergeGroup          *mergeGroup                 `json:"merge_group"`
	RequestedAction     struct{ Identifier string } `json:"requested_action"`
	Repositories        []repository
	RepositoriesAdded   []repository `json:"repositories_added"`
	RepositoriesRemoved []repository `json:"repositories_removed"`
	Changes             struct {
		NewRepository repository `json:"new_repository"`
		Base          *struct{}  // present when the base branch was changed
	}
	HookID                   int64 `json:"hook_id"`
	Ref, Before, After       string
	Created, Deleted, Forced bool
}

// head holds the members that any event may have.
type head struct {
	Action       string
	Installation struct {
		ID          int64
		Account     user
		Permissions map[string]string
	}
	Repository repository
	Sender     user
}

func (h head) meta(d Delivery) Meta {
	return Meta{
		DeliveryID: d.ID, Event: d.Event, Action: h.Action, InstallationID: h.Installation.ID,
		Repo: h.Repository.repo(), Sender: User(h.Sender),
	}
}

type user struct {
	Login string
	ID    int64
	Type  string
}

// isBot reports whether u is an App's account. The suffix cannot be part of a person's name.
func (u user) isBot() bool { return u.Type == "Bot" || strings.HasSuffix(u.Login, "[bot]") }

type repository struct {
	ID            int64
	Name          string
	FullName      string `json:"full_name"`
	DefaultBranch string `json:"default_branch"`
}

// repo takes the owner from the full name: repositories of an installation have no owner member.
func (r repository) repo() Repo {
	owner, _, _ := strings.Cut(r.FullName, "/")
	return Repo{ID: r.ID, Owner: owner, Name: r.Name, FullName: r.FullName, DefaultBranch: r.DefaultBranch}
}

func repos(list []repository) []Repo {
	var out []Repo
	for _, r := range list {
		if r.ID != 0 {
			out = append(out, r.repo())
		}
	}
	return out
}

type issue struct {
	Number      int
	Title, Body string
	State       string
	User        user
	UpdatedAt   moment    `json:"updated_at"`
	PullRequest *struct{} `json:"pull_request"`
}

func (i issue) issue() Issue {
	return Issue{
		Number: i.Number, IsPR: i.PullRequest != nil, Title: i.Title, Body: i.Body, State: i.State,
		Author: User(i.User), UpdatedAt: i.UpdatedAt.Time,
	}
}

type pullRequest struct {
	issue
	Draft, Merged bool
	Head, Base    struct {
		SHA, Ref string
		Repo     *repository // null when the fork was deleted
	}
}

// asIssue is the pull request as the issue that it also is.
func (p pullRequest) asIssue() Issue {
	i := p.issue.issue()
	i.IsPR = true
	return i
}

func (p pullRequest) pull() PullRequest {
	out := PullRequest{
		Number: p.Number, HeadSHA: p.Head.SHA, HeadRef: p.Head.Ref, BaseRef: p.Base.Ref, BaseSHA: p.Base.SHA,
		Draft: p.Draft, Open: p.State == "open", Merged: p.Merged,
	}
	if p.Head.Repo != nil {
		out.HeadRepoID = p.Head.Repo.ID
	}
	return out
}

type comment struct {
	ID        int64
	Body      string
	User      user
	Path      string
	CommitID  string `json:"commit_id"`
	InReplyTo int64  `json:"in_reply_to_id"`
	CreatedAt moment `json:"created_at"`
	Via       app    `json:"performed_via_github_app"`
}

type app struct {
	ID   int64
	Slug string
}

type review struct {
	ID          int64
	State, Body string
	CommitID    string `json:"commit_id"`
	User        user
	SubmittedAt moment `json:"submitted_at"`
}

type checkRun struct {
	ID         int64
	Name       string
	HeadSHA    string `json:"head_sha"`
	ExternalID string `json:"external_id"`
	App        app
	CheckSuite struct{ ID int64 } `json:"check_suite"`
}

type checkSuite struct {
	ID         int64
	HeadSHA    string `json:"head_sha"`
	HeadBranch string `json:"head_branch"`
	App        app
}

type mergeGroup struct {
	HeadSHA string `json:"head_sha"`
	HeadRef string `json:"head_ref"`
	BaseSHA string `json:"base_sha"`
	BaseRef string `json:"base_ref"`
}

// moment is a time that is zero where GitHub sends none, or one that cannot be read: no command depends on it alone.
type moment struct{ time.Time }

func (m *moment) UnmarshalJSON(data []byte) error {
	t, err := time.Parse(time.RFC3339, strings.Trim(string(data), `"`))
	if err == nil {
		m.Time = t.UTC()
	}
	return nil
}
