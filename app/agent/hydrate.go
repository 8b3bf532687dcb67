package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Inside is where the hydrated directory is seen in a sandbox.
const Inside = "/sandpiper"

// Bounds of what one agent is given, in bytes.
const (
	maxText  = 64 << 10  // one text of an issue; GitHub takes 65,536 letters
	maxTexts = 512 << 10 // all comments together
	maxFile  = 256 << 10 // one file of the repository
	maxFiles = 8 << 20   // all of them
	mostRead = 500       // files
)

// Tree reads the base commit. Paths lists every entry that is no directory, submodules apart; Exists is true for regular files only.
type Tree interface {
	Exists(path string) bool
	Read(path string) ([]byte, error)
	Paths() (files, submodules []string, err error)
}

// instructionFiles are what coding agents look for at the root of a repository.
func instructionFiles() []string {
	return []string{"AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md", ".cursorrules"}
}

// Hydrate writes into dir what the agent is given: prompt.md, task.md, instructions/, skills/, specs/, docs/ and receipt.json.
// Everything in dir is removed first, so it can run again after a crash and gives the same bytes; receipt.json comes last.
// The files are readable by all, since the agent may run under an identity of its own, and are to be mounted read-only.
func Hydrate(dir string, task Task, tree Tree, p *policy.Policy) (Receipt, error) {
	w, err := newWriter(dir)
	if err != nil {
		return Receipt{}, err
	}
	defer w.root.Close()
	text, items := task.render()
	if err := w.write("task.md", text); err != nil {
		return Receipt{}, err
	}
	r := Receipt{Items: items}
	if f := task.FollowUp; f != nil && f.Sides != nil {
		if items, err = f.Sides.write(w); err != nil {
			return Receipt{}, err
		}
		r.Items = append(r.Items, items...)
	}
	paths, submodules, err := tree.Paths()
	if err != nil {
		return Receipt{}, fmt.Errorf("files of the base: %w", err)
	}
	files := chosen(paths, p.Context)
	left := maxFiles
	for i, f := range files {
		item := Item{Kind: f.kind, Source: f.path}
		if i >= mostRead {
			item.Withheld = fmt.Sprintf("more than %d files were named", mostRead)
		} else if err := w.copy(tree, &item, &left); err != nil {
			return Receipt{}, err
		}
		r.Items = append(r.Items, item)
		if i >= mostRead+100 {
			r.Items = append(r.Items, Item{Kind: f.kind, Source: fmt.Sprintf("%d more files", len(files)-i-1), Withheld: item.Withheld})
			break
		}
	}
	r.Items = append(r.Items, unmatched(paths, p.Context)...)
	r.Items = append(r.Items, withheld(submodules)...)
	if err := w.write("prompt.md", prompt(task, r)); err != nil {
		return Receipt{}, err
	}
	data, err := json.MarshalIndent(r.forAgent(), "", "  ")
	if err != nil {
		return Receipt{}, fmt.Errorf("receipt: %w", err)
	}
	return r, w.write("receipt.json", string(data)+"\n")
}

type choice struct{ kind, path string }

// chosen lists the files to give, each once, under the first kind that names it.
func chosen(paths []string, c policy.Context) []choice {
	slices.Sort(paths)
	var out []choice
	seen := map[string]bool{}
	add := func(kind string, match func(string) bool) {
		for _, p := range paths {
			if !seen[p] && match(p) {
				seen[p] = true
				out = append(out, choice{kind, p})
			}
		}
	}
	add("instructions", func(p string) bool { return slices.Contains(instructionFiles(), p) })
	for _, k := range contextGlobs(c) {
		add(k.kind, func(p string) bool {
			return slices.ContainsFunc(k.globs, func(g string) bool { return sandbox.MatchPath(g, p) })
		})
	}
	return out
}

type globs struct {
	kind  string
	globs []string
}

func contextGlobs(c policy.Context) []globs {
	return []globs{{"skills", c.Skills}, {"specs", c.Specs}, {"docs", c.Docs}}
}

// unmatched says which paths of the policy name no file: a typing error would else be seen by nobody.
func unmatched(paths []string, c policy.Context) (items []Item) {
	for _, k := range contextGlobs(c) {
		for _, g := range k.globs {
			if !slices.ContainsFunc(paths, func(p string) bool { return sandbox.MatchPath(g, p) }) {
				items = append(items, Item{Kind: k.kind, Source: Line(g), Withheld: "the policy names it, and no file has such a path"})
			}
		}
	}
	return items
}

// withheld says of submodules that they are not there: their repositories are others, which no token of a mission can read.
func withheld(submodules []string) (items []Item) {
	const most, why = 20, "submodules are not fetched: the directory is empty"
	for i, path := range submodules {
		if i == most {
			return append(items, Item{Kind: "submodule", Source: fmt.Sprintf("%d more", len(submodules)-i), Withheld: why})
		}
		items = append(items, Item{Kind: "submodule", Source: Line(path), Withheld: why})
	}
	return items
}

// writer writes below one directory and nowhere else, whatever a path of the repository says.
type writer struct{ root *os.Root }

func newWriter(dir string) (*writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &writer{root: root}, nil
}

func (w *writer) write(name, text string) error {
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if err := w.root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
		if err := w.root.Chmod(parent, 0o755); err != nil { // whatever the umask
			return err
		}
	}
	if err := w.root.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	return w.root.Chmod(name, 0o444)
}

// copy gives one file of the repository as it is. Hidden letters in it are reported only: the workspace has it too.
func (w *writer) copy(tree Tree, item *Item, left *int) error {
	name := item.Source
	switch {
	case !plainPath(name):
		item.Source, item.Withheld = fmt.Sprintf("%q", name), "its name cannot be shown"
		return nil
	case !tree.Exists(name):
		item.Withheld = "it is no regular file"
		return nil
	}
	data, err := tree.Read(name)
	if err != nil {
		item.Withheld = "it cannot be read: " + Line(err.Error())
		return nil
	}
	text := string(data)
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		item.measure(text)
		item.Withheld = "it is no text"
		return nil
	}
	text, item.Cut = cut(text, maxFile)
	item.measure(text)
	if len(text) > *left {
		item.Withheld = fmt.Sprintf("the files together have more than %d bytes", maxFiles)
		return nil
	}
	*left -= len(text)
	_, item.Hidden = VisibleLine(text)
	for i := range item.Hidden {
		item.Hidden[i].Kept = true
	}
	item.File = path.Join(item.Kind, name)
	return w.write(item.File, text)
}

// plainPath takes names that can be a file below a directory and a line in a report.
func plainPath(name string) bool {
	return utf8.ValidString(name) && filepath.IsLocal(name) && path.Clean(name) == name &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// cut shortens a text to a number of bytes, at the border of a letter.
func cut(s string, limit int) (string, int) {
	if len(s) <= limit {
		return s, 0
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end], len(s) - end
}
