package promote

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// Step is one of several commits that a promotion is made of: a commit of the agent's, made anew by the bot. What the sandbox
// says of its author and its trailers is not taken over.
type Step struct {
	Commit  string           `json:"commit"`
	Tree    string           `json:"tree"`
	Message string           `json:"message"`
	Changes []sandbox.Change `json:"changes"` // from the commit before it
}

// Historian knows what was committed in a sandbox. A Workshop may be one.
type Historian interface {
	AgentCommits(ctx context.Context, id sandbox.ID) (sandbox.AgentHistory, error)
}

var _ Historian = (*sandbox.Manager)(nil)

// What a person reads one by one. An agent that commits more often is saving, not telling.
const (
	stepsMost     = 50
	stepFilesMost = 5000 // in all of them together
)

// errSquash says why commits are not kept.
type errSquash struct{ why string }

func (e *errSquash) Error() string { return e.why }

// keepCommits puts the agent's commits in the place of the one that was staged, where they lead to the same tree. Else it stays at
// one, and the note says why.
func (r Stored) keepCommits(ctx context.Context, w Workshop, s *Staged, redact func(string) string, req Request) error {
	from, parent := s.MergeBase, s.Base
	if req.FollowUp != nil {
		from, parent = req.FollowUp.Head, req.FollowUp.Head
	}
	req.Staged = *s
	drafts, err := r.drafts(ctx, w, s, from, redact, req)
	if err == nil && len(drafts) > 0 {
		err = r.replay(ctx, w, s, drafts, from, parent, req.commitSpec(redact))
	}
	var squash *errSquash
	if errors.As(err, &squash) {
		s.Note = strings.TrimSpace(s.Note + " The agent's commits are shown as one: " + squash.why + ".")
		return nil
	}
	return err
}

// drafts are the agent's commits with their trees, and messages as the bot makes them. What was not committed comes last.
func (r Stored) drafts(ctx context.Context, w Workshop, s *Staged, from string, redact func(string) string, req Request) ([]Step, error) {
	h, ok := w.(Historian)
	switch {
	case !ok:
		return nil, &errSquash{"this sandbox cannot tell them"}
	case len(s.LeftOut) > 0:
		return nil, &errSquash{"something is left out of them"}
	case len(s.LFS) > 0:
		return nil, &errSquash{"files of Git LFS are among them"}
	}
	said, err := h.AgentCommits(ctx, req.Run)
	if errors.As(err, new(*sandbox.ErrUnavailable)) {
		return nil, &errSquash{"this sandbox cannot tell them"}
	}
	if err != nil {
		return nil, fmt.Errorf("commits of the agent: %w", err)
	}
	var drafts []Step
	tree, err := r.treeOf(ctx, from)
	if err != nil {
		return nil, err
	}
	for at := from; len(said.Commits) > 0; said.Commits = said.Commits[1:] {
		c := said.Commits[0]
		if !slices.Equal(c.Parents, []string{at}) {
			return nil, &errSquash{"they are not one after the other"}
		}
		at = c.ID
		if c.Tree != tree { // an empty one says nothing
			drafts = append(drafts, Step{Tree: c.Tree, Message: req.stepMessage(c.Message, redact)})
		}
		tree = c.Tree
	}
	if len(drafts) == 0 || len(drafts) > stepsMost {
		return nil, nil
	}
	whole, err := r.treeOf(ctx, said.Result)
	if err == nil && tree != whole {
		drafts = append(drafts, Step{Tree: whole, Message: req.message(redact)})
	}
	return drafts, err
}

// replay makes the commits on a parent. Where the base has moved each is merged by itself, and all of them must come out at the
// tree that was merged at once.
func (r Stored) replay(ctx context.Context, w Workshop, s *Staged, drafts []Step, from, parent string, spec sandbox.CommitSpec) error {
	was, now := from, parent // the commit before, as the agent had it and as it is here
	tree, files := "", 0
	for i := range drafts {
		d := &drafts[i]
		spec.Message = d.Message
		ours, err := r.commit(ctx, d.Tree, spec, was)
		if err != nil {
			return fmt.Errorf("commit %d of the agent: %w", i+1, err)
		}
		d.Commit = ours
		if from != parent {
			m, err := r.merge(ctx, was, now, ours)
			if err != nil {
				return fmt.Errorf("merge commit %d of the agent: %w", i+1, err)
			}
			if len(m.conflicts) > 0 {
				return &errSquash{"one by one they do not merge with the base branch"}
			}
			d.Tree = m.tree
			if d.Commit, err = r.commit(ctx, m.tree, spec, now); err != nil {
				return fmt.Errorf("commit %d of the agent: %w", i+1, err)
			}
		}
		if d.Changes, err = w.Between(ctx, r.Remote.Key, now, d.Commit); err != nil {
			return err
		}
		if files += len(d.Changes); files > stepFilesMost {
			return &errSquash{"they change too many files one by one"}
		}
		was, now, tree = ours, d.Commit, d.Tree
	}
	if tree != s.Tree {
		return &errSquash{"they do not add up to what was collected"}
	}
	s.Commit, s.Steps = now, drafts
	return r.keep(ctx, mergedRef(s.Run), now)
}

// foreignTrailer is what a sandbox cannot say: who signed off or reviewed, what the bot writes itself, what switches checks off.
var foreignTrailer = regexp.MustCompile(`(?i)^\s*([a-z-]+-by|sandpiper-[a-z-]+|skip-checks|change-id)\s*:`)

const stepBodyMost = 4000

// stepMessage is an agent's message with the bot's trailers. What would mention, close or skip something is taken out of it, as
// from a title.
func (r Request) stepMessage(text string, redact func(string) string) string {
	subject, body, _ := strings.Cut(strings.TrimSpace(quote.Clean(redact(text))), "\n")
	r.Title, r.FollowUp = subject, nil
	var lines []string
	for line := range strings.SplitSeq(quote.Cut(body, stepBodyMost, "…"), "\n") {
		if foreignTrailer.MatchString(line) {
			continue
		}
		words := strings.TrimLeft(line, " \t")
		lines = append(lines, strings.TrimRight(line[:len(line)-len(words)]+quote.Plain(words), " \t"))
	}
	message := r.subject(redact) + "\n\n"
	if said := strings.Trim(manyBlank.ReplaceAllString(strings.Join(lines, "\n"), "\n\n"), "\n"); said != "" {
		message += said + "\n\n"
	}
	return message + r.trailers(redact)
}
