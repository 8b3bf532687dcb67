package gitstore

import (
	"bytes"
	"context"
	"regexp"
	"strconv"
	"time"
)

// Progress is how far a fetch is.
type Progress struct {
	Key     string // of the store
	Phase   string // in git's words: Receiving objects, Resolving deltas, ...
	Percent int
	Detail  string // such as "4500/10000, 12.5 MiB | 3 MiB/s"
}

type progressKey struct{}

// WithProgress has report called while a fetch under this context goes on, at most once a second and for each new phase. It must
// return soon. Who shares the fetch of another caller hears nothing.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// progress reads what git says on its standard error. The lines that begin with "remote:" are the server's, so that only the
// form that git itself gives to progress is let through.
type progress struct {
	key    string
	report func(Progress)
	rest   []byte
	phase  string
	last   time.Time
}

func progressOf(ctx context.Context, key string) *progress {
	report, ok := ctx.Value(progressKey{}).(func(Progress))
	if !ok {
		return nil
	}
	return &progress{key: key, report: report}
}

var progressLine = regexp.MustCompile(`^(?:remote: )?((?:Counting|Compressing|Receiving|Unpacking) objects|Resolving deltas|Updating files|Checking connectivity): +(\d{1,3})% \(([0-9/]+)\)(, [0-9.]+ (?:bytes|[KMG]iB)(?: \| [0-9.]+ (?:bytes|[KMG]iB)/s)?)?`)

// longestLine bounds what is kept of a line that does not end.
const longestLine = 512

func (p *progress) Write(data []byte) (int, error) {
	p.rest = append(p.rest, data...)
	for {
		i := bytes.IndexAny(p.rest, "\r\n")
		if i < 0 {
			break
		}
		p.line(p.rest[:i])
		p.rest = p.rest[i+1:]
	}
	if len(p.rest) > longestLine {
		p.rest = p.rest[:0]
	}
	return len(data), nil
}

func (p *progress) line(line []byte) {
	found := progressLine.FindSubmatch(line)
	if found == nil {
		return
	}
	phase := string(found[1])
	// The time is only for the pace of reports.
	if now := time.Now(); phase != p.phase || now.Sub(p.last) >= time.Second {
		p.phase, p.last = phase, now
		percent, _ := strconv.Atoi(string(found[2]))
		p.report(Progress{Key: p.key, Phase: phase, Percent: percent, Detail: string(found[3]) + string(found[4])})
	}
}
