package checks

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// ExternalID is what a Check Run of ours is known by, as its external_id: who it is done for and which attempt it is. A
// re-run is a new Check Run of the same name with the next attempt, because GitHub does not reset the old one.
type ExternalID struct {
	Mission, Run, Check string
	Attempt             int // from 1
}

// String is "v1:<mission>:<run>:<check>:<attempt>".
func (e ExternalID) String() string {
	return fmt.Sprintf("v1:%s:%s:%s:%d", e.Mission, e.Run, e.Check, max(e.Attempt, 1))
}

// Next is the id of a re-run.
func (e ExternalID) Next() ExternalID {
	e.Attempt = max(e.Attempt, 1) + 1
	return e
}

// ParseExternalID reads what String wrote. The check's name may hold colons.
func ParseExternalID(s string) (ExternalID, bool) {
	parts := strings.SplitN(s, ":", 4)
	if len(parts) != 4 || parts[0] != "v1" {
		return ExternalID{}, false
	}
	at := strings.LastIndexByte(parts[3], ':')
	if at < 1 {
		return ExternalID{}, false
	}
	attempt, err := strconv.Atoi(parts[3][at+1:])
	e := ExternalID{Mission: parts[1], Run: parts[2], Check: parts[3][:at], Attempt: attempt}
	return e, err == nil && e.String() == s
}

// RunName is the name of a check's Check Run. Its prefix is one that no workflow job has, since names are what rules ask for.
func RunName(check string) string {
	return "sandpiper / " + quote.Cut(quote.Line(check), 100, "…")
}
