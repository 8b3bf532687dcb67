package promote

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// edit is one path that differs between two trees: what it becomes. An empty mode takes it away.
type edit struct {
	path, oldMode, mode, id string
}

// deliverByAPI makes the staged tree a commit at GitHub, signed by GitHub, on a branch that is at expect; empty: a new one.
// The commit stands on expect, because the API has no push with a lease but one that only goes forward, and on the base too if
// that has moved since. Its tree is the staged one byte for byte, or there is an error. Several that were staged are made one by
// one on a new branch or on the head that they were staged on; what renews a branch is one commit.
func (p *publication) deliverByAPI(ctx context.Context, branch, expect string) (head string, err error) {
	parent := expect
	if parent == "" {
		parent = p.req.Staged.Base
	}
	if p.stepwise(parent) {
		head, err = p.commitSteps(ctx, branch, expect, parent)
	} else {
		head, err = p.commitOnce(ctx, branch, expect, parent)
	}
	if err != nil {
		return "", err
	}
	return head, p.signedAndSame(ctx, head)
}

// stepwise says whether the commits that were staged can be made one by one: they must stand where they stood then.
func (p *publication) stepwise(parent string) bool {
	first := p.req.Staged.Base
	if p.req.FollowUp != nil {
		first = p.req.FollowUp.Head
	}
	return len(p.req.Staged.Steps) > 0 && parent == first
}

// commitOnce makes one commit of everything.
func (p *publication) commitOnce(ctx context.Context, branch, expect, parent string) (string, error) {
	edits, err := p.editsTo(ctx, branch, expect, parent, p.req.Staged.Commit)
	if err != nil {
		return "", err
	}
	parents, err := p.Repository.parents(ctx, parent, p.req.Staged.Base)
	if err != nil {
		return "", err
	}
	text, fits, err := p.expressible(ctx, edits)
	if err != nil {
		return "", err
	}
	if fits && len(parents) == 1 {
		return p.commitOnBranch(ctx, branch, expect, parent, edits, text)
	}
	head, err := p.commitObjects(ctx, parents, edits, p.req.Staged.Tree, CommitMessage(p.req, p.Redact))
	if err != nil {
		return "", err
	}
	return head, p.moveBranch(ctx, branch, expect, head)
}

// commitSteps makes several commits, and moves the branch when the last is made.
func (p *publication) commitSteps(ctx context.Context, branch, expect, parent string) (string, error) {
	from, head := parent, parent
	for _, step := range p.req.Staged.Steps {
		edits, err := p.editsTo(ctx, branch, expect, from, step.Commit)
		if err != nil {
			return "", err
		}
		if head, err = p.commitObjects(ctx, []string{head}, edits, step.Tree, step.Message); err != nil {
			return "", err
		}
		from = step.Commit
	}
	return head, p.moveBranch(ctx, branch, expect, head)
}

// editsTo are the edits from one commit to another, if the API can take their names.
func (p *publication) editsTo(ctx context.Context, branch, expect, from, to string) ([]edit, error) {
	edits, err := p.Repository.edits(ctx, branch, expect, from, to)
	if err != nil {
		return nil, err
	}
	for _, e := range edits {
		if !utf8.ValidString(e.path) {
			return nil, &ErrRefused{Reason: fmt.Sprintf("commits have to be made by GitHub's API here, and it cannot take the name %+q, which is no UTF-8", e.path), Paths: []string{e.path}}
		}
	}
	return edits, nil
}

// mutationMost bounds the contents of one createCommitOnBranch; more goes blob by blob.
const mutationMost = 8 << 20

