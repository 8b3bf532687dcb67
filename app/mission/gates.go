package mission

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/app/tree"
	"github.com/sandpiper-bot/sandpiper/checks"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// contentMost bounds the contents that gates look at, all together. What is beyond is far too large to be reviewed, which a
// gate says.
const contentMost = 64 << 20

// askGates holds what is offered to the gates of the policy.
func (e *Engine) askGates(ctx context.Context, m *store.Mission, stored promote.Stored, o *offer) error {
	p, err := policyOf(m)
	if err != nil {
		return err
	}
	changes, objects := o.contents()
	var ids []string
	room := int64(contentMost)
	for _, c := range changes {
		if room -= c.Size; room < 0 || c.NewMode == "160000" {
			continue
		}
		ids = append(ids, slices.DeleteFunc([]string{c.OldID, c.NewID}, func(id string) bool { return id == "" })...)
	}
	in := gates.Input{
		Changes: changes, LFS: objects, Protected: p.Protects, Read: func(string) ([]byte, bool) { return nil, false },
		Secrets: func(_, text string) []gates.Secret { return gates.FindSecrets(text) },
	}
	in.Workflows = isFork(m) // what is suggested is not pushed by the App
	if in.Content, err = stored.Blobs(ctx, ids, gates.ContentMost); err != nil {
		return err
	}
	files, err := tree.Open(e.Git.Dir(storeKey(m.RepositoryID)), o.Commit)
	if err != nil {
		return err
	}
	in.Read = func(name string) ([]byte, bool) {
		text, err := files.Read(path.Clean(name))
		return text, err == nil
	}
	if in.Findings, err = e.Store.Findings(ctx, m.Run); err != nil {
		return err
	}
	for _, l := range o.Lost {
		in.Lost = append(in.Lost, gates.Evidence{Path: l.Path, Text: fmt.Sprintf("line %d of the base is gone: %s", l.Line, l.Text)})
	}
	o.Gates = gates.Run(in, p.Gates)
	for i := range o.Gates {
		for j := range o.Gates[i].Found {
			o.Gates[i].Found[j].Text = e.Redact(o.Gates[i].Found[j].Text)
		}
	}
	return nil
}

// contents are the changes as they would be without Git LFS, since what counts are contents and not pointers to them, and the
// files whose objects come or are there. What one of several commits brings and a later one takes away is pushed all the same.
func (o offer) contents() (changes []sandbox.Change, objects map[string]bool) {
	objects = map[string]bool{}
	real := map[string]sandbox.Change{}
	for _, f := range o.LFS {
		objects[f.Content.Path], real[f.Content.Path] = true, f.Content
	}
	for _, c := range o.Changes {
		if content, ok := real[c.Path]; ok {
			c = content
		}
		changes = append(changes, c)
	}
	last := map[string]bool{}
	for _, c := range o.Changes {
		last[c.Path+"\x00"+c.NewID] = true
	}
	for _, s := range o.Steps {
		for _, c := range s.Changes {
			if c.Kind != sandbox.Deleted && !last[c.Path+"\x00"+c.NewID] {
				changes = append(changes, c)
			}
		}
	}
	return changes, objects
}

// because says which gate holds and what it found first.
func because(g gates.Result) string {
	e := g.Found[0]
	text := "gate " + g.Gate + ": "
	switch {
	case e.Line > 0:
		text += fmt.Sprintf("%q line %d ", e.Path, e.Line)
	case e.Path != "":
		text += fmt.Sprintf("%q ", e.Path)
	}
	text += e.Text
	if n := len(g.Found) - 1 + g.More; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// gatesResult is what the gates found, as a Check Run shows it.
func (e *Engine) gatesResult(o offer, run *store.Run) checks.Result {
	r := checks.Result{
		Check:      checks.Check{Name: "gates", Required: true},
		Conclusion: checks.Success, Summary: "nothing that a person has to decide", Started: run.CreatedAt, Completed: e.Now(),
	}
	var reasons, log []string
	for _, g := range o.Gates {
		log = append(log, fmt.Sprintf("%s (%s): %s", g.Gate, g.Level, stateOf(g)))
		for _, f := range g.Found {
			log = append(log, "  "+placeOf(f)+f.Text)
			if exists := slices.ContainsFunc(o.Changes, func(c sandbox.Change) bool { return c.Path == f.Path && c.Kind != sandbox.Deleted }); exists {
				r.Annotations = append(r.Annotations, annotation(g, f))
			}
		}
		if len(g.Found) > 0 && g.Allowed == "" {
			reasons = append(reasons, because(g))
			if r.Conclusion == checks.Success {
				r.Conclusion = checks.Neutral
			}
			if g.Holds(gates.Draft) {
				r.Conclusion, r.Hint = checks.Failure, gatesHint
			}
		}
	}
	if len(reasons) > 0 {
		r.Summary = strings.Join(reasons, "; ")
	}
	r.LogTail = strings.Join(log, "\n")
	return r
}

// gatesHint is what to do about gates that hold.
const gatesHint = "People with write access decide: `/sandpiper allow GATE` in a comment lets what one has found pass, for exactly this change; `/sandpiper drop PATH…` leaves it out; " +
	"`/sandpiper fix [words]` has it made anew. Until then the pull request is a draft."

// placeOf is where something was found, as it stands before what was.
func placeOf(f gates.Evidence) string {
	switch {
	case f.Path == "":
		return ""
	case f.Line == 0:
		return f.Path + ": "
	}
	return fmt.Sprintf("%s:%d: ", f.Path, f.Line)
}

func stateOf(g gates.Result) string {
	switch {
	case len(g.Found) == 0:
		return "found nothing"
	case g.Allowed != "":
		return fmt.Sprintf("%d found, allowed by %s", len(g.Found)+g.More, g.Allowed)
	}
	return fmt.Sprintf("%d found", len(g.Found)+g.More)
}

func annotation(g gates.Result, f gates.Evidence) *github.CheckRunAnnotation {
	level := map[gates.Level]string{gates.Note: "notice", gates.Draft: "warning", gates.Block: "failure"}[g.Level]
	line := max(f.Line, 1)
	return &github.CheckRunAnnotation{
		Path: github.String(f.Path), StartLine: &line, EndLine: &line, AnnotationLevel: &level,
		Title: github.String("gate " + g.Gate), Message: github.String(f.Text),
	}
}
