package webhooks

import "strings"

// botReason says why a text by author is not listened to, or "". Bots never command this bot: two of them that mention
// each other would go on for ever, and its own progress and help texts hold the very words that it listens for
// (anthropics/claude-code-action#1445, finos/cla-bot#87). via is the App that posted in the name of author, if one did.
func (d decoding) botReason(author user, via app) string {
	self := d.self
	switch {
	case self.AppID != 0 && via.ID == self.AppID, self.Slug != "" && author.Login == self.Slug+"[bot]":
		return "our own comment"
	case author.isBot():
		return "comment by a bot: " + author.Login
	case d.Sender.isBot():
		return "comment sent by a bot: " + d.Sender.Login
	case author.Login == "":
		return "comment by a deleted account"
	}
	return ""
}

func decodeIssueComment(d decoding) ([]Command, error) {
	if d.Issue == nil || d.Issue.Number == 0 || d.Comment == nil || d.Comment.ID == 0 || d.Repository.ID == 0 {
		return d.missing("issue, comment and repository")
	}
	if d.Action == "edited" {
		// A command that is edited in could be one that somebody else than its author wrote, and one that is edited
		// would work twice. The author can write a new comment.
		return ignored(d.meta, "edited comment")
	}
	if d.Action != "created" {
		return d.ignoreAction()
	}
	c := *d.Comment
	if reason := d.botReason(c.User, c.Via); reason != "" {
		return ignored(d.meta, "%s", reason)
	}
	commands := slashCommands(c.Body, Slash{
		Meta: d.meta, Issue: d.Issue.issue(), CommentID: c.ID, Place: IssueComment, Author: User(c.User), At: c.CreatedAt.Time,
	})
	if len(commands) == 0 {
		return ignored(d.meta, "comment without a command")
	}
	return commands, nil
}

func decodeReview(d decoding) ([]Command, error) {
	if d.PullRequest == nil || d.PullRequest.Number == 0 || d.Review == nil || d.Review.ID == 0 || d.Repository.ID == 0 {
		return d.missing("pull_request, review and repository")
	}
	if d.Action != "submitted" && d.Action != "dismissed" {
		return d.ignoreAction()
	}
	r := *d.Review
	// The REST API has the same states in upper case, and not every server minds the difference.
	submitted := ReviewSubmitted{
		Meta: d.meta, PullRequest: d.PullRequest.pull(), ReviewID: r.ID, State: strings.ToLower(r.State), CommitID: r.CommitID,
		Body: r.Body, Author: User(r.User),
	}
	if d.Action == "dismissed" {
		// Whoever pushes dismisses stale approvals, this bot too. The text was heard when it was submitted.
		return one(submitted)
	}
	if reason := d.botReason(r.User, app{}); reason != "" {
		return ignored(d.meta, "%s", reason)
	}
	return append([]Command{submitted}, slashCommands(r.Body, Slash{
		Meta: d.meta, Issue: d.PullRequest.asIssue(), CommentID: r.ID, Place: Review, Author: User(r.User), At: r.SubmittedAt.Time,
	})...), nil
}

func decodeReviewComment(d decoding) ([]Command, error) {
	if d.PullRequest == nil || d.PullRequest.Number == 0 || d.Comment == nil || d.Comment.ID == 0 || d.Repository.ID == 0 {
		return d.missing("pull_request, comment and repository")
	}
	if d.Action == "edited" {
		return ignored(d.meta, "edited comment")
	}
	if d.Action != "created" {
		return d.ignoreAction()
	}
	c := *d.Comment
	if reason := d.botReason(c.User, c.Via); reason != "" {
		return ignored(d.meta, "%s", reason)
	}
	commands := []Command{ReviewComment{
		Meta: d.meta, PullRequest: d.PullRequest.pull(), CommentID: c.ID, InReplyTo: c.InReplyTo, Path: c.Path,
		Body: c.Body, CommitID: c.CommitID, Author: User(c.User), At: c.CreatedAt.Time,
	}}
	return append(commands, slashCommands(c.Body, Slash{
		Meta: d.meta, Issue: d.PullRequest.asIssue(), CommentID: c.ID, Place: ReviewedLines, Author: User(c.User), At: c.CreatedAt.Time,
	})...), nil
}
