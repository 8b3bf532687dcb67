package promote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// ErrHeadMoved says that a pull request has another head than the one that a result was made for: nothing is suggested on it.
type ErrHeadMoved struct{ Was, Is string }

func (e *ErrHeadMoved) Error() string {
	return fmt.Sprintf("the head of the pull request is %.12s now, and this was made for %.12s", e.Is, e.Was)
}

// Reviewed is what people can look at now.
type Reviewed struct {
	URL         string
	Suggestions int
}

// What a review holds, so that its page can be read and its body has room for everything else.
var reviewLimits = SuggestLimits{Suggestions: 40, Text: 8_000, Patch: 30_000}

const (
	resultMost = 8 << 20 // bytes of a result's diff; a longer one is not shown
	filesMost  = 3_000   // GitHub lists no more files of a pull request
)

// PostReview offers what was staged on the head of a person's pull request, Request.Issue, as a review of that: a comment, which neither
// approves nor asks for changes. Nothing is pushed. It may be called again with the same request at any time. A pull request that is not
// open is ErrClosed, one whose head is another one by now ErrHeadMoved.
func PostReview(ctx context.Context, d Deps, req Request) (Reviewed, error) {
	p := &publication{Deps: d, req: req}
	found, err := p.review(ctx)
	if err != nil {
		return found, err
	}
	if found.URL != "" { // made by a try whose end nobody has seen
		return found, d.Sandboxes.Promoted(ctx, req.Run)
	}
	shown, err := p.page(ctx)
	if err != nil {
		return Reviewed{}, err
	}
	diff, without, err := d.Repository.resultDiff(ctx, req.Staged)
	if err != nil {
		return Reviewed{}, err
	}
	if err := p.sameHead(ctx); err != nil {
		return Reviewed{}, err
	}
	p.req.Staged.LFS = nil // nothing of it is offered
	made, err := p.postReview(ctx, Suggest(shown, diff, d.Redact, reviewLimits), without)
	var answer *github.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil && answer.Response.StatusCode == http.StatusUnprocessableEntity {
		// One line that GitHub does not take costs the whole review, and the answer does not say which (QwenLM/qwen-code#6711).
		none := reviewLimits
		none.Suggestions = 0
		made, err = p.postReview(ctx, Suggest(shown, diff, d.Redact, none), without)
	}
	if err != nil {
		return made, fmt.Errorf("review of #%d: %w", req.Issue, err)
	}
	return made, d.Sandboxes.Promoted(ctx, req.Run)
}

func (p *publication) reviewMark() string {
	return fmt.Sprintf("<!-- sandpiper:suggestions %s -->", p.req.Mission)
}

// review finds the review that an earlier try has made.
func (p *publication) review(ctx context.Context) (Reviewed, error) {
	page := &github.ListOptions{PerPage: 100}
	for {
		list, response, err := p.GitHub.PullRequests.ListReviews(ctx, p.req.Owner, p.req.Repo, p.req.Issue, page)
		if err != nil {
			return Reviewed{}, fmt.Errorf("reviews of #%d: %w", p.req.Issue, err)
		}
		for _, r := range list {
			if r.GetUser().GetLogin() == p.req.Bot.Login && strings.HasPrefix(r.GetBody(), p.reviewMark()) {
				return p.countReview(ctx, r)
			}
		}
		if response.NextPage == 0 {
			return Reviewed{}, nil
		}
		page.Page = response.NextPage
	}
}

func (p *publication) countReview(ctx context.Context, r *github.PullRequestReview) (Reviewed, error) {
	comments, _, err := p.GitHub.PullRequests.ListReviewComments(ctx, p.req.Owner, p.req.Repo, p.req.Issue, r.GetID(), &github.ListOptions{PerPage: 100})
	if err != nil {
		return Reviewed{}, fmt.Errorf("comments of review %d: %w", r.GetID(), err)
	}
	return Reviewed{URL: r.GetHTMLURL(), Suggestions: len(comments)}, nil
}

// page reads which lines the pull request's page shows of each file. GitHub leaves out what is binary or too long.
func (p *publication) page(ctx context.Context) (map[string]string, error) {
	shown, page := map[string]string{}, &github.ListOptions{PerPage: 100}
	for {
		list, response, err := p.GitHub.PullRequests.ListFiles(ctx, p.req.Owner, p.req.Repo, p.req.Issue, page)
		if err != nil {
			return nil, fmt.Errorf("files of #%d: %w", p.req.Issue, err)
		}
		for _, f := range list {
			shown[f.GetFilename()] = f.GetPatch()
		}
		if response.NextPage == 0 || len(shown) >= filesMost {
			return shown, nil
		}
		page.Page = response.NextPage
	}
}

// sameHead looks whether the page was that of the commit which the result was made for. git has the last word: the API may show an older
// head for a moment (quern-dev/quern#88).
func (p *publication) sameHead(ctx context.Context) error {
	pull, _, err := p.GitHub.PullRequests.Get(ctx, p.req.Owner, p.req.Repo, p.req.Issue)
	if err != nil {
		return fmt.Errorf("pull request #%d: %w", p.req.Issue, err)
	}
	if pull.GetState() != "open" {
		return &ErrClosed{PR: pull}
	}
	ref := fmt.Sprintf("refs/pull/%d/head", p.req.Issue)
	refs, err := p.Repository.LsRemote(ctx, ref)
	if err != nil {
		return fmt.Errorf("head of #%d: %w", p.req.Issue, err)
	}
	for _, is := range []string{refs[ref], pull.GetHead().GetSHA()} {
		if is != p.req.Staged.Base {
			return &ErrHeadMoved{Was: p.req.Staged.Base, Is: is}
		}
	}
	return nil
}

