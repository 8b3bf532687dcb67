package jail

import (
	"bytes"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// streams carry the standard streams of a tree through pipes.
type streams struct {
	total atomic.Int64
	cut   atomic.Bool

	limit   int64
	over    func()
	copies  sync.WaitGroup
	ours    []*os.File
	held    []byte // the beginning of standard error while it may be bubblewrap's and not the command's
	release func([]byte)
}

// bubblewrap begins its own messages with this.
const bubblewrap = "bwrap: "

// streams makes the pipes and starts to copy. The files are for the tree; close them once it has started.
func (r *runner) streams(std Stdio, uid int) (*streams, [3]*os.File, error) {
	s := &streams{limit: r.limits.Output, over: func() { r.end(TooMuchOutput, "more than the limit was written") }}
	var files [3]*os.File
	var all closers
	in, inW, err := all.pipe()
	if err != nil {
		return nil, files, err
	}
	files[0] = in
	out, outW, err := all.pipe()
	if err != nil {
		all.close()
		return nil, files, err
	}
	files[1], files[2] = outW, outW
	fail := func() { r.end(Cancelled, "") }
	if std.Err != std.Out || std.Err == nil {
		errR, errW, err := all.pipe()
		if err != nil {
			all.close()
			return nil, files, err
		}
		files[2] = errW
		s.copy(errR, s.sink(std.Err, fail), true)
	}
	s.copy(out, s.sink(std.Out, fail), files[2] == files[1])
	for _, f := range files {
		// A pipe belongs to who made it; /dev/stdout opens it anew, as the user inside.
		_ = unix.Fchown(int(f.Fd()), uid, gidOf(uid))
	}
	s.ours = append(s.ours, inW)
	if std.In == nil {
		_ = inW.Close()
		return s, files, nil
	}
	// Not waited for: it may be blocked in a read of a terminal, and ends with what it reads.
	go func() {
		_, _ = io.Copy(inW, std.In)
		_ = inW.Close()
	}()
	return s, files, nil
}

// sink passes on what is below the limit. It is the one place where output is counted.
func (s *streams) sink(w io.Writer, fail func()) func([]byte) {
	if w == nil {
		w = io.Discard
	}
	return func(p []byte) {
		n := int64(len(p))
		before := s.total.Add(n) - n
		if before+n > s.limit {
			s.cut.Store(true)
			s.over()
			p = p[:max(0, min(n, s.limit-before))]
		}
		if len(p) == 0 {
			return
		}
		if _, err := w.Write(p); err != nil {
			fail() // nobody reads any more
		}
	}
}

// copy reads a pipe to its end: the tree is dead then. Of the stream that bubblewrap may use, a first message of it is
// held back until it is known whether the command came to run.
func (s *streams) copy(r *os.File, sink func([]byte), mayBeBubblewrap bool) {
	s.ours = append(s.ours, r)
	if mayBeBubblewrap {
		s.release = sink
	}
	s.copies.Go(func() {
		buf := make([]byte, 1<<16)
		undecided := mayBeBubblewrap
		for {
			n, err := r.Read(buf)
			switch {
			case n > 0 && undecided:
				if undecided = s.hold(buf[:n]); !undecided {
					s.flush()
				}
			case n > 0:
				sink(buf[:n])
			}
			if err != nil {
				return
			}
		}
	})
}

// hold keeps p, and says whether all that is kept may still be the one line that bubblewrap ends with.
func (s *streams) hold(p []byte) bool {
	s.held = append(s.held, p...)
	if !bytes.HasPrefix(s.held, []byte(bubblewrap)) {
		return bytes.HasPrefix([]byte(bubblewrap), s.held)
	}
	end := bytes.IndexByte(s.held, '\n')
	return len(s.held) < 4096 && (end < 0 || end == len(s.held)-1)
}

func (s *streams) flush() {
	if len(s.held) > 0 {
		s.release(s.held)
		s.held = nil
	}
}

// finish waits until all output is passed on. If the command did not run, it returns what bubblewrap said instead.
func (s *streams) finish(ran bool) (message string) {
	s.copies.Wait()
	if ran {
		s.flush()
	}
	for _, f := range s.ours {
		_ = f.Close()
	}
	return string(s.held)
}

// abandon is for a tree that was never started: the other ends are closed already.
func (s *streams) abandon() { s.finish(false) }