// expressible says whether createCommitOnBranch can make the edits: contents only, so that no new file is executable, no
// mode changes, and there are no links and submodules.
func (p *publication) expressible(ctx context.Context, edits []edit) (map[string][]byte, bool, error) {
	var ids []string
	for _, e := range edits {
		plain := e.mode == "" || e.mode == "100644" && (e.oldMode == "" || e.oldMode == "100644") || e.mode == "100755" && e.oldMode == "100755"
		if !plain || e.mode == "" && e.oldMode == "160000" {
			return nil, false, nil
		}
		if e.mode != "" {
			ids = append(ids, e.id)
		}
	}
	text, err := p.Repository.Blobs(ctx, ids, mutationMost)
	if err != nil {
		return nil, false, err
	}
	size := 0
	for _, id := range ids {
		t, ok := text[id]
		if size += len(t); !ok || size > mutationMost {
			return nil, false, nil
		}
	}
	return text, len(edits) > 0, nil
}

const makeCommit = `mutation($input: CreateCommitOnBranchInput!) { createCommitOnBranch(input: $input) { commit { oid } } }`

// commitOnBranch makes the commit by GraphQL, which needs the branch to be there.
func (p *publication) commitOnBranch(ctx context.Context, branch, expect, parent string, edits []edit, text map[string][]byte) (string, error) {
	if expect == "" {
		if err := p.createRef(ctx, branch, parent); err != nil {
			return "", err
		}
	}
	additions, deletions := []map[string]string{}, []map[string]string{}
	for _, e := range edits {
		if e.mode == "" {
			deletions = append(deletions, map[string]string{"path": e.path})
		} else {
			additions = append(additions, map[string]string{"path": e.path, "contents": base64.StdEncoding.EncodeToString(text[e.id])})
		}
	}
	headline, body, _ := strings.Cut(CommitMessage(p.req, p.Redact), "\n\n")
	input := map[string]any{
		"branch":          map[string]string{"repositoryNameWithOwner": p.req.Owner + "/" + p.req.Repo, "branchName": branch},
		"message":         map[string]string{"headline": headline, "body": strings.TrimSpace(body)},
		"expectedHeadOid": parent, "fileChanges": map[string]any{"additions": additions, "deletions": deletions},
	}
	var made struct {
		CreateCommitOnBranch struct {
			Commit struct {
				OID string `json:"oid"`
			} `json:"commit"`
		} `json:"createCommitOnBranch"`
	}
	err := graphql(ctx, p.GitHub, makeCommit, map[string]any{"input": input}, &made)
	var refused graphqlErrors
	switch {
	case errors.As(err, &refused) && refused.is("STALE_DATA"):
		return "", fmt.Errorf("branch %s: %w: %w", branch, git.ErrStale, err)
	case errors.As(err, &refused):
		return "", &ErrRefused{Reason: "GitHub does not make the commit: " + oneLine(refused.Error(), p.Redact), Err: err}
	case err != nil:
		return "", fmt.Errorf("commit on %s: %w", branch, err)
	}
	return made.CreateCommitOnBranch.Commit.OID, nil
}

// commitObjects makes the commit by REST, object by object. Without author and committer, GitHub signs a commit of an App
// (peter-evans/create-pull-request#1241).
func (p *publication) commitObjects(ctx context.Context, parents []string, edits []edit, want, message string) (string, error) {
	owner, repo := p.req.Owner, p.req.Repo
	var entries []*github.TreeEntry
	for _, e := range edits {
		entry := &github.TreeEntry{Path: github.String(e.path), Mode: github.String(e.mode), Type: github.String("blob"), SHA: github.String(e.id)}
		switch e.mode {
		case "": // without sha and content: take it away
			entry.Mode, entry.SHA = github.String(e.oldMode), nil
		case "160000":
			entry.Type = github.String("commit")
		default:
			if err := p.createBlob(ctx, e); err != nil {
				return "", err
			}
		}
		entries = append(entries, entry)
	}
	base, _, err := p.GitHub.Git.GetCommit(ctx, owner, repo, parents[0])
	if err != nil {
		return "", fmt.Errorf("commit %s: %w", parents[0], err)
	}
	tree, _, err := p.GitHub.Git.CreateTree(ctx, owner, repo, base.GetTree().GetSHA(), entries)
	if err != nil {
		return "", p.apiRefusal("make the tree", err)
	}
	if tree.GetSHA() != want { // before any branch shows it
		return "", fmt.Errorf("GitHub made tree %s of what is tree %s here", tree.GetSHA(), want)
	}
	commit := &github.Commit{Message: &message, Tree: &github.Tree{SHA: tree.SHA}}
	for _, sha := range parents {
		commit.Parents = append(commit.Parents, &github.Commit{SHA: github.String(sha)})
	}
	commit, _, err = p.GitHub.Git.CreateCommit(ctx, owner, repo, commit, nil)
	if err != nil {
		return "", p.apiRefusal("make the commit", err)
	}
	return commit.GetSHA(), nil
}

