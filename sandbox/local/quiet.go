package local

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
)

// Quiet ends what a supervisor that was killed has left: its jail dies with it, but not in the same instant. Found are the
// processes that have the workspace of this run mounted, wherever they hide: mark is what /proc/<pid>/mountinfo says of them.
func Quiet(ctx context.Context, w sandbox.Workspace, mark string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := killInside([]byte(mark))
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

func killInside(mark []byte) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !inside(pid, mark) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if inside(pid, mark) { // still the same process, now that the descriptor holds its pid
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

func inside(pid int, mark []byte) bool {
	info, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	return err == nil && bytes.Contains(info, mark)
}
