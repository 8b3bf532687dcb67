package git

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure, by what the caller should do. errors.Is(err, ErrX) finds them in the errors of Run.
var (
	ErrAuth     = errors.New("credentials were refused")               // get others, or tell a person
	ErrNotFound = errors.New("repository not found")                   // gone, renamed, or not ours to see
	ErrNoRef    = errors.New("no such ref or commit")                  // the branch is gone
	ErrStale    = errors.New("the ref has moved")                      // read it again, decide again
	ErrRefused  = errors.New("the remote refused")                     // see Error.Reason; trying again changes nothing
	ErrNetwork  = errors.New("the remote could not be reached")        // try again later
	ErrCorrupt  = errors.New("the object store is damaged")            // fetch it again
	ErrEmpty    = errors.New("the repository has no commits")          // tell a person
	ErrPath     = errors.New("a name cannot be checked out")           // tell a person: .git in a tree, or longer than a file system takes
	ErrLocked   = errors.New("a lock file of another git is in place") // try again; left behind by a killed git
	ErrFailed   = errors.New("git failed")                             // everything else
)

// Error is a failed git command.
type Error struct {
	Kind   error // one of the kinds above
	Args   []string
	Stderr string
	Exit   int
}

// Error has the kind and the last line that git said.
func (e *Error) Error() string {
	return fmt.Sprintf("git %s: %v (exit %d): %s", verb(e.Args), e.Kind, e.Exit, e.Reason())
}

// Unwrap makes errors.Is find the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Reason is what git, or the remote through it, said: the lines that carry the reason, joined.
func (e *Error) Reason() string {
	var lines []string
	for _, l := range strings.FieldsFunc(e.Stderr, func(r rune) bool { return r == '\n' || r == '\r' }) {
		l = strings.TrimSpace(l)
		switch {
		case l == "", strings.HasPrefix(l, "hint:"), strings.HasPrefix(l, "To "), strings.HasPrefix(l, "warning:"):
		case strings.HasPrefix(l, "error: failed to push some refs"):
		default:
			lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(l, "fatal: "), "error: "))
		}
	}
	if n := len(lines); n > 12 {
		lines = lines[n-12:]
	}
	return strings.Join(lines, "; ")
}

// symptoms are what git 2.34 to 2.50 and the servers behind it say with LC_ALL=C, most telling first.
var symptoms = []struct {
	kind error
	any  []string
}{
	{ErrLocked, []string{".lock': File exists"}},
	{ErrPath, []string{"invalid path '", "File name too long"}},
	{ErrStale, []string{"(stale info)", "(fetch first)", "(non-fast-forward)", "but expected", "reference already exists", "cannot lock ref"}},
	{ErrRefused, []string{"[remote rejected]", "remote rejected", "pre-receive hook declined"}},
	{ErrAuth, []string{"Authentication failed", "could not read Username", "could not read Password", "returned error: 401",
		"returned error: 403", "HTTP 401", "HTTP 403", "terminal prompts disabled"}},
	{ErrNoRef, []string{"couldn't find remote ref", "unknown revision", "Needed a single revision", "not our ref", "bad revision",
		"not a valid object name", "Not a valid object name", "invalid upstream", "does not point to a valid object", "src refspec"}},
	{ErrNotFound, []string{"Repository not found", "returned error: 404", "not found", "does not appear to be a git repository",
		"does not exist", "No such file or directory", "dubious ownership"}},
	{ErrNetwork, []string{"Could not resolve host", "Failed to connect", "Connection refused", "Connection reset", "Connection timed out",
		"timed out", "early EOF", "RPC failed", "the remote end hung up", "returned error: 5", "returned error: 429", "HTTP/2 stream",
		"SSL", "gnutls", "Operation too slow", "unexpected disconnect", "Empty reply", "Network is unreachable", "Recv failure"}},
	{ErrCorrupt, []string{"bad object", "is corrupt", "corrupt loose object", "unable to read tree", "unable to read sha1", "missing blob",
		"missing tree", "invalid sha1 pointer", "did not send all necessary objects"}},
}

// classify reads what git said. Only commands with a transport can fail by one.
func classify(c Call, text string) error {
	for _, s := range symptoms {
		if c.Transport == NoTransport && (s.kind == ErrAuth || s.kind == ErrNetwork || s.kind == ErrRefused || s.kind == ErrNotFound) {
			continue
		}
		for _, phrase := range s.any {
			if strings.Contains(text, phrase) {
				return s.kind
			}
		}
	}
	return ErrFailed
}