// moveBranch makes the branch, or moves it on from where it was seen.
func (p *publication) moveBranch(ctx context.Context, branch, expect, commit string) error {
	if expect == "" {
		return p.createRef(ctx, branch, commit)
	}
	ref := &github.Reference{Ref: github.String("refs/heads/" + branch), Object: &github.GitObject{SHA: &commit}}
	_, _, err := p.GitHub.Git.UpdateRef(ctx, p.req.Owner, p.req.Repo, ref, false)
	if says(err, "not a fast forward") {
		return fmt.Errorf("branch %s: %w: %w", branch, git.ErrStale, err)
	}
	if err != nil {
		return p.apiRefusal("move the branch", err)
	}
	return nil
}

// blobMost is what GitHub's API takes as one blob (https://docs.github.com/rest/git/blobs).
const blobMost = 100 << 20

func (p *publication) createBlob(ctx context.Context, e edit) error {
	found, err := p.Repository.Blobs(ctx, []string{e.id}, blobMost)
	if err != nil {
		return err
	}
	text, ok := found[e.id]
	if !ok {
		return &ErrRefused{Reason: fmt.Sprintf("the file %s is larger than the 100 MB that GitHub's API takes", oneLine(e.path, p.Redact)), Paths: []string{e.path}}
	}
	blob, _, err := p.GitHub.Git.CreateBlob(ctx, p.req.Owner, p.req.Repo, &github.Blob{
		Content: github.String(base64.StdEncoding.EncodeToString(text)), Encoding: github.String("base64"),
	})
	if err != nil {
		return p.apiRefusal("take "+oneLine(e.path, p.Redact), err)
	}
	if blob.GetSHA() != e.id {
		return fmt.Errorf("GitHub made blob %s of what is blob %s here", blob.GetSHA(), e.id)
	}
	return nil
}

func (p *publication) createRef(ctx context.Context, branch, commit string) error {
	_, _, err := p.GitHub.Git.CreateRef(ctx, p.req.Owner, p.req.Repo, &github.Reference{Ref: github.String("refs/heads/" + branch), Object: &github.GitObject{SHA: &commit}})
	if says(err, "reference already exists") {
		if at, again := p.at(ctx, branch); again == nil && at == commit {
			return nil // made before the bot was killed
		}
		return fmt.Errorf("branch %s: %w: %w", branch, git.ErrStale, err)
	}
	if err != nil {
		return p.apiRefusal("make the branch "+branch, err)
	}
	return nil
}

// apiRefusal tells what a person can do something about from what may pass.
func (p *publication) apiRefusal(what string, err error) error {
	var answer *github.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil && (answer.Response.StatusCode == 403 || answer.Response.StatusCode == 422) {
		return &ErrRefused{Reason: "GitHub does not " + what + ": " + oneLine(reasons(answer), p.Redact), Err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// signedAndSame reads back what was made: what nobody has seen is not claimed.
func (p *publication) signedAndSame(ctx context.Context, head string) error {
	commit, _, err := p.GitHub.Git.GetCommit(ctx, p.req.Owner, p.req.Repo, head)
	if err != nil {
		return fmt.Errorf("commit %s: %w", head, err)
	}
	if got := commit.GetTree().GetSHA(); got != p.req.Staged.Tree {
		return fmt.Errorf("GitHub made tree %s of what is tree %s here", got, p.req.Staged.Tree)
	}
	if v := commit.GetVerification(); !v.GetVerified() {
		p.note("GitHub did not sign the commit: " + v.GetReason() + ".")
	}
	return nil
}
