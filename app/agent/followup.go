package agent

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// FollowUp is what a further round of work on an open pull request is about. The workspace is the pull request's head then, or the
// newest commit of the base branch, if there are Sides.
type FollowUp struct {
	Round   int // from 2
	Pull    int
	Head    string
	Asked   []Request // oldest first
	Threads []Thread
	Checks  []FailedCheck
	Sides   *Sides
}

// Sides is a pull request that does not merge with its base branch. They lie in files beside the workspace.
type Sides struct {
	Branch, Base string            // of the repository; the workspace is at Base
	Patch        string            // of the pull request
	Files        map[string][]byte // that conflict, with marks around each side
}

// patchFile and sidesDir are where they lie below the directory of what the agent is given.
const (
	patchFile = "sides/pull-request.patch"
	sidesDir  = "sides/conflicts"
)

// place is where a file lies. Where the two sides have a file and a directory of one name, both conflict; the file gets another.
func (s *Sides) place(name string) string {
	at := name
	taken := func(other string) bool { return strings.HasPrefix(other, at+"/") || other == at && other != name }
	for slices.ContainsFunc(slices.Collect(maps.Keys(s.Files)), taken) {
		at += "~"
	}
	return path.Join(sidesDir, at)
}

// write lays the sides down, and lists them.
func (s *Sides) write(w *writer) (items []Item, err error) {
	patch := Item{Kind: "sides", Source: "the pull request as a patch", File: patchFile}
	patch.measure(s.Patch)
	if err := w.write(patchFile, s.Patch); err != nil {
		return nil, err
	}
	items = append(items, patch)
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		item := Item{Kind: "sides", Source: name, File: s.place(name)}
		item.measure(string(s.Files[name]))
		switch {
		case !plainPath(name):
			item.Source, item.File, item.Withheld = fmt.Sprintf("%q", name), "", "its name cannot be shown"
		case s.Files[name] == nil:
			item.File, item.Withheld = "", "it is too large"
		default:
			err = w.write(item.File, string(s.Files[name]))
		}
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// render says what is to be done with the sides.
func (s *Sides) render(w io.Writer) {
	fmt.Fprintf(w, "## It does not merge\n\nThe branch %s has moved. The workspace is its newest commit, %.12s, without the pull request. Bring the pull request's change into it, so that both sides keep their meaning.\n\n- %s/%s is its change as a patch.\n", Line(s.Branch), s.Base, Inside, patchFile)
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if s.Files[name] == nil || !plainPath(name) {
			fmt.Fprintf(w, "- %s is in conflict, and is not given.\n", Line(name))
			continue
		}
		fmt.Fprintf(w, "- %s/%s is in conflict: the first part of each mark is the branch, then what both came from, then the pull request.\n", Inside, Line(s.place(name)))
	}
	fmt.Fprintln(w)
}

// Request is one person's wish for the round: a command with words, or a review with its text.
type Request struct {
	By   Person
	Text string // may be empty: then the threads say it
	URL  string
	At   time.Time
}

// Thread is a conversation on lines of the pull request.
type Thread struct {
	Path     string
	Line     int // 0: the file as a whole
	Hunk     string
	Outdated bool // the lines have changed since
	Comments []Comment
}

// FailedCheck is a check that did not pass on the pull request's head.
type FailedCheck struct {
	Name, Command, Summary string
	Log                    string // its end
	By                     string // the App that ran it; empty: Sandpiper
}

// late says why a comment on lines is not given. Who asked for the round may have written until it began; what others wrote after
// that has not been seen by those who asked.
func (f *FollowUp) late(c Comment) string {
	if c.Withhold != "" {
		return c.Withhold
	}
	if len(f.Asked) == 0 || slices.ContainsFunc(f.Asked, func(r Request) bool { return r.By.Login == c.Author.Login }) {
		return ""
	}
	last := f.Asked[len(f.Asked)-1].At
	if c.CreatedAt.After(last) || c.UpdatedAt.After(last) {
		return "written or edited after the round was asked for"
	}
	return ""
}

// texts are all texts of others in it, for the mark that stands around each.
func (f *FollowUp) texts() (all []string) {
	if f == nil {
		return nil
	}
	for _, r := range f.Asked {
		all = append(all, r.Text)
	}
	for _, t := range f.Threads {
		all = append(all, t.Path, t.Hunk)
		for _, c := range t.Comments {
			all = append(all, c.Body)
		}
	}
	for _, c := range f.Checks {
		all = append(all, c.Name, c.Command, c.Summary, c.Log)
	}
	return all
}

// render writes the round below the task. block writes one text of others between its marks; withheld notes one that is not given.
func (f *FollowUp) render(w io.Writer, block func(item Item, heading, text string), withheld func(Item)) {
	fmt.Fprintf(w, "# Round %d, on pull request #%d\n\nThe work above has led to pull request #%[2]d. Its head is %.12s. This round is about what follows; what is right already is to stay.\n\n", f.Round, f.Pull, f.Head)
	if f.Sides != nil {
		f.Sides.render(w)
	}
	for _, r := range f.Asked {
		item := Item{Kind: "request", Source: r.URL, Author: r.By.Login, Standing: r.By.Standing}
		block(item, "## Asked for by "+r.By.String(), r.Text)
	}
	left := maxTexts
	for i, t := range f.Threads {
		fmt.Fprintf(w, "## Review thread %d\n\n", i+1)
		at := Line(t.Path)
		if t.Line > 0 {
			at += fmt.Sprintf(", line %d", t.Line)
		}
		if t.Outdated {
			at += ", of an older commit: the lines have changed since"
		}
		url := ""
		if len(t.Comments) > 0 {
			url = t.Comments[0].URL
		}
		block(Item{Kind: "hunk", Source: url}, "On "+at+":", t.Hunk)
		for _, c := range t.Comments {
			item := Item{Kind: "thread", Source: c.URL, Author: c.Author.Login, Standing: c.Author.Standing}
			item.Withheld = f.late(c)
			if left -= min(len(c.Body), maxText); left < 0 {
				item.Withheld = fmt.Sprintf("the threads together have more than %d bytes", maxTexts)
			}
			if item.Withheld != "" {
				item.measure(c.Body)
				withheld(item)
				continue
			}
			block(item, "Comment by "+c.Author.String()+":", c.Body)
		}
	}
	for _, c := range f.Checks {
		by := ""
		if c.By != "" {
			by = ", run by " + Line(c.By)
		}
		block(Item{Kind: "check", Source: Line(c.Name)}, "## Check "+Line(c.Name)+" did not pass"+by, strings.TrimSpace(c.Command+"\n"+c.Summary+"\n\n"+c.Log))
	}
}
