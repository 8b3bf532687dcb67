package collect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/fastimport"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// modeTree is the mode of a directory in git's trees.
const modeTree = "040000"

// node is an entry of a tree of git.
type node struct{ mode, id string }

// trees reads the trees of one commit, and of them only those that are asked for, through one git process.
type trees struct {
	ask    *io.PipeWriter
	answer *bufio.Reader
	done   chan error
	commit baseCommit
	known  map[string]map[string]node
}

// baseCommit is what is to be known of a commit.
type baseCommit struct {
	tree string
	when time.Time // of the committer
}

// parseCommit reads a commit object: lines of "name value", then an empty one.
func parseCommit(data []byte) (c baseCommit, err error) {
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			break
		}
		switch {
		case words[0] == "tree" && len(words) == 2:
			c.tree = words[1]
		case words[0] == "committer" && len(words) > 2:
			var seconds int64
			if seconds, err = strconv.ParseInt(words[len(words)-2], 10, 64); err != nil {
				return c, fmt.Errorf("time of the base: %w", err)
			}
			c.when = time.Unix(seconds, 0)
		}
	}
	if c.tree == "" || c.when.IsZero() {
		return c, fmt.Errorf("commit of the base: %w", git.ErrCorrupt)
	}
	return c, nil
}

// openTrees starts the process, which close ends, and reads the commit.
func openTrees(ctx context.Context, store fastimport.Runner, commit string) (*trees, error) {
	askR, askW := io.Pipe()
	answerR, answerW := io.Pipe()
	t := &trees{ask: askW, answer: bufio.NewReader(answerR), done: make(chan error, 1), known: map[string]map[string]node{}}
	go func() {
		_, err := store(ctx, git.Call{Args: []string{"cat-file", "--batch"}, Stdin: askR, Stdout: answerW})
		askR.CloseWithError(errors.Join(io.ErrClosedPipe, err))
		answerW.CloseWithError(errors.Join(io.ErrUnexpectedEOF, err))
		t.done <- err
	}()
	data, err := t.object(commit, "commit")
	if err == nil {
		t.commit, err = parseCommit(data)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("base: %w", err), t.close())
	}
	return t, nil
}

func (t *trees) close() error {
	t.ask.Close()
	return <-t.done
}

// get gives what the commit has at a path; the zero node when there is nothing.
func (t *trees) get(p string) (node, error) {
	if p == "" {
		return node{modeTree, t.commit.tree}, nil
	}
	dir, name := path.Split(p)
	in, err := t.dir(strings.TrimSuffix(dir, "/"))
	return in[name], err
}

// dir gives the entries of a directory of the commit; nil when there is none.
func (t *trees) dir(p string) (map[string]node, error) {
	if in, ok := t.known[p]; ok {
		return in, nil
	}
	n, err := t.get(p)
	if err != nil {
		return nil, err
	}
	var in map[string]node
	if n.mode == modeTree {
		if in, err = t.read(n.id); err != nil {
			return nil, fmt.Errorf("base: directory %q: %w", p, err)
		}
	}
	t.known[p] = in
	return in, nil
}

// walk visits every file below a directory of the commit.
func (t *trees) walk(p string, visit func(path string, n node) error) error {
	in, err := t.dir(p)
	if err != nil {
		return err
	}
	for name, n := range in {
		at := path.Join(p, name)
		if n.mode == modeTree {
			err = t.walk(at, visit)
		} else {
			err = visit(at, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *trees) read(id string) (map[string]node, error) {
	data, err := t.object(id, "tree")
	if err != nil {
		return nil, err
	}
	return parseEntries(data, len(id)/2)
}

// object asks for one object. The answer is "id type size\n", the object, "\n".
func (t *trees) object(id, kind string) ([]byte, error) {
	if _, err := io.WriteString(t.ask, id+"\n"); err != nil {
		return nil, err
	}
	line, err := t.answer.ReadString('\n')
	if err != nil {
		return nil, err
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[1] != kind {
		return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), git.ErrCorrupt)
	}
	size, err := strconv.Atoi(words[2])
	if err != nil || size < 0 {
		return nil, git.ErrCorrupt
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(t.answer, data); err != nil {
		return nil, err
	}
	return data[:size], nil
}

func parseEntries(data []byte, idSize int) (map[string]node, error) {
	in := map[string]node{}
	for len(data) > 0 {
		mode, rest, ok := bytes.Cut(data, []byte{' '})
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		if !ok || !ok2 || len(rest) < idSize {
			return nil, git.ErrCorrupt
		}
		in[string(name)] = node{canonical(string(mode)), hex.EncodeToString(rest[:idSize])}
		data = rest[idSize:]
	}
	return in, nil
}

// canonical gives the mode as git takes it: old trees have modes such as 100664.
func canonical(mode string) string {
	switch {
	case mode == "40000":
		return modeTree
	case strings.HasPrefix(mode, "100") && len(mode) == 6:
		if (mode[3]-'0')&1 != 0 {
			return modeExec
		}
		return modeFile
	}
	return mode
}
