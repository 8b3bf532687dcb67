package policy

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// maxText bounds a command, a name or a path.
const maxText = 4 << 10

func (r *reader) policy(n ast.Node, p *Policy) {
	r.mapping(n, "",
		field{name: "agent", read: func(n ast.Node, k string) { p.Agent = r.agent(n, k) }},
		field{name: "backend", read: func(n ast.Node, k string) {
			p.Backend, _ = r.oneOf(n, k, "overlay", "worktree", "agentfs", "container", "kubernetes")
		}},
		field{name: "setup", read: func(n ast.Node, k string) { p.Setup = r.setup(n, k) }},
		field{name: "checks", read: func(n ast.Node, k string) { p.Checks = r.checks(n, k) }},
		field{name: "network", read: func(n ast.Node, k string) { p.Network = r.texts(n, k, checkNetwork) }},
		field{name: "protect", read: func(n ast.Node, k string) { p.Protect = r.globs(n, k) }},
		field{name: "budget", read: func(n ast.Node, k string) { r.budget(n, k, &p.Budget) }},
		field{name: "review", read: func(n ast.Node, k string) { r.review(n, k, &p.Review) }},
		field{name: "triggers", read: func(n ast.Node, k string) { r.triggers(n, k, &p.Triggers) }},
		field{name: "gates", read: func(n ast.Node, k string) { p.Gates = r.gates(n, k) }},
		field{name: "promote", read: func(n ast.Node, k string) { r.promote(n, k, &p.Promote) }},
		field{name: "trust", read: func(n ast.Node, k string) { r.trust(n, k, &p.Trust) }},
		field{name: "context", read: func(n ast.Node, k string) { r.context(n, k, &p.Context) }},
	)
}

func (r *reader) agent(n ast.Node, key string) Agent {
	if _, ok := n.(*ast.SequenceNode); !ok {
		s, ok := r.text(n, key)
		if !ok {
			return Agent{}
		}
		a, message, hint := parseAgent(s)
		if message != "" {
			r.problem(n, key, hint, "%s", message)
		}
		return a
	}
	var a Agent
	r.list(n, key, func(n ast.Node, k string) {
		if s, ok := r.text(n, k); ok {
			if len(a.Command) == 0 && strings.TrimSpace(s) == "" || strings.ContainsRune(s, 0) || len(s) > maxText {
				r.problem(n, k, "", "this cannot be part of a command")
			}
			a.Command = append(a.Command, s)
		}
	})
	if s, ok := n.(*ast.SequenceNode); ok && len(s.Values) == 0 {
		r.problem(n, key, "such as [./agent.sh, --fast]", "the agent's command is empty")
	}
	return a
}

// ParseAgent reads an agent as a person writes it in a setting: the name of a profile, or a command for sh -c.
func ParseAgent(s string) (Agent, error) {
	a, message, hint := parseAgent(s)
	if message != "" {
		return Agent{}, invalid("agent", message, hint)
	}
	return a, nil
}

// parseAgent takes one bare word for the name of a profile, so that a typing error is not run as a command.
func parseAgent(s string) (a Agent, message, hint string) {
	for _, p := range Profiles() {
		if s == p {
			return Agent{Profile: p}, "", ""
		}
	}
	switch {
	case strings.TrimSpace(s) == "":
		return Agent{}, "the agent is empty", "a profile (" + strings.Join(Profiles(), ", ") + ") or a command"
	case len(s) > maxText || strings.ContainsRune(s, 0):
		return Agent{}, "the agent's command is too long or has a zero byte", ""
	case !strings.ContainsAny(strings.TrimSpace(s), "/ \t\n"):
		return Agent{}, "unknown agent " + quote(s), "a program of that name is written as a list: [" + s + "]; " + didYouMean(s, Profiles())
	}
	return Agent{Command: []string{"sh", "-c", s}}, "", ""
}

// command reads what sh -c is given.
func (r *reader) command(n ast.Node, key string) string {
	s, ok := r.text(n, key)
	switch {
	case !ok:
	case strings.TrimSpace(s) == "":
		r.problem(n, key, "", "%s is empty", last(key))
	case len(s) > maxText:
		r.problem(n, key, "put it into a script of the repository", "%s has %d bytes; at most %d", last(key), len(s), maxText)
	}
	return s
}

func (r *reader) setup(n ast.Node, key string) []Step {
	var steps []Step
	r.list(n, key, func(n ast.Node, k string) {
		var s Step
		r.mapping(n, k,
			field{name: "run", required: true, read: func(n ast.Node, k string) { s.Run = r.command(n, k) }},
			field{name: "needs", read: func(n ast.Node, k string) { s.Needs = r.globs(n, k) }},
		)
		steps = append(steps, s)
	})
	return steps
}

// annotateKinds are the forms of output that checks are read for; package checks has a reader for each.
func annotateKinds() []string {
	return []string{"go", "generic", "eslint", "typescript", "javascript", "python", "rust", "java", "tap", "junit", "sarif", "matcher"}
}

func (r *reader) checks(n ast.Node, key string) []Check {
	checks, names := []Check{}, map[string]bool{}
	r.list(n, key, func(n ast.Node, k string) {
		c := Check{Required: true, Timeout: DefaultCheckTimeout}
		r.mapping(n, k,
			field{name: "name", required: true, read: func(n ast.Node, k string) { c.Name = r.checkName(n, k, names) }},
			field{name: "run", required: true, read: func(n ast.Node, k string) { c.Run = r.command(n, k) }},
			field{name: "dir", read: func(n ast.Node, k string) {
				c.Dir, _ = r.text(n, k)
				if m := checkRelative(c.Dir); m != "" {
					r.problem(n, k, "", "the directory %s %s", quote(c.Dir), m)
				}
			}},
			field{name: "annotate", read: func(n ast.Node, k string) { c.Annotate, _ = r.oneOf(n, k, annotateKinds()...) }},
			field{name: "required", read: func(n ast.Node, k string) { c.Required, _ = r.boolean(n, k) }},
			field{name: "timeout", read: func(n ast.Node, k string) {
				c.Timeout = r.duration(n, k, time.Second, 6*time.Hour)
			}},
		)
		checks = append(checks, c)
	})
	return checks
}