// resultDiff is what was staged as a diff from its base, and the paths that are not in it: all of them, if it is too long, and those of
// Git LFS, since nobody has uploaded what the pointers point to.
func (r Stored) resultDiff(ctx context.Context, s Staged) (diff string, without []string, err error) {
	out := &git.Head{Most: resultMost}
	args := []string{"diff-tree", "-r", "-p", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", s.Base, s.Commit}
	if _, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: args, Stdout: out}); err != nil {
		return "", nil, fmt.Errorf("what was made on %.7s: %w", s.Base, err)
	}
	if out.Cut() {
		for _, c := range s.Changes {
			without = append(without, c.Path)
		}
		return "", without, nil
	}
	for _, o := range s.LFS {
		without = append(without, o.Content.Path)
	}
	for _, section := range sections(string(out.Text)) {
		if path, _, _ := readSection(section); !slices.Contains(without, path) {
			diff += section
		}
	}
	return diff, without, nil
}

// postReview makes the review. Its event stands here and nowhere else: a test holds that there is no other.
func (p *publication) postReview(ctx context.Context, s Suggested, without []string) (Reviewed, error) {
	s.Unshown = append(s.Unshown, without...)
	var comments []*github.DraftReviewComment
	for _, one := range s.Suggestions {
		block, _ := quote.Exact("suggestion", one.Text)
		c := &github.DraftReviewComment{Path: &one.Path, Body: &block, Line: &one.Line, Side: github.String("RIGHT")}
		if one.Start < one.Line {
			c.StartLine, c.StartSide = &one.Start, github.String("RIGHT")
		}
		comments = append(comments, c)
	}
	made, _, err := p.GitHub.PullRequests.CreateReview(ctx, p.req.Owner, p.req.Repo, p.req.Issue, &github.PullRequestReviewRequest{
		CommitID: &p.req.Staged.Base, Event: github.String("COMMENT"), Body: github.String(p.reviewBody(s)), Comments: comments,
	})
	return Reviewed{URL: made.GetHTMLURL(), Suggestions: len(comments)}, err
}

// reviewBody is what the person reads whose pull request it is.
func (p *publication) reviewBody(s Suggested) string {
	p.result.Manifest = p.req.manifest("")
	for rows := 200; ; rows /= 2 {
		w := page{redact: p.Redact, rows: rows}
		fmt.Fprintf(&w.b, "%s\n", p.reviewMark())
		p.offered(&w, s)
		p.said(&w)
		p.placed(&w, s)
		p.gates(&w)
		p.checked(&w)
		p.saw(&w)
		p.findings(&w)
		if text := p.Redact(w.b.String()); len(text) <= bodyMax || rows == 0 {
			return quote.Cut(text, bodyMax, "\n\n_truncated: more than GitHub takes_\n")
		}
	}
}

func (p *publication) offered(w *page, s Suggested) {
	r := p.req
	w.printf("**Sandpiper** was asked by %s to work on this, in mission %s. The branch is not the bot's to push to, so what it made is suggested: ", w.cell(r.Requester.Login), w.cell(r.Mission))
	switch n := len(s.Suggestions); {
	case n > 0 && s.Patch != "":
		w.printf("%s on the lines, and a patch below", plural(n, "suggestion"))
	case n > 0:
		w.printf("%s on the lines", plural(n, "suggestion"))
	default:
		w.printf("as a patch below")
	}
	w.printf(". It is for %s, and yours to take or leave.\n", w.cell(fmt.Sprintf("%.12s", r.Staged.Base)))
	if r.Instruction != "" {
		w.printf("\nIt was asked with these words:\n\n%s\n", quote.Fence(quote.Cut(w.redact(r.Instruction), 4000, "\n… truncated")))
	}
	if r.DraftReason != "" {
		w.printf("\n**Look twice:** %s\n", w.text(r.DraftReason))
	}
}

// placed says where each change is to be found.
func (p *publication) placed(w *page, s Suggested) {
	p.changed(w)
	if s.Patch != "" {
		block, _ := quote.Exact("diff", s.Patch)
		w.printf("\n<details><summary>Patch of what is not on lines that this page shows</summary>\n\nTake it first: `git apply` puts it onto %s.\n\n%s\n\n</details>\n", w.cell(fmt.Sprintf("%.12s", p.req.Staged.Base)), block)
	}
	if len(s.Unshown) == 0 {
		return
	}
	w.printf("\nNot shown here, in whole or in part, because it is too long or no text that a page shows as it is:\n\n")
	for i, path := range s.Unshown {
		if i == w.rows {
			break
		}
		w.printf("- %s\n", w.path(path))
	}
	w.more(len(s.Unshown), "files")
	w.printf("\nWhoever runs the bot has it: `sandpiper sandbox recover %s --to DIRECTORY`\n", p.req.Run)
}
