package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// A page of figures has a part for each comparison that is written by a run of its own. The marks are comments, which are not
// shown.
func marks(name string) (begin, end string) {
	return "<!-- begin: " + name + " -->\n", "<!-- end: " + name + " -->\n"
}

// writeSection puts a part of a page in its place, or at the end, and leaves the rest as it is.
func writeSection(file, name, text string) error {
	page, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, []byte(replaceSection(string(page), name, text)), 0o644)
}

func replaceSection(page, name, text string) string {
	begin, end := marks(name)
	text = begin + strings.TrimSpace(text) + "\n" + end
	before, rest, found := strings.Cut(page, begin)
	if !found {
		return strings.TrimLeft(strings.TrimRight(page, "\n")+"\n\n"+text, "\n")
	}
	_, after, _ := strings.Cut(rest, end)
	return before + text + after
}
