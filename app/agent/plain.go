package agent

import "strings"

// plain reads a command that has no form of output: each line is progress, the last ones are what it said.
type plain struct {
	state
	recent []string
}

func newPlain() Parser { return &plain{state: state{endless: true}} }

func (p *plain) Line(line []byte) []Event {
	events := p.noise(line)
	if len(events) > 0 {
		const keep = 5
		p.recent = append(p.recent, events[0].Text)
		p.recent = p.recent[max(0, len(p.recent)-keep):]
		p.last = strings.Join(p.recent, "\n")
	}
	return events
}
