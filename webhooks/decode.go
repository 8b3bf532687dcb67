package webhooks

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Why a verified body cannot be decoded.
var (
	ErrNotUTF8   = errors.New("not UTF-8")
	ErrNotJSON   = errors.New("not JSON")
	ErrMalformed = errors.New("malformed payload") // JSON without what its event must have
)

// unmarshal reads a body, and tells apart what is no JSON from JSON that is not what its event must be. Broken UTF-8 is an
// error: encoding/json would quietly mend it.
func unmarshal(body []byte, into any) error {
	if !utf8.Valid(body) {
		return ErrNotUTF8
	}
	err := json.Unmarshal(body, into, json.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true))
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		return ErrNotJSON
	}
	if err != nil {
		return fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return nil
}

func classOf(err error) string {
	for _, class := range []error{ErrNotUTF8, ErrNotJSON} {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	return ErrMalformed.Error()
}

// Self is this App's identity, by which it knows its own comments.
type Self struct {
	AppID int64
	Slug  string
}

// Decode turns a delivery into the commands that it holds: at least one, and Ignored, with the reason, where it asks for
// nothing. It reads d.ID, d.Event and d.Body only. The error is one of ErrNotUTF8, ErrNotJSON and ErrMalformed.
func Decode(d Delivery, self Self) ([]Command, error) {
	decode, known := decoders[d.Event]
	if !known {
		var h head
		// An event that we do not know may well have other members than these.
		if err := unmarshal(d.Body, &h); err != nil && !errors.Is(err, ErrMalformed) {
			return nil, err
		}
		return ignored(h.meta(d), "event %q is not handled", d.Event)
	}
	var p payload
	if err := unmarshal(d.Body, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Event, err)
	}
	return decode(decoding{payload: p, meta: p.meta(d), self: self})
}

// decoding is one payload on its way to commands.
type decoding struct {
	payload
	meta Meta
	self Self
}

var decoders = map[string]func(decoding) ([]Command, error){
	"check_run":                   decodeCheckRun,
	"check_suite":                 decodeCheckSuite,
	"installation":                decodeInstallation,
	"installation_repositories":   decodeInstallationRepositories,
	"issue_comment":               decodeIssueComment,
	"issues":                      decodeIssues,
	"merge_group":                 decodeMergeGroup,
	"ping":                        decodePing,
	"pull_request":                decodePullRequest,
	"pull_request_review":         decodeReview,
	"pull_request_review_comment": decodeReviewComment,
	"push":                        decodePush,
}

func one(c Command) ([]Command, error) { return []Command{c}, nil }

func ignored(m Meta, reason string, args ...any) ([]Command, error) {
	return one(Ignored{Meta: m, Reason: fmt.Sprintf(reason, args...)})
}

func (d decoding) ignoreAction() ([]Command, error) {
	return ignored(d.meta, "action %q of %s is not handled", d.Action, d.meta.Event)
}

// missing says which member the payload lacks. No command is made of a guess.
func (d decoding) missing(member string) ([]Command, error) {
	return nil, fmt.Errorf("%w: %s without %s", ErrMalformed, d.meta.Event, member)
}

// allIgnored gives the reason of the first when every command is Ignored.
func allIgnored(commands []Command) (reason string, all bool) {
	for i := len(commands) - 1; i >= 0; i-- {
		c, ok := commands[i].(Ignored)
		if !ok {
			return "", false
		}
		reason = c.Reason
	}
	return reason, true
}

func decodeIssues(d decoding) ([]Command, error) {
	if d.Issue == nil || d.Issue.Number == 0 || d.Repository.ID == 0 {
		return d.missing("issue and repository")
	}
	switch d.Action {
	case "labeled":
		if d.Label.Name == "" {
			return d.missing("label")
		}
		return one(LabelAdded{Meta: d.meta, Issue: d.Issue.issue(), Label: d.Label.Name})
	case "closed", "reopened", "deleted", "transferred", "edited":
		return one(IssueChanged{Meta: d.meta, Issue: d.Issue.issue(), MovedTo: d.Changes.NewRepository.repo()})
	}
	return d.ignoreAction()
}

