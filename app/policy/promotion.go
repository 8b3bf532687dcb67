package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Gates say what follows when a gate finds something, by the names of the gates; one that is missing has its own default.
type Gates map[string]gates.Level

// Promote says what a pull request is made of.
type Promote struct {
	Drop      []string `json:"drop,omitempty"`      // globs of paths that are never promoted; people can take them in
	Title     string   `json:"title,omitempty"`     // of pull request and commit, with {title} and {issue} in it
	Labels    []string `json:"labels,omitempty"`    // put on the pull request
	Transport string   `json:"transport,omitempty"` // push or api; empty: what the repository's rules need
	Commits   string   `json:"commits,omitempty"`   // keep: the agent's own commits; squash or empty: one
	Signoff   bool     `json:"signoff,omitempty"`   // Signed-off-by of the bot's account
	Reviewers bool     `json:"reviewers"`           // owners of touched paths are asked for a review
}

func (r *reader) gates(n ast.Node, key string) Gates {
	levels := Gates{}
	var fields []field
	for _, g := range gates.Settable() {
		fields = append(fields, field{name: g.Name, read: func(n ast.Node, k string) {
			if s, ok := r.oneOf(n, k, string(gates.Block), string(gates.Draft), string(gates.Note)); ok {
				levels[g.Name] = gates.Level(s)
			}
		}})
	}
	r.mapping(n, key, fields...)
	return levels
}

func (r *reader) promote(n ast.Node, key string, p *Promote) {
	r.mapping(n, key,
		field{name: "drop", read: func(n ast.Node, k string) { p.Drop = r.drops(n, k) }},
		field{name: "title", read: func(n ast.Node, k string) { p.Title = r.title(n, k) }},
		field{name: "labels", read: func(n ast.Node, k string) { p.Labels = r.texts(n, k, checkLabel) }},
		field{name: "transport", read: func(n ast.Node, k string) { p.Transport, _ = r.oneOf(n, k, "push", "api") }},
		field{name: "commits", read: func(n ast.Node, k string) { p.Commits, _ = r.oneOf(n, k, "squash", "keep") }},
		field{name: "signoff", read: func(n ast.Node, k string) { p.Signoff, _ = r.boolean(n, k) }},
		field{name: "reviewers", read: func(n ast.Node, k string) { p.Reviewers, _ = r.boolean(n, k) }},
	)
}

// drops reads globs. Hunks are numbered in what one run made, so that a policy cannot know them.
func (r *reader) drops(n ast.Node, key string) []string {
	globs := r.globs(n, key)
	for _, g := range globs {
		if sandbox.IsPart(g) {
			r.problem(n, key, "a path; a colon in its name is written [:]", "%s names hunks, and these are of one run only", quote(g))
		}
	}
	return globs
}

// title reads a pattern such as "fix: {title} (#{issue})".
func (r *reader) title(n ast.Node, key string) string {
	s, ok := r.text(n, key)
	switch rest := strings.NewReplacer("{title}", "", "{issue}", "").Replace(s); {
	case !ok:
	case !strings.Contains(s, "{title}"):
		r.problem(n, key, `such as "fix: {title}"`, "title has no {title} in it")
	case strings.ContainsAny(rest, "{}"):
		r.problem(n, key, "{title} and {issue}", "title has braces with something else in them")
	case len(rest) > 60 || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		r.problem(n, key, "at most 60 letters beside {title}, on one line", "title is too long or holds letters that cannot be seen")
	}
	return s
}

// checkLabel knows what GitHub takes: names of at most 50 letters.
func checkLabel(s string) (message, hint string) {
	if s != strings.TrimSpace(s) || s == "" || utf8.RuneCountInString(s) > 50 || strings.Contains(s, ",") {
		return quote(s) + " is no name of a label", "1 to 50 letters, without a comma"
	}
	return "", ""
}

func (p *Policy) explainPromotion() []Line {
	var lines []Line
	for _, g := range gates.Settable() {
		if level, ok := p.Gates[g.Name]; ok {
			lines = append(lines, p.line("gates."+g.Name, string(level)))
		} else {
			lines = append(lines, p.line("gates."+g.Name, string(g.Default)))
		}
	}
	orNone := func(s, none string) string {
		if s == "" {
			return none
		}
		return s
	}
	return append(lines,
		p.line("promote.drop", list(p.Promote.Drop)),
		p.line("promote.title", orNone(p.Promote.Title, "(as the repository has it)")),
		p.line("promote.labels", list(p.Promote.Labels)),
		p.line("promote.transport", orNone(p.Promote.Transport, "(what the repository's rules need)")),
		p.line("promote.commits", orNone(p.Promote.Commits, "squash")),
		p.line("promote.signoff", fmt.Sprint(p.Promote.Signoff)),
		p.line("promote.reviewers", fmt.Sprint(p.Promote.Reviewers)),
	)
}

// reserved are names of Check Runs that the bot makes of its own.
func reserved(name string) bool {
	return slices.Contains([]string{"gates", "review"}, strings.ToLower(name))
}
