package promote

import (
	"errors"
	"regexp"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// refusal reads why the remote did not take a push; nil when the error is of another kind.
func (p *publication) refusal(err error) *ErrRefused {
	var failed *git.Error
	if !errors.As(err, &failed) || errors.Is(err, git.ErrStale) {
		return nil
	}
	r := readRefusal(failed.Stderr)
	if r == nil && errors.Is(err, git.ErrRefused) {
		r = &ErrRefused{Reason: "the repository refused the push: " + failed.Reason()}
	}
	if r == nil {
		return nil
	}
	r.Reason, r.Err = oneLine(r.Reason, p.Redact), err
	return r
}

var (
	workflowRefused = regexp.MustCompile("refusing to allow .* to create or update workflow `([^`]*)` without `workflows?` (?:permission|scope)")
	deniedTo        = regexp.MustCompile(`Permission to \S+ denied to \S+`)
	tooLarge        = regexp.MustCompile(`File (\S+) is ([0-9.]+ MB); this exceeds`)
)

// readRefusal knows what GitHub says through git: codes GH001 (large files), GH006 (branch protection), GH008 (Git LFS), GH009 and GH013
// (rulesets, push protection), and the sentences about permissions and archived repositories.
func readRefusal(stderr string) *ErrRefused {
	said := remoteLines(stderr)
	all := strings.Join(said, "\n")
	if m := workflowRefused.FindStringSubmatch(stderr); m != nil {
		return &ErrRefused{Reason: "the App may not change workflow files such as " + m[1], Missing: "workflows: write", Paths: []string{m[1]}}
	}
	if m := tooLarge.FindStringSubmatch(all); m != nil {
		return &ErrRefused{Reason: "the file " + m[1] + " is " + m[2] + ", more than GitHub takes", Paths: []string{m[1]}}
	}
	switch {
	case strings.Contains(all, "archived so it is read-only"):
		return &ErrRefused{Reason: "the repository is archived"}
	case deniedTo.MatchString(all):
		return &ErrRefused{Reason: "the App may not push to this repository", Missing: "contents: write"}
	case strings.Contains(all, "GH008"):
		return &ErrRefused{Reason: "Git LFS: " + sentences(said, "Try to push")}
	case strings.Contains(all, "GH006"):
		return &ErrRefused{Reason: "branch protection: " + sentences(said, "GH006")}
	case strings.Contains(all, "GH013"), strings.Contains(all, "GH009"):
		return &ErrRefused{Reason: "repository rules: " + sentences(said, "GH013", "GH009", "Review all repository rules")}
	}
	return nil
}

// remoteLines are the lines that came from the server, without git's own mark on them.
func remoteLines(stderr string) []string {
	var lines []string
	for line := range strings.Lines(stderr) {
		if rest, ok := strings.CutPrefix(line, "remote:"); ok {
			rest = strings.TrimPrefix(strings.TrimSpace(rest), "error: ")
			if rest = strings.Trim(rest, "- —\t"); rest != "" {
				lines = append(lines, rest)
			}
		}
	}
	return lines
}

// sentences are what is said beside the headings, at most the first six lines of it.
func sentences(lines []string, headings ...string) string {
	var out []string
next:
	for _, l := range lines {
		for _, h := range headings {
			if strings.Contains(l, h) {
				continue next
			}
		}
		if out = append(out, strings.TrimSuffix(l, ".")); len(out) == 6 {
			break
		}
	}
	if len(out) == 0 {
		return "the push was declined"
	}
	return strings.Join(out, "; ")
}
