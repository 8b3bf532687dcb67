package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// hunk is one piece of a modified text file: which lines of the old content become which lines of the new one. Lines count
// from 0.
type hunk struct{ oldAt, oldLines, newAt, newLines int }

// piecesMost bounds files of which pieces are taken: both contents are held in memory.
const piecesMost = 16 << 20

// selected gives the changes that a selection takes. One of which it takes pieces is what these make of the old file.
// ErrSelection when a piece is named that is not there.
func (m *Manager) selected(ctx context.Context, key, base, result string, all []Change, sel Selection) ([]Change, error) {
	named := map[string][]part{}
	for _, p := range sel.parts() {
		named[p.path] = append(named[p.path], p)
	}
	var taken []Change
	for _, c := range all {
		parts := named[c.Path]
		delete(named, c.Path)
		if !sel.Takes(c.Path) {
			continue
		}
		if len(parts) == 0 {
			taken = append(taken, c)
			continue
		}
		cut, err := m.cut(ctx, key, base, result, c, parts, sel)
		if err != nil {
			return nil, err
		}
		if cut.NewID != cut.OldID || cut.NewMode != cut.OldMode {
			taken = append(taken, cut)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(named)) {
		return nil, &ErrSelection{named[path][0].entry, "the file did not change"}
	}
	return taken, nil
}

// cut makes the content and the mode of a file of which pieces are taken.
func (m *Manager) cut(ctx context.Context, key, base, result string, c Change, parts []part, sel Selection) (Change, error) {
	if c.Kind != Modified || c.OldMode == "120000" || c.OldMode == "160000" {
		return c, &ErrSelection{parts[0].entry, fmt.Sprintf("the file was %s: only of modified text files can pieces be taken", c.Kind)}
	}
	hunks, err := m.hunks(ctx, key, base, result, c)
	if err != nil {
		return c, err
	}
	for _, p := range parts {
		if reason := p.missing(len(hunks), c.OldMode != c.NewMode); reason != "" {
			return c, &ErrSelection{p.entry, reason}
		}
	}
	if !sel.takesPiece(c.Path, modePiece) {
		c.NewMode = c.OldMode
	}
	var chosen []hunk
	for i, h := range hunks {
		if sel.takesPiece(c.Path, i+1) {
			chosen = append(chosen, h)
		}
	}
	switch len(chosen) {
	case len(hunks):
		return c, nil
	case 0:
		c.NewID = c.OldID
		return c, nil
	}
	was, is, err := m.both(ctx, key, c, parts[0].entry)
	if err != nil {
		return c, err
	}
	text, err := splice(was, is, chosen)
	if err != nil {
		return c, fmt.Errorf("hunks of %q: %w", c.Path, err)
	}
	out, err := m.cfg.Stores.Run(ctx, key, git.Call{Args: []string{"hash-object", "-w", "--stdin"}, Stdin: bytes.NewReader(text)})
	c.NewID = strings.TrimSpace(string(out))
	return c, err
}

// missing says which piece of a part is not there; empty: all are.
func (p part) missing(hunks int, mode bool) string {
	for _, piece := range p.pieces {
		switch {
		case piece[0] == modePiece && !mode:
			return "its mode did not change"
		case piece[0] > piece[1]:
			return fmt.Sprintf("%d-%d runs backwards", piece[0], piece[1])
		case piece[1] > hunks && hunks == 0:
			return "it has no hunks: it is not text, or only its mode changed"
		case piece[1] > hunks:
			return fmt.Sprintf("there is no hunk %d; the last one is %d", piece[1], hunks)
		}
	}
	return ""
}

// diffForm is how hunks are made, for people to see and to be taken: the numbers must be the same.
var diffForm = []string{"-r", "-p", "-U3", "--inter-hunk-context=0", "--diff-algorithm=myers", "--no-ext-diff", "--no-textconv", "--no-color"}

var hunkHead = regexp.MustCompile(`(?m)^@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@`)

// hunks reads them off git's own diff; none for a binary file.
func (m *Manager) hunks(ctx context.Context, key, base, result string, c Change) (list []hunk, err error) {
	args := append(append([]string{"diff-tree"}, diffForm...), "--no-renames", base, result, "--", c.Path)
	out, err := m.cfg.Stores.Read(ctx, key, git.Call{Args: args, Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
	if err != nil {
		return nil, fmt.Errorf("hunks of %q: %w", c.Path, err)
	}
	for _, head := range hunkHead.FindAllSubmatch(out, -1) {
		var h hunk
		h.oldAt, h.oldLines = span(head[1], head[2])
		h.newAt, h.newLines = span(head[3], head[4])
		list = append(list, h)
	}
	return list, nil
}

// span reads "12,3" or "12", which is one line. Of no lines, git names the line before them.
func span(at, lines []byte) (from, n int) {
	from, _ = strconv.Atoi(string(at)) // digits, as matched; what is out of range splice finds
	n = 1
	if lines != nil {
		n, _ = strconv.Atoi(string(lines))
	}
	if n > 0 {
		from--
	}
	return from, n
}

// both reads the old and the new content.
func (m *Manager) both(ctx context.Context, key string, c Change, entry string) (was, is []byte, err error) {
	if c.Size > piecesMost {
		return nil, nil, &ErrSelection{entry, fmt.Sprintf("the file has %d bytes; pieces are taken of up to %d", c.Size, piecesMost)}
	}
	if was, err = m.cfg.Stores.Read(ctx, key, git.Call{Args: []string{"cat-file", "blob", c.OldID}}); err != nil {
		return nil, nil, fmt.Errorf("old content of %q: %w", c.Path, err)
	}
	if is, err = m.cfg.Stores.Read(ctx, key, git.Call{Args: []string{"cat-file", "blob", c.NewID}}); err != nil {
		return nil, nil, fmt.Errorf("new content of %q: %w", c.Path, err)
	}
	return was, is, nil
}

// splice makes the old content with some hunks of the new one in it. Bytes are copied by whole lines, so that line ends, and
// a last line without one, stay what they are on the side that they are taken from. That is what git apply makes of a patch
// with these hunks.
func splice(was, is []byte, chosen []hunk) ([]byte, error) {
	before, after := bytes.SplitAfter(was, []byte("\n")), bytes.SplitAfter(is, []byte("\n"))
	var text []byte
	at := 0
	for _, h := range chosen {
		if h.oldAt < at || h.oldAt+h.oldLines > len(before) || h.newAt+h.newLines > len(after) {
			return nil, errors.New("they are not of these contents")
		}
		text = append(text, bytes.Join(before[at:h.oldAt], nil)...)
		text = append(text, bytes.Join(after[h.newAt:h.newAt+h.newLines], nil)...)
		at = h.oldAt + h.oldLines
	}
	return append(text, bytes.Join(before[at:], nil)...), nil
}

// NumberHunks is a writer for a patch that writes on the numbers by which a Selection names hunks. They are only of files of
// which pieces can be taken. What ends without a newline is written by Close.
func NumberHunks(w io.Writer) io.WriteCloser { return &numberer{w: w} }

type numberer struct {
	w    io.Writer
	line []byte // the beginning of one that may have to be looked at
	pass bool   // the rest of the present line is not
	n    int    // hunks of the present file; -1: it has no pieces
}

func (n *numberer) Write(p []byte) (int, error) {
	all := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		some := p[:max(end, 0)]
		if end == 0 {
			some = p
		}
		p = p[len(some):]
		if len(n.line) == 0 && !n.pass {
			n.pass = !strings.ContainsRune("@dnrs", rune(some[0])) // all else is content
		}
		if !n.pass {
			n.line = append(n.line, some...)
			if end == 0 {
				continue
			}
			some, n.line = n.look(n.line), nil
		}
		n.pass = n.pass && end == 0
		if _, err := n.w.Write(some); err != nil {
			return 0, err
		}
	}
	return all, nil
}

// look knows the lines of a patch that are not content; content begins with a space, +, - or \.
func (n *numberer) look(line []byte) []byte {
	text := string(line)
	switch {
	case strings.HasPrefix(text, "diff --git "):
		n.n = 0
	case strings.HasPrefix(text, "new file mode "), strings.HasPrefix(text, "deleted file mode "), strings.HasPrefix(text, "rename from "):
		n.n = -1
	case n.n >= 0 && hunkHead.Match(line):
		n.n++
		at := hunkHead.FindIndex(line)[1]
		return fmt.Appendf(nil, "%s hunk %d%s", line[:at], n.n, line[at:])
	}
	return line
}

func (n *numberer) Close() error {
	_, err := n.w.Write(n.line)
	return err
}
