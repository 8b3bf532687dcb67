package overlay

import (
	"bytes"
	"io"
	"sync"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// On an overlay that an ordinary user has mounted, rename(2) of a directory of the base gives EXDEV, as between two file systems: the mark
// that would say where it was is root's (redirect_dir in the kernel's documentation of overlayfs). mv copies then; git mv gives up, and
// so do some installers. Whoever sees that happen is told what helps.
const renameHint = "\n[sandpiper: if EXDEV was said of a rename: directories of the base cannot be renamed here. mv copies them, git mv does not. " +
	"`backend: worktree` in the policy gives this repository workspaces in which they can be.]\n"

// refusals looks for what programs say of EXDEV: by strerror, or by the name that node and others give it.
type refusals struct {
	mu   sync.Mutex
	seen bool
}

var crossDevice = [][]byte{[]byte("nvalid cross-device link"), []byte("EXDEV")}

// watch gives streams that pass on everything. One that is both stays both: its order would be lost.
func (r *refusals) watch(s sandbox.Stdio) sandbox.Stdio {
	same := s.Out != nil && s.Out == s.Err
	if s.Out != nil {
		s.Out = &watched{w: s.Out, r: r}
	}
	switch {
	case same:
		s.Err = s.Out
	case s.Err != nil:
		s.Err = &watched{w: s.Err, r: r}
	}
	return s
}

// tell adds the hint to what the command has said, if it is needed.
func (r *refusals) tell(w sandbox.Workspace, b *Backend, s sandbox.Stdio) []sandbox.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen {
		return nil
	}
	if s.Err != nil {
		_, _ = io.WriteString(s.Err, renameHint)
	}
	return []sandbox.Finding{{Run: w.ID, Time: b.o.Now().UTC(), Kind: "overlay.rename", Severity: "low", Observer: "sandbox-claimed", Outcome: "contained",
		Evidence: "the command's output speaks of EXDEV, which renames of directories of the base are refused with here: `backend: worktree` in the policy allows them"}}
}

// watched is one stream.
type watched struct {
	w    io.Writer
	r    *refusals
	tail []byte // the end of what was written before, in which a word may have begun
}

func (w *watched) Write(p []byte) (int, error) {
	const longest = len("nvalid cross-device link")
	w.tail = append(w.tail, p...)
	for _, word := range crossDevice {
		if bytes.Contains(w.tail, word) {
			w.r.mu.Lock()
			w.r.seen = true
			w.r.mu.Unlock()
		}
	}
	w.tail = append(w.tail[:0], w.tail[max(0, len(w.tail)-longest):]...)
	return w.w.Write(p)
}
