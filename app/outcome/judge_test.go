package outcome

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// TestWhatIsWaitedFor: a key that is being rotated, and a step of a newer version of the bot, are for somebody else to mend.
func TestWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err      error
		tries    int
		sentence string
	}{
		{fmt.Errorf("mint: %w", installation.ErrUnauthorized), keyTries, "sandpiper doctor"},
		{fmt.Errorf("step %q: %w", "frobnicate", Passing("somebody else takes it")), MostTries, "frobnicate"},
		{fmt.Errorf("run r-1: %w", &pgconn.PgError{Code: "57P01", Message: "terminating connection"}), MostTries, "terminating connection"},
		{errors.New("who knows"), MostDefects, "who knows"},
	} {
		for failures := range tt.tries - 1 {
			if retry, final := Judge(tt.err, failures); final != nil || retry <= 0 {
				t.Errorf("%v after %d failures: %v", tt.err, failures, final)
			}
		}
		_, final := Judge(tt.err, tt.tries-1)
		if final == nil || final.Outcome != Infrastructure || !strings.Contains(final.Message, tt.sentence) {
			t.Errorf("%v in the end: %v", tt.err, final)
		}
	}
}

// TestBaseThatCannotBeCheckedOut is not the machine's fault, and to try again changes nothing.
func TestBaseThatCannotBeCheckedOut(t *testing.T) {
	t.Parallel()
	cause := &git.Error{Kind: git.ErrPath, Args: []string{"read-tree"}, Stderr: "error: invalid path '.git/config'\n", Exit: 128}
	_, final := Judge(fmt.Errorf("sandbox r-1: %w", cause), 0)
	if final == nil || final.Outcome != BlockedByRule || final.Message != "the base cannot be checked out: invalid path '.git/config'" {
		t.Errorf("the work ends with %v", final)
	}
}
