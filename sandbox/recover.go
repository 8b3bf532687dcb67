package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/gitname"
)

// Recover writes what Discard recorded of a sandbox into a directory, which must be missing or empty: all its files, ignored ones
// too. Names that git does not take, and that would act on whoever works in the directory, have a % in front: %.git is the git
// directory, in which a sandbox may have configured anything. No file is set-user-id, and links lead where they led.
func (m *Manager) Recover(ctx context.Context, id ID, dir string) error {
	rec, err := m.discarded(id)
	if err != nil {
		return err
	}
	commit, err := m.recorded(ctx, rec)
	if err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("recover sandbox %s: %s is not empty", id, dir)
	}
	if err := m.materialise(ctx, rec.Source.Key, commit, dir); err != nil {
		return fmt.Errorf("recover sandbox %s: %w", id, err)
	}
	m.tell(id, "recovered", commit, nil)
	return nil
}

// RecoverCommit makes a commit of what Discard recorded, without the git directory, on top of the base. It is kept under
// refs/sandpiper/<id>/recovered, and is the same each time.
func (m *Manager) RecoverCommit(ctx context.Context, id ID) (string, error) {
	rec, err := m.discarded(id)
	if err != nil {
		return "", err
	}
	commit, err := m.recorded(ctx, rec)
	if err != nil {
		return "", err
	}
	key := rec.Source.Key
	top, err := m.cfg.Stores.Read(ctx, key, git.Call{Args: []string{"ls-tree", "-z", commit}})
	if err != nil {
		return "", err
	}
	var without bytes.Buffer
	for entry := range bytes.SplitAfterSeq(top, []byte{0}) {
		if !bytes.HasSuffix(entry, []byte("\t"+gitname.Escape(".git")+"\x00")) {
			without.Write(entry)
		}
	}
	tree, err := m.cfg.Stores.Run(ctx, key, git.Call{Args: []string{"mktree", "-z"}, Stdin: &without})
	if err != nil {
		return "", fmt.Errorf("tree of what was recorded of %s: %w", id, err)
	}
	when := strconv.FormatInt(rec.Changed.Unix(), 10) + " +0000"
	made, err := m.cfg.Stores.Run(ctx, key, git.Call{
		Args: []string{"commit-tree", strings.TrimSpace(string(tree)), "-p", rec.Source.Base, "-m", "Everything that was in sandbox " + string(id)},
		Env: []string{"GIT_AUTHOR_NAME=Sandpiper", "GIT_AUTHOR_EMAIL=sandpiper@localhost", "GIT_AUTHOR_DATE=" + when,
			"GIT_COMMITTER_NAME=Sandpiper", "GIT_COMMITTER_EMAIL=sandpiper@localhost", "GIT_COMMITTER_DATE=" + when}})
	if err != nil {
		return "", fmt.Errorf("commit of what was recorded of %s: %w", id, err)
	}
	to := strings.TrimSpace(string(made))
	return to, m.moveRef(ctx, key, Ref(id, "recovered"), to)
}

func (m *Manager) discarded(id ID) (Record, error) {
	rec, err := m.Record(id)
	if err == nil && rec.State != Discarded {
		err = &ErrState{ID: id, Is: rec.State, Want: string(Discarded)}
	}
	return rec, err
}

// recorded is the commit that Discard made; the base if nothing differed from it.
func (m *Manager) recorded(ctx context.Context, rec Record) (string, error) {
	at, err := m.cfg.Stores.Ref(ctx, rec.Source.Key, Ref(rec.ID, "discarded"))
	if at != "" || err != nil {
		return at, err
	}
	if _, err := m.cfg.Stores.Resolve(ctx, rec.Source.Key, rec.Source.Base); err != nil {
		return "", fmt.Errorf("sandbox %s: nothing in it differed from its base, and that is gone: %w", rec.ID, err)
	}
	return rec.Source.Base, nil
}

// file is one entry of a tree.
type file struct{ mode, id, path string }

// materialise writes a tree of the store into a directory. fs.ErrNotExist: there is no such tree.
func (m *Manager) materialise(ctx context.Context, key, tree, dir string) error {
	out, err := m.cfg.Stores.Read(ctx, key, git.Call{Args: []string{"ls-tree", "-r", "-z", "--full-tree", tree}})
	if errors.Is(err, git.ErrNoRef) {
		return fmt.Errorf("%s: %w", tree, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var files, links []file
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		head, name, ok := strings.Cut(line, "\t")
		words := strings.Fields(head)
		if !ok || len(words) != 3 {
			continue // an empty tree
		}
		switch f := (file{words[0], words[2], gitname.Unescape(name)}); f.mode {
		case "120000":
			links = append(links, f)
		case "160000":
			err = root.MkdirAll(f.path, 0o755)
		default:
			files = append(files, f)
		}
		if err != nil {
			return err
		}
	}
	// Links come last: nothing can be written through one.
	return m.write(ctx, key, root, append(files, links...))
}

// write asks one git for all contents.
func (m *Manager) write(ctx context.Context, key string, root *os.Root, files []file) error {
	if len(files) == 0 {
		return nil
	}
	var ask bytes.Buffer
	for _, f := range files {
		ask.WriteString(f.id + "\n")
	}
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := m.cfg.Stores.Read(ctx, key, git.Call{Args: []string{"cat-file", "--batch"}, Stdin: &ask, Stdout: w})
		w.CloseWithError(errors.Join(err, io.EOF))
		done <- err
	}()
	err := writeAll(root, bufio.NewReaderSize(r, 1<<16), files)
	r.CloseWithError(fs.ErrClosed)
	if err != nil {
		cancel()
		<-done
		return err
	}
	err = <-done
	cancel()
	return err
}

func writeAll(root *os.Root, in *bufio.Reader, files []file) error {
	for _, f := range files {
		head, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%q: %w", f.path, err)
		}
		words := strings.Fields(head)
		if len(words) != 3 || words[0] != f.id {
			return fmt.Errorf("%q: git says %q: %w", f.path, head, git.ErrCorrupt)
		}
		size, err := strconv.ParseInt(words[2], 10, 64)
		if err == nil {
			err = writeOne(root, io.LimitReader(in, size), f, size)
		}
		if err == nil {
			_, err = in.Discard(1)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", f.path, err)
		}
	}
	return nil
}

func writeOne(root *os.Root, in io.Reader, f file, size int64) error {
	if dir := path.Dir(f.path); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if f.mode == "120000" {
		target, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		return root.Symlink(string(target), f.path)
	}
	perm := os.FileMode(0o644)
	if f.mode == "100755" {
		perm = 0o755
	}
	w, err := root.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, in)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, w.Close())
}
