package promote

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// Style is how a repository words first lines of commits and titles of pull requests.
type Style struct {
	Pattern string `json:"pattern,omitempty"` // with {title} and {issue} in it; empty: the title alone
	Lower   bool   `json:"lower,omitempty"`   // the title begins with a small letter
}

var (
	// conventional is https://www.conventionalcommits.org/en/v1.0.0/ with the types of its Angular convention.
	conventional = regexp.MustCompile(`^(feat|fix|docs|chore|refactor|test|perf|build|ci|style|revert)(\([^)]*\))?!?: (.)`)
	// byPlace is the convention of Go, Linux and git: "net/http: close the body".
	byPlace = regexp.MustCompile(`^([a-z0-9_.-]+(?:/[a-z0-9_.-]+)*)(?:, [a-z0-9_./-]+)*: (.)`)
)

// What makes a convention: so many of the latest commits, and so large a part of them.
const (
	styleFrom  = 100
	styleLeast = 10
	stylePart  = 0.6
)

// StyleOf reads the style off the first lines of a repository's commits, for a change of these paths. A repository that follows
// none, or whose history is not known, has the title alone; and so has a title that follows it already.
func StyleOf(subjects []string, title string, paths []string) Style {
	subjects = slices.DeleteFunc(slices.Clone(subjects), func(s string) bool {
		return strings.HasPrefix(s, "Merge ") || strings.HasPrefix(s, "Bump ") || strings.HasPrefix(s, "Revert ")
	})
	if len(subjects) < styleLeast || conventional.MatchString(title) {
		return Style{}
	}
	enough := func(form *regexp.Regexp) (small, deep, yes bool) {
		n, lower, slash := 0, 0, 0
		for _, s := range subjects {
			if m := form.FindStringSubmatch(s); m != nil {
				n++
				first, _ := utf8.DecodeRuneInString(m[len(m)-1])
				if unicode.IsLower(first) {
					lower++
				}
				if strings.Contains(m[1], "/") {
					slash++
				}
			}
		}
		return 2*lower > n, 2*slash > n, float64(n) >= stylePart*float64(len(subjects))
	}
	if small, _, yes := enough(conventional); yes {
		return Style{Pattern: kindOf(title, paths) + ": {title}", Lower: small}
	}
	small, deep, yes := enough(byPlace)
	place := commonDir(paths)
	if !deep {
		place = path.Base(place)
	}
	// An agent may give a directory a name that mentions or closes something.
	if !yes || place == "." || strings.ContainsAny(place, "{}") || quote.Plain(place) != place {
		return Style{}
	}
	return Style{Pattern: place + ": {title}", Lower: small}
}

var begins = regexp.MustCompile(`(?i)^(add|allow|support|implement|introduce|provide|enable|offer|new)\b`)

// kindOf is the type of a conventional commit, as far as paths and title tell it.
func kindOf(title string, paths []string) string {
	all := func(is func(string) bool) bool {
		return len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool { return !is(p) })
	}
	switch {
	case all(func(p string) bool { return strings.HasPrefix(p, "docs/") || strings.HasSuffix(p, ".md") }):
		return "docs"
	case all(func(p string) bool { return strings.HasPrefix(p, ".github/workflows/") }):
		return "ci"
	case all(func(p string) bool {
		return strings.Contains(p, "_test.") || strings.Contains(p, ".test.") || strings.HasPrefix(p, "test/") || strings.HasPrefix(p, "tests/")
	}):
		return "test"
	case begins.MatchString(title):
		return "feat"
	}
	return "fix"
}

func commonDir(paths []string) string {
	if len(paths) == 0 {
		return "."
	}
	dir := path.Dir(paths[0])
	for _, p := range paths[1:] {
		for dir != "." && !strings.HasPrefix(p, dir+"/") {
			dir = path.Dir(dir)
		}
	}
	return dir
}

// StyleFor finds a style with which the message meets the rules on messages; none is the zero one, and Unmet says what is wrong.
func (r Rules) StyleFor(req Request) Style {
	binds := func(rule Rule) bool { return rule.Type == "commit_message_pattern" }
	rules := slices.DeleteFunc(slices.Concat(r.Base, r.Own), func(rule Rule) bool { return !binds(rule) })
	if len(rules) == 0 {
		return Style{}
	}
	kind := kindOf(req.Title, nil)
	patterns := []string{"", kind + ": {title}", "fix: {title}", "feat: {title}", "chore: {title}", "#{issue}: {title}", "#{issue} {title}", "[#{issue}] {title}", "{title} (#{issue})"}
	for _, rule := range rules {
		if p := rule.Parameters.Pattern; rule.Parameters.Operator == "starts_with" && !strings.ContainsAny(p, "{}\n") {
			patterns = append(patterns, p+"{title}", p+" {title}")
		}
	}
	for _, lower := range []bool{false, true} {
		for _, p := range patterns {
			req.Style = Style{Pattern: p, Lower: lower}
			if len((Rules{Base: rules}).Unmet(req)) == 0 {
				return req.Style
			}
		}
	}
	return Style{}
}

// Subjects are the first lines of the latest commits below one, the newest first. In a store without history there is one.
func (r Stored) Subjects(ctx context.Context, commit string) ([]string, error) {
	out, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"log", "--no-merges", "--no-show-signature", "--no-notes", "--no-color",
		"--encoding=UTF-8", "-z", fmt.Sprintf("--max-count=%d", styleFrom), "--format=%s", commit}})
	if err != nil {
		return nil, fmt.Errorf("history of %.7s: %w", commit, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// StyleOf is the style of the history below a commit, for some changes.
func (r Stored) StyleOf(ctx context.Context, commit, title string, changes []sandbox.Change) (Style, error) {
	subjects, err := r.Subjects(ctx, commit)
	if err != nil {
		return Style{}, err
	}
	var paths []string
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return StyleOf(subjects, title, paths), nil
}
