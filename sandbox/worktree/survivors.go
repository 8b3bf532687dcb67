package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

var _ sandbox.Quieter = (*Backend)(nil)

// Quiet ends what a supervisor that was killed has left: its jail dies with it, but not in the same instant. Found are the
// processes that have the workspace of this run mounted, wherever they hide.
func (b *Backend) Quiet(ctx context.Context, w sandbox.Workspace) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := killInside(w)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of sandbox %s do not die: %w", n, w.ID, sandbox.ErrBusy)
		case <-tick.C:
		}
	}
}

func killInside(w sandbox.Workspace) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !inside(pid, w) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if inside(pid, w) { // still the same process, now that the descriptor holds its pid
			n++
			err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		unix.Close(fd)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return n, fmt.Errorf("end process %d: %w", pid, err)
		}
	}
	return n, nil
}

// inside says whether a process has the workspace mounted where a jail has it. The path in mountinfo begins at the root of the
// file system that the state directory lies on (proc(5)), hence only its end is compared.
func inside(pid int, w sandbox.Workspace) bool {
	info, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	return err == nil && bytes.Contains(info, fmt.Appendf(nil, "/%s/%s %s ", w.ID, w.ID, jail.WorkspaceDir))
}
