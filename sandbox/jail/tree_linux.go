package jail

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// identify reads who runs inside. It fails when bubblewrap could not set up the namespaces; its message is then on the
// standard error of the command.
func (t *tree) identify() error {
	if t.runtime {
		return nil
	}
	var st status
	if err := t.status.Decode(&st); err != nil || st.ChildPID == nil {
		return fmt.Errorf("bubblewrap told no process: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	fd, err := unix.PidfdOpen(*st.ChildPID, 0)
	if err != nil {
		return fmt.Errorf("first process: %w", err)
	}
	t.init, t.pidfd = *st.ChildPID, fd
	return nil
}

// release lets the command begin.
func (t *tree) release() {
	_, _ = t.hold.Write([]byte{1})
	_ = t.hold.Close()
}

// exitCode is the status of the command, or nil when it was not executed or bubblewrap was killed. Call it once, at the
// end: it waits until bubblewrap has closed its side.
//
// A command that has begun in a container can keep the first process from telling, by the limits of that one, which is of the same user: it
// has run all the same, and is as one that was killed.
func (t *tree) exitCode() (code *int) {
	for {
		var st status
		if err := t.status.Decode(&st); err != nil {
			return code
		}
		if t.notStarted = st.NotStarted; t.notStarted != 0 {
			return nil
		}
		if st.ExitCode != nil {
			return st.ExitCode
		}
		if st.Begun {
			killed := 128 + int(unix.SIGKILL)
			code = &killed
		}
	}
}

// kill ends every process of the tree: the death of the first process of a pid namespace is that of all.
func (t *tree) kill() {
	if t.pidfd >= 0 {
		_ = unix.PidfdSendSignal(t.pidfd, unix.SIGKILL, nil, 0)
	} else {
		_ = t.monitor.Kill()
	}
}

// gone waits until the tree is dead. The monitor ends with the command; what the command left behind is killed then.
// The descriptor of the first process becomes readable when it has ended, and the kernel lets it end only after every
// other process of the namespace is dead and reaped.
func (t *tree) gone() error {
	<-t.ended
	_ = t.hold.Close()
	if t.pidfd < 0 {
		return nil // bubblewrap made no namespace
	}
	t.kill()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(t.pidfd), Events: unix.POLLIN}}, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != 1 {
			return fmt.Errorf("wait for the first process: %w", err)
		}
		return unix.Close(t.pidfd)
	}
}

// closers are files to close when their work is done.
type closers struct{ files []*os.File }

func (c *closers) pipe() (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err == nil {
		c.files = append(c.files, r, w)
	}
	return r, w, err
}

// memory is a file in memory that begins with content, read from the start.
func (c *closers) memory(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(strings.Trim(name, "-"), unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	c.files = append(c.files, f)
	if _, err := io.Copy(f, bytes.NewReader(content)); err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// keep takes files out of those to close.
func (c *closers) keep(kept ...*os.File) {
	var rest []*os.File
	for _, f := range c.files {
		if f != kept[0] && (len(kept) < 2 || f != kept[1]) {
			rest = append(rest, f)
		}
	}
	c.files = rest
}

func (c *closers) close() {
	for _, f := range c.files {
		_ = f.Close()
	}
}
