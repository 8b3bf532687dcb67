// Package gates looks at exactly what would become a pull request and says what a person has to decide about it: paths that
// steer people's machines, what cannot be reviewed, what must not be published, and what happened at the boundary.
//
// A gate reports evidence and no opinion on whether the change is right. What follows from its level (no pull request, a
// draft, a note) is for the caller. The package reads contents that it is given as data; it must not run git, call
// anybody, or repeat the value of a secret in what it says.
package gates

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Level is what follows when a gate finds something.
type Level string

// The levels, from the mildest.
const (
	Note  Level = "note"  // it is shown
	Draft Level = "draft" // the pull request is a draft until a person allows it
	Block Level = "block" // there is no pull request until a person allows it
)

// Gate is one question, with what follows where a policy does not say.
type Gate struct {
	Name    string
	Asks    string // for people
	Default Level
	Fixed   bool // a policy cannot set its level: GitHub would refuse the change
}

// The names of the gates that a caller has to do with.
const (
	Workflows = "workflows"
	LostLines = "lost-lines"
)

// All are the gates in the order in which they are shown.
func All() []Gate {
	return []Gate{
		{Workflows, "does the App have the permission that the change needs?", Block, true},
		{"secrets", "does an added line hold something that looks like a credential?", Block, false},
		{"boundary", "did anything get out of the sandbox, or is that not known?", Block, false},
		{"symlinks", "does a symbolic link lead out of the repository?", Block, false},
		{"setuid", "was a file left with set-user-id or the like?", Block, false},
		{"lfs", "would a file of Git LFS come without its object?", Block, false},
		{LostLines, "does it take away lines that are newer than the run?", Draft, false},
		{"left-behind", "did the agent make something that a result cannot hold?", Draft, false},
		{"protected", "does it change a path that the policy protects?", Draft, false},
		{"dependencies", "does it change what is downloaded to build or run this?", Draft, false},
		{"hidden-text", "does an added line hold letters that a reader does not see?", Draft, false},
		{"conflict-markers", "does it hold what git writes where two sides conflict?", Draft, false},
		{"submodules", "does it move a submodule to another commit?", Draft, false},
		{"binaries", "does it add or change files that cannot be read as text?", Draft, false},
		{"size", "is it too large to be reviewed?", Draft, false},
	}
}

// Settable are the gates whose level a policy may set.
func Settable() []Gate {
	return slices.DeleteFunc(All(), func(g Gate) bool { return g.Fixed })
}

// Evidence is one thing that a gate found.
type Evidence struct {
	Path string `json:"path,omitempty"`
	Line int    `json:"line,omitempty"` // in the new file; 0: the file as a whole
	Text string `json:"text"`           // what it is, for people
}

// Result is what became of a gate.
type Result struct {
	Gate    string     `json:"gate"`
	Level   Level      `json:"level"`
	Found   []Evidence `json:"found,omitempty"`
	More    int        `json:"more,omitempty"`    // found beyond those
	Allowed string     `json:"allowed,omitempty"` // the person who said that it may be
}

// Holds says whether the gate keeps the change from being what a level says or worse.
func (r Result) Holds(l Level) bool {
	return len(r.Found) > 0 && r.Allowed == "" && rank(r.Level) >= rank(l)
}

func rank(l Level) int { return slices.Index([]Level{Note, Draft, Block}, l) }

// Input is what the gates look at.
type Input struct {
	Changes   []sandbox.Change
	Content   map[string][]byte                // of old and new blobs by their ids; those larger than ContentMost may be missing
	Read      func(path string) ([]byte, bool) // a file of the staged tree
	Protected func(path string) (glob string, ok bool)
	Secrets   func(path, text string) []Secret
	Findings  []sandbox.Finding
	Lost      []Evidence
	LFS       map[string]bool // files of Git LFS whose object is at GitHub, or comes with the change
	Workflows bool            // the App may change workflow files
}

// ContentMost is how many bytes of one file are looked at. A longer file is too large to be reviewed.
const ContentMost = 2 << 20

// evidenceMost is how much of one gate is named.
const evidenceMost = 50

// Run asks every gate. The levels are by name; a name that is missing has its default.
func Run(in Input, levels map[string]Level) []Result {
	asked := map[string]func(Input) []Evidence{
		Workflows: workflows, "secrets": secrets, "boundary": boundary, "symlinks": symlinks, "setuid": setuid, "lfs": lfs,
		LostLines: func(in Input) []Evidence { return in.Lost }, "left-behind": leftBehind, "protected": protected, "dependencies": dependencies,
		"hidden-text": hidden, "conflict-markers": unresolved, "submodules": submodules, "binaries": binaries, "size": size,
	}
	var results []Result
	for _, g := range All() {
		r := Result{Gate: g.Name, Level: cmp.Or(levels[g.Name], g.Default), Found: asked[g.Name](in)}
		if n := len(r.Found) - evidenceMost; n > 0 {
			r.Found, r.More = r.Found[:evidenceMost], n
		}
		results = append(results, r)
	}
	return results
}

// The most that a person can be asked to review at once. Studies of reviews find little after some hundred lines; these
// are far beyond that.
const (
	mostFiles = 200
	mostLines = 5000
	mostBytes = 1 << 20 // of one file
)

func size(in Input) (found []Evidence) {
	lines := 0
	for _, c := range in.Changes {
		lines += max(c.Added, 0) + max(c.Removed, 0)
		if c.Size > mostBytes {
			found = append(found, Evidence{Path: c.Path, Text: fmt.Sprintf("%d bytes; more than %d are not read by people", c.Size, mostBytes)})
		}
	}
	if len(in.Changes) > mostFiles {
		found = append(found, Evidence{Text: fmt.Sprintf("%d files; the limit is %d", len(in.Changes), mostFiles)})
	}
	if lines > mostLines {
		found = append(found, Evidence{Text: fmt.Sprintf("%d lines; the limit is %d", lines, mostLines)})
	}
	return found
}

func binaries(in Input) (found []Evidence) {
	for _, c := range in.Changes {
		if c.Added < 0 && c.Kind != sandbox.Deleted {
			found = append(found, Evidence{Path: c.Path, Text: fmt.Sprintf("a binary file of %d bytes", c.Size)})
		}
	}
	return found
}

// boundary counts what is not known as a breach.
func boundary(in Input) (found []Evidence) {
	for _, f := range in.Findings {
		if f.Outcome != "contained" {
			found = append(found, Evidence{Text: fmt.Sprintf("%s, %s, seen by the %s: %s: %s", f.Kind, f.Severity, f.Observer, f.Outcome, f.Evidence)})
		}
	}
	return found
}

// leftBehind is what was not collected, since it is too large, or its name or its place too long: the change may be none without it.
func leftBehind(in Input) (found []Evidence) {
	for _, f := range in.Findings {
		if f.Kind == "collect.limit" {
			found = append(found, Evidence{Text: "not in the result: " + f.Evidence})
		}
	}
	return found
}

func setuid(in Input) (found []Evidence) {
	for _, f := range in.Findings {
		if f.Kind == "fs.setuid" || f.Kind == "fs.capability" {
			found = append(found, Evidence{Text: f.Kind + ": " + f.Evidence})
		}
	}
	return found
}