// checkName takes what GitHub shows as the name of a Check Run. Branch rules find a check by its name, so a name must be
// one of a kind; people do not see a difference in case.
func (r *reader) checkName(n ast.Node, key string, names map[string]bool) string {
	s, ok := r.text(n, key)
	if !ok {
		return ""
	}
	fold := strings.ToLower(s)
	switch {
	case s == "" || s != strings.TrimSpace(s):
		r.problem(n, key, "", "the name %s is empty or has spaces around it", quote(s))
	case utf8.RuneCountInString(s) > 100:
		r.problem(n, key, "", "the name has %d letters; at most 100", utf8.RuneCountInString(s))
	case strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		r.problem(n, key, "one line of visible letters", "the name %s has letters that cannot be seen", quote(s))
	case reserved(s):
		r.problem(n, key, "it is the name of a Check Run of the bot's own", "a check cannot be named %s", quote(s))
	case names[fold]:
		r.problem(n, key, "branch rules know a check by its name", "a second check is named %s", quote(s))
	}
	names[fold] = true
	return s
}

func (r *reader) budget(n ast.Node, key string, b *Budget) {
	r.mapping(n, key,
		field{name: "time", read: func(n ast.Node, k string) { b.Time = r.duration(n, k, time.Second, 24*time.Hour) }},
		field{name: "rounds", read: func(n ast.Node, k string) { b.Rounds, _ = r.number(n, k, 1, 50) }},
		field{name: "money", read: func(n ast.Node, k string) { b.Money = r.money(n, k) }},
		field{name: "output", read: func(n ast.Node, k string) { b.Output = r.size(n, k, 64<<10, 1<<30) }},
	)
}

func (r *reader) review(n ast.Node, key string, v *Review) {
	r.mapping(n, key,
		// GitHub's branch protection can ask for at most six approvals.
		field{name: "approvals", read: func(n ast.Node, k string) { v.Approvals, _ = r.number(n, k, 0, 6) }},
		field{name: "requester", read: func(n ast.Node, k string) { v.Requester, _ = r.boolean(n, k) }},
	)
}

func (r *reader) triggers(n ast.Node, key string, t *Triggers) {
	r.mapping(n, key,
		field{name: "who", read: func(n ast.Node, k string) { t.Who, _ = r.oneOf(n, k, "write", "maintain", "admin") }},
		field{name: "labels", read: func(n ast.Node, k string) {
			t.Labels = r.texts(n, k, checkLabel)
		}},
	)
}

func (r *reader) trust(n ast.Node, key string, t *Trust) {
	r.mapping(n, key,
		field{name: "colleagues", read: func(n ast.Node, k string) { t.Colleagues, _ = r.oneOf(n, k, "write", "maintain", "admin") }},
		field{name: "outsiders", read: func(n ast.Node, k string) { t.Outsiders, _ = r.oneOf(n, k, Contain, Refuse) }},
	)
}

func (r *reader) context(n ast.Node, key string, c *Context) {
	r.mapping(n, key,
		field{name: "skills", read: func(n ast.Node, k string) { c.Skills = r.globs(n, k) }},
		field{name: "specs", read: func(n ast.Node, k string) { c.Specs = r.globs(n, k) }},
		field{name: "docs", read: func(n ast.Node, k string) { c.Docs = r.globs(n, k) }},
	)
}

func (r *reader) duration(n ast.Node, key string, low, high time.Duration) time.Duration {
	if _, ok := n.(*ast.IntegerNode); ok {
		r.problem(n, key, "such as 40m, 90s or 1h30m", "%s needs a unit", last(key))
		return 0
	}
	s, ok := r.text(n, key)
	if !ok {
		return 0
	}
	d, err := parseDuration(s)
	switch {
	case err != nil:
		r.problem(n, key, "such as 40m, 90s or 1h30m", "%v", err)
	case d < low || d > high:
		r.problem(n, key, "from "+shortDuration(low)+" to "+shortDuration(high), "%s cannot be %s", last(key), s)
	}
	return d
}

// shortDuration writes 40m where time.Duration writes 40m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (r *reader) money(n ast.Node, key string) Money {
	if _, ok := n.(*ast.IntegerNode); ok {
		r.problem(n, key, "such as 5 USD", "%s needs a currency", last(key))
		return 0
	}
	s, ok := r.text(n, key)
	if !ok {
		return 0
	}
	m, err := parseMoney(s)
	switch {
	case err != nil:
		r.problem(n, key, "in US dollars, as agents report their cost: 5 USD or 0.50 USD", "%v", err)
	case m == 0:
		r.problem(n, key, "", "%s must be more than nothing", last(key))
	}
	return m
}

func (r *reader) size(n ast.Node, key string, low, high Size) Size {
	if _, ok := n.(*ast.IntegerNode); ok {
		r.problem(n, key, "such as 50 MB", "%s needs a unit", last(key))
		return 0
	}
	s, ok := r.text(n, key)
	if !ok {
		return 0
	}
	size, err := parseSize(s)
	switch {
	case err != nil:
		r.problem(n, key, "such as 50 MB or 64 KiB", "%v", err)
	case size < low || size > high:
		r.problem(n, key, "from "+low.String()+" to "+high.String(), "%s cannot be %s", last(key), s)
	}
	return size
}
