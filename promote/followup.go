package promote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// FollowUp is a round of work on a pull request that is open: its commit stands on the pull request's head, and nothing is merged
// into it, because the branch is what people have reviewed.
type FollowUp struct {
	Round int    // from 2
	Head  string // of the pull request when the round began: the commit that the run started from
	Asked []Item // by whom, with which words, and in which review
}

// stageOn finishes what was staged for a follow-up. The manifest and the page are of the whole pull request, so the changes are
// those from where its branch leaves the base branch.
func (r Stored) stageOn(ctx context.Context, w Workshop, s Staged, base string) (_ Staged, err error) {
	if s.Tip, err = r.Tip(ctx, base); err != nil {
		return s, err
	}
	out, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"merge-base", s.Tip, s.Commit}})
	var none *git.Error
	if errors.As(err, &none) && none.Exit == 1 { // the base branch was rewritten: what is shown is the round alone
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("where %.7s leaves %s: %w", s.Commit, base, err)
	}
	s.Base = strings.TrimSpace(string(out))
	s.MergeBase = s.Base
	s.Changes, err = w.Between(ctx, r.Remote.Key, s.Base, s.Commit)
	if err == nil && len(s.Changes) == 0 {
		err = fmt.Errorf("the round takes back everything that the pull request changed: %w", ErrNothing)
	}
	return s, err
}

// subject is the title of the commit.
func (r Request) subject(redact func(string) string) string {
	if r.FollowUp == nil {
		return title(r, subjectMax, redact)
	}
	round := fmt.Sprintf("Round %d: ", r.FollowUp.Round)
	return round + title(r, subjectMax-len(round), redact)
}
