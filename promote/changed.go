package promote

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

func (p *publication) changed(w *page) {
	m := p.result.Manifest
	added, removed := 0, 0
	for _, c := range m.Changes {
		added, removed = added+max(c.Added, 0), removed+max(c.Removed, 0)
	}
	w.printf("\n### What changed\n\n%s, +%d −%d lines.\n\n| file | change | + | − |\n| --- | --- | ---: | ---: |\n", plural(len(m.Changes), "file"), added, removed)
	for i, c := range m.Changes {
		if i == w.rows {
			break
		}
		name := w.path(c.Path)
		if c.From != "" {
			name = w.path(c.From) + " → " + name
		}
		w.printf("| %s | %s%s | %s | %s |\n", name, c.Kind, modes(c), count(c.Added), count(c.Removed))
	}
	w.more(len(m.Changes), "files")
	w.objects(p.req.Staged.LFS)
	w.steps(p.req.Staged.Steps)
	w.leftOut(m)
}

// steps are the commits that it comes in.
func (w *page) steps(list []Step) {
	if len(list) == 0 {
		return
	}
	w.printf("\nIn %s, with the agent's words:\n\n", plural(len(list), "commit"))
	for _, s := range list {
		subject, _, _ := strings.Cut(s.Message, "\n")
		w.printf("- %s (%s)\n", w.text(subject), plural(len(s.Changes), "file"))
	}
}

// objects are files of which the diff shows a pointer.
func (w *page) objects(list []LFSObject) {
	if len(list) == 0 {
		return
	}
	w.printf("\nThese are in Git LFS, and the diff shows pointers to them:\n\n")
	for i, o := range list {
		if i == w.rows {
			break
		}
		how := "uploaded with this"
		if o.There {
			how = "already at GitHub"
		}
		w.printf("- %s (%d bytes, %s)\n", w.path(o.Content.Path), o.Size, how)
	}
	w.more(len(list), "objects")
}

// leftOut is what the sandbox has changed and this does not show.
func (w *page) leftOut(m Manifest) {
	if len(m.LeftOut) == 0 {
		return
	}
	shown := map[string]bool{}
	for _, c := range m.Changes {
		shown[c.Path] = true
	}
	w.printf("\nChanged in the sandbox and left out of this pull request%s:\n\n", w.selection(m.Selection))
	for i, c := range m.LeftOut {
		if i == w.rows {
			break
		}
		if shown[c.Path] {
			w.printf("- %s (in part: +%s −%s lines)\n", w.path(c.Path), count(c.Added), count(c.Removed))
		} else {
			w.printf("- %s (%s)\n", w.path(c.Path), c.Kind)
		}
	}
	w.more(len(m.LeftOut), "files left out")
}

// selection says in words what was selected.
func (w *page) selection(s sandbox.Selection) string {
	list := func(entries []string) string {
		var cells []string
		for _, entry := range entries[:min(len(entries), 20)] {
			cells = append(cells, w.path(entry))
		}
		if more := len(entries) - len(cells); more > 0 {
			cells = append(cells, fmt.Sprintf("%d more", more))
		}
		return strings.Join(cells, ", ")
	}
	var parts []string
	if len(s.Only) > 0 {
		parts = append(parts, "only "+list(s.Only)+" was taken")
	}
	if len(s.Drop) > 0 {
		parts = append(parts, list(s.Drop)+" was dropped")
	}
	if len(parts) == 0 {
		return ""
	}
	return ", since " + strings.Join(parts, " and ")
}

// modes says what a file is that is no ordinary one, or is another kind of file than before.
func modes(c sandbox.Change) string {
	now := mode(cmp.Or(c.NewMode, c.OldMode))
	switch {
	case c.OldMode != "" && c.NewMode != "" && c.OldMode != c.NewMode:
		return ", " + mode(c.OldMode) + " → " + now
	case now == "file" || now == "":
		return ""
	}
	return ", " + now
}

// mode is git's mode in words.
func mode(m string) string {
	switch m {
	case "100644":
		return "file"
	case "100755":
		return "executable"
	case "120000":
		return "symbolic link"
	case "160000":
		return "submodule"
	}
	return m
}

func count(n int) string {
	if n < 0 {
		return "binary"
	}
	return fmt.Sprint(n)
}
