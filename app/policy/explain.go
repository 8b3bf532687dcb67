package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// Line is one setting that is in force.
type Line struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // "default", or file:line
}

// Explain lists what is in force and where it comes from, in the order of the documentation.
func (p *Policy) Explain() []Line {
	agent := p.Agent.String()
	if p.Agent.IsZero() {
		agent = "(the one that the bot was set up with)"
	}
	backend := p.Backend
	if backend == "" {
		backend = "(the one that the bot was set up with)"
	}
	lines := []Line{
		p.line("agent", agent),
		p.line("backend", backend),
	}
	for i, s := range p.Setup {
		value := s.Run
		if len(s.Needs) > 0 {
			value += "   when " + strings.Join(s.Needs, ", ") + " changed"
		}
		lines = append(lines, p.line(fmt.Sprintf("setup[%d]", i), value))
	}
	lines = append(lines, p.explainChecks()...)
	network := "(closed)"
	if len(p.Network) > 0 {
		network = strings.Join(p.Network, ", ")
	}
	lines = append(lines,
		p.line("network", network),
		p.line("protect", list(p.Protect)),
		p.line("budget.time", shortDuration(p.Budget.Time)),
		p.line("budget.rounds", strconv.Itoa(p.Budget.Rounds)),
		p.line("budget.money", p.Budget.Money.String()),
		p.line("budget.output", p.Budget.Output.String()),
		p.line("review.approvals", strconv.Itoa(p.Review.Approvals)),
		p.line("review.requester", strconv.FormatBool(p.Review.Requester)),
		p.line("triggers.who", p.Triggers.Who+" permission or more"),
		p.line("triggers.labels", list(p.Triggers.Labels)),
		p.line("trust.colleagues", p.Trust.Colleagues+" permission or more"),
		p.line("trust.outsiders", p.Trust.Outsiders),
	)
	lines = append(lines, p.explainPromotion()...)
	return append(lines,
		p.line("context.skills", list(p.Context.Skills)),
		p.line("context.specs", list(p.Context.Specs)),
		p.line("context.docs", list(p.Context.Docs)),
	)
}

func (p *Policy) explainChecks() []Line {
	switch {
	case p.Checks == nil:
		return []Line{p.line("checks", "(found from what the repository is)")}
	case len(p.Checks) == 0:
		return []Line{p.line("checks", "(none)")}
	}
	var lines []Line
	for i, c := range p.Checks {
		value := c.Name + ": " + firstLine(c.Run)
		if c.Dir != "" {
			value += "   in " + c.Dir
		}
		if !c.Required {
			value += "   not required"
		}
		lines = append(lines, p.line(fmt.Sprintf("checks[%d]", i), value+"   within "+shortDuration(c.Timeout)))
	}
	return lines
}

func (p *Policy) line(key, value string) Line {
	from := "default"
	if at, ok := p.at[key]; ok {
		from = fmt.Sprintf("%s:%d", p.file, at.Line)
	}
	return Line{Key: key, Value: firstLine(value), From: from}
}

func list(s []string) string {
	if len(s) == 0 {
		return "(none)"
	}
	return strings.Join(s, ", ")
}