func decodePullRequest(d decoding) ([]Command, error) {
	if d.PullRequest == nil || d.PullRequest.Number == 0 || d.PullRequest.Head.SHA == "" || d.Repository.ID == 0 {
		return d.missing("pull_request, its head and repository")
	}
	pr := *d.PullRequest
	switch d.Action {
	case "labeled":
		if d.Label.Name == "" {
			return d.missing("label")
		}
		return one(LabelAdded{Meta: d.meta, Issue: pr.asIssue(), Label: d.Label.Name, HeadSHA: pr.Head.SHA})
	case "opened", "reopened", "synchronize", "closed", "edited", "ready_for_review", "converted_to_draft":
		return one(PullRequestChanged{
			Meta: d.meta, PullRequest: pr.pull(), Title: pr.Title, Body: pr.Body, Author: User(pr.User), UpdatedAt: pr.UpdatedAt.Time,
			Before: d.Before, BaseChanged: d.Changes.Base != nil,
		})
	}
	return d.ignoreAction()
}

func decodeCheckRun(d decoding) ([]Command, error) {
	if d.Action != "rerequested" && d.Action != "requested_action" {
		return d.ignoreAction() // created and completed come for the check runs of everybody
	}
	if d.CheckRun == nil || d.CheckRun.ID == 0 || d.CheckRun.HeadSHA == "" || d.Repository.ID == 0 {
		return d.missing("check_run and repository")
	}
	rerun := CheckRerun{
		Meta: d.meta, CheckRunID: d.CheckRun.ID, Name: d.CheckRun.Name, HeadSHA: d.CheckRun.HeadSHA,
		ExternalID: d.CheckRun.ExternalID, SuiteID: d.CheckRun.CheckSuite.ID, AppID: d.CheckRun.App.ID,
	}
	if d.Action == "rerequested" {
		return one(rerun)
	}
	return one(CheckAction{CheckRerun: rerun, Identifier: d.RequestedAction.Identifier})
}

func decodeCheckSuite(d decoding) ([]Command, error) {
	if d.Action != "rerequested" {
		// requested comes with every push to any branch. Which commits get checks is decided by pull_request.
		return d.ignoreAction()
	}
	if d.CheckSuite == nil || d.CheckSuite.ID == 0 || d.CheckSuite.HeadSHA == "" || d.Repository.ID == 0 {
		return d.missing("check_suite and repository")
	}
	s := d.CheckSuite
	return one(SuiteRerun{Meta: d.meta, SuiteID: s.ID, AppID: s.App.ID, HeadSHA: s.HeadSHA, HeadBranch: s.HeadBranch})
}

func decodePush(d decoding) ([]Command, error) {
	if d.Ref == "" || d.Repository.ID == 0 {
		return d.missing("ref and repository")
	}
	if !strings.HasPrefix(d.Ref, "refs/heads/") {
		return ignored(d.meta, "push of %s, which is no branch", d.Ref)
	}
	return one(Pushed{
		Meta: d.meta, Ref: d.Ref, Before: d.Before, After: d.After,
		Created: d.Created, Deleted: d.Deleted, Forced: d.Forced,
	})
}

func decodeInstallation(d decoding) ([]Command, error) {
	if d.meta.InstallationID == 0 {
		return d.missing("installation")
	}
	c := InstallationChanged{Meta: d.meta, Account: User(d.Installation.Account), Permissions: d.Installation.Permissions}
	switch d.Action {
	case "created":
		c.Added = repos(d.Repositories)
	case "deleted":
		c.Removed = repos(d.Repositories)
	case "suspend", "unsuspend", "new_permissions_accepted":
	default:
		return d.ignoreAction()
	}
	return one(c)
}

func decodeInstallationRepositories(d decoding) ([]Command, error) {
	if d.meta.InstallationID == 0 {
		return d.missing("installation")
	}
	return one(InstallationChanged{
		Meta: d.meta, Account: User(d.Installation.Account), Permissions: d.Installation.Permissions,
		Added: repos(d.RepositoriesAdded), Removed: repos(d.RepositoriesRemoved),
	})
}

func decodeMergeGroup(d decoding) ([]Command, error) {
	if d.MergeGroup == nil || d.MergeGroup.HeadSHA == "" || d.Repository.ID == 0 {
		return d.missing("merge_group and repository")
	}
	if d.Action != "checks_requested" && d.Action != "destroyed" {
		return d.ignoreAction()
	}
	g := d.MergeGroup
	return one(MergeGroup{Meta: d.meta, HeadSHA: g.HeadSHA, HeadRef: g.HeadRef, BaseSHA: g.BaseSHA, BaseRef: g.BaseRef})
}

func decodePing(d decoding) ([]Command, error) {
	return one(Ping{Meta: d.meta, HookID: d.HookID})
}
