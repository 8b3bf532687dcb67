package promote

import (
	"fmt"
	"strings"
)

// holds are the reasons for which what was staged is not ready, whatever its checks say.
func (s Staged) holds() []string {
	var reasons []string
	if n := len(s.Conflicts); n > 0 {
		reasons = append(reasons, fmt.Sprintf("it does not merge with the base branch, which has moved since the run started (%s)", plural(n, "path")+" in conflict"))
	}
	return reasons
}

// draft says whether the pull request is a draft, and why.
func (r Request) draft() (reason string, draft bool) {
	reasons := r.Staged.holds()
	if r.DraftReason != "" {
		reasons = append([]string{r.DraftReason}, reasons...)
	}
	return strings.Join(reasons, "; "), r.Draft || len(reasons) > 0
}
