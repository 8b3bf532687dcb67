package checks

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// judge turns how a command ended into a result.
func judge(c Check, got sandbox.CheckResult, o Options) Result {
	res := Result{
		Check: c, Exit: got.Exit, Started: got.Exit.Started, Completed: got.Exit.Ended,
		Duration: max(got.Exit.Ended.Sub(got.Exit.Started), 0),
	}
	log, err := readLog(got.Log)
	if err != nil {
		log = nil
	}
	found := Found{First: -1}
	if c.Annotate != "none" {
		found = Parse(c.Annotate, log, Source{Root: o.Root, Dir: c.Dir, Tree: o.Tree, Touched: o.Touched})
	}
	res.Conclusion, res.Summary = conclude(c, got.Exit, log, o.Redact)
	if err != nil {
		res.Summary += "; its log could not be read"
	}
	if got.Exit.Truncated {
		res.Summary += "; its output was cut at the limit"
	}
	if len(got.Exit.Blocked) > 0 && res.Conclusion != Success {
		res.Summary += "; " + blocked(got.Exit.Blocked, c.Name)
	}
	for _, a := range found.Annotations {
		message, title := o.Redact(a.GetMessage()), o.Redact(a.GetTitle())
		if a.Message = &message; title != "" {
			a.Title = &title
		}
		if res.Conclusion == Success && a.GetAnnotationLevel() == "failure" {
			level := "warning" // a check that passed has named nothing that fails
			a.AnnotationLevel = &level
		}
	}
	res.Annotations, res.Omitted, res.Near = found.Annotations, found.Omitted, found.Near
	if len(res.Annotations) > 0 && res.Conclusion == Failure {
		first := res.Annotations[0]
		line, _, _ := strings.Cut(first.GetMessage(), "\n")
		res.Summary += quote.Cut(fmt.Sprintf("; %s:%d: %s", first.GetPath(), first.GetStartLine(), line), 160, "…")
	}
	text := readable(log)
	at := found.First
	if len(text) != len(log) {
		at = -1 // an offset into the log as it was
	}
	res.LogTail = logTail(text, at, logMax, o.Redact)
	res.Hint = hint(res, log, o.Network)
	if res.Conclusion == Failure {
		res.Failing = failingLines(text, len(res.Annotations) > 0, o.Redact)
	}
	if res.Conclusion != Success {
		res.Excerpt = excerpt(text, at, o.Redact)
	}
	return res
}

// blocked names the hosts that a check asked for and that the policy does not open: often that is why it failed.
func blocked(hosts []string, while string) string {
	const most = 3
	text := "blocked host " + strings.Join(hosts[:min(len(hosts), most)], ", ")
	if more := len(hosts) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " while running " + while
}

// conclude says how a check ended, and why in one line. What the machine or the bot did is neutral: it says nothing about
// the change. What the command did to itself, by its time or its limits, is held against it.
func conclude(c Check, exit sandbox.Exit, log []byte, redact func(string) string) (Conclusion, string) {
	took := exit.Ended.Sub(exit.Started).Round(10 * time.Millisecond)
	because := ""
	if exit.Message != "" {
		because = ": " + plain(exit.Message, redact)
	}
	switch exit.Reason {
	case sandbox.Exited:
		return concludeStatus(c, exit.Code, log, redact)
	case sandbox.TimedOut:
		return TimedOut, fmt.Sprintf("stopped at its time limit after %v", took)
	case sandbox.Cancelled:
		return Cancelled, "cancelled" + because
	case sandbox.Signaled:
		return Failure, fmt.Sprintf("killed by signal %d (%v)%s", exit.Code-128, syscall.Signal(exit.Code-128), because)
	case sandbox.Flooded, sandbox.Overfull, sandbox.OutOfMem:
		return Failure, fmt.Sprintf("stopped: %s%s", exit.Reason, because)
	case sandbox.HostFull:
		return Neutral, "stopped, not for anything in the change" + because
	case sandbox.NotBegun:
		return Neutral, "could not be started" + because
	case sandbox.Lost:
		return Neutral, "lost: what watched it ended before it did, so its result is not known" + because
	}
	return Neutral, fmt.Sprintf("ended in a way that is not known here (%q)%s", exit.Reason, because)
}

// missing is what the shells print of a command that they cannot find: dash and busybox, bash, zsh.
var missing = regexp.MustCompile(`(?m)^.*?(?:sh|bash): (?:line )?\d+: (\S+): (?:command )?not found\s*$|(?m)^.*sh: (\S+): not found\s*$|(?m)command not found: (\S+)\s*$`)

// concludeStatus knows the two statuses that POSIX gives to a shell's own failures (Shell Command Language, 2.8.2).
func concludeStatus(c Check, code int, log []byte, redact func(string) string) (Conclusion, string) {
	switch code {
	case 0:
		return Success, "passed"
	case 126:
		return Failure, "the command was found but cannot be executed (exit status 126)"
	case 127:
		name := firstWord(c.Run)
		if all := missing.FindAllSubmatch(log[max(len(log)-8192, 0):], -1); len(all) > 0 {
			for _, group := range all[len(all)-1][1:] {
				if len(group) > 0 {
					name = string(group)
				}
			}
		}
		return Failure, fmt.Sprintf("the command %q was not found in the sandbox (exit status 127)", plain(name, redact))
	}
	return Failure, fmt.Sprintf("exit status %d", code)
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return s
}

func plain(s string, redact func(string) string) string {
	return quote.Cut(quote.Line(redact(s)), 500, "…")
}

// A log is read up to this many bytes from either end: what a person can use, and what keeps a hundred of them in memory.
const logRead = 8 << 20

// readLog gives the whole log, or its two ends with a line between them. An empty path is an empty log.
func readLog(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() <= 2*logRead {
		return io.ReadAll(io.LimitReader(f, 2*logRead))
	}
	head := make([]byte, logRead)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, err
	}
	tail := make([]byte, logRead)
	if _, err := f.ReadAt(tail, info.Size()-logRead); err != nil && err != io.EOF {
		return nil, err
	}
	middle := fmt.Appendf(nil, "\n… %d bytes of the log are not read here …\n", info.Size()-2*logRead)
	return append(append(head, middle...), tail...), nil
}
