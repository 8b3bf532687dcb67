package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// mirror makes a directory with copies of some files of the workspace at their paths, for git to look at: only regular
// files that we wrote, no links, no git directory. The names in it have passed the checks for the result.
func (c *collector) mirror(files []change) (dir string, err error) {
	root, err := os.OpenFile(c.Root, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if dir, err = os.MkdirTemp(c.Scratch, "mirror-"); err != nil {
		return "", err
	}
	for _, ch := range files {
		if err := c.copyInto(dir, int(root.Fd()), ch); err != nil {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}

func (c *collector) copyInto(dir string, root int, ch change) error {
	from, err := c.openChange(root, ch)
	if err != nil {
		return err
	}
	defer from.Close()
	to := filepath.Join(dir, ch.path)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	perm := os.FileMode(0o600)
	if ch.mode == objects.ModeExec {
		perm = 0o700
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// rulesNamed gives the rule files of one name that git could find: not those at paths that it could not open.
func (c *collector) rulesNamed(name string) []change {
	var out []change
	for _, r := range c.rules {
		if _, base := splitPath(r.path); base == name && len(r.path) < maxPath-256 && r.size <= 1<<20 && !hasForbidden(r.path) {
			out = append(out, r)
		}
	}
	return out
}

// errEndless says that rules of the workspace cannot be followed: a command can make git's time for them longer than anybody waits, see
// git.Options.
var errEndless = errors.New("the patterns in its .gitignore and .gitattributes files take too long")

// endless tells rules without an end from a context that has ended.
func (c *collector) endless(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: more than %s", errEndless, c.Caps.Rules)
	}
	return err
}

func hasForbidden(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if forbidden(part) {
			return true
		}
	}
	return false
}

// dropIgnored takes the untracked files out that the workspace's own .gitignore files name, as git add would: for a snapshot of
// everything, only those beyond the cap.
func (c *collector) dropIgnored(ctx context.Context) error {
	rules := c.rulesNamed(".gitignore")
	if len(rules) == 0 {
		return nil
	}
	var ask bytes.Buffer
	for _, ch := range c.changes {
		if !ch.tracked && !ch.gitDir && len(ch.path) < maxPath-256 {
			ask.WriteString(ch.asked() + "\x00")
		}
	}
	if ask.Len() == 0 {
		return nil
	}
	dir, err := c.mirror(rules)
	if err != nil {
		return fmt.Errorf("mirror of the ignore rules: %w", err)
	}
	defer os.RemoveAll(dir)
	out, err := c.Store.Run(ctx, git.Call{Dir: dir, WorkTree: dir, Args: []string{"check-ignore", "--no-index", "-z", "--stdin"}, Stdin: &ask,
		Config: []string{"core.bare=false"}, Timeout: c.Caps.Rules})
	err = c.endless(ctx, err)
	var failed *git.Error
	if errors.As(err, &failed) && failed.Exit == 1 { // none is ignored
		return nil
	}
	if errors.Is(err, errEndless) && c.Everything {
		c.notes.add("collect.rules", "medium", err.Error()+": what is ignored was kept with the rest")
		return nil
	}
	if err != nil {
		return fmt.Errorf("ignore rules: %w", err)
	}
	ignored := map[string]bool{}
	for p := range strings.SplitSeq(string(out), "\x00") {
		ignored[p] = true
	}
	c.leaveOut(ignored)
	return nil
}

// asked is the path that git check-ignore is asked for: with a dot in front, as one that begins with a colon would be taken for a
// pathspec with magic, and without names that git does not take (those of a nested repository in an ignored directory).
func (ch change) asked() string {
	if hasForbidden(ch.path) {
		return "./" + escapePath(ch.path)
	}
	return "./" + ch.path
}

func (c *collector) leaveOut(ignored map[string]bool) {
	var size, lost int64
	var count int
	kept := c.changes[:0]
	for _, ch := range c.changes {
		if ch.tracked || ch.gitDir || !ignored[ch.asked()] {
			kept = append(kept, ch)
			continue
		}
		if c.Everything && ch.size <= c.Caps.Kept && size+ch.size <= c.Caps.Ignored {
			size += ch.size
			kept = append(kept, ch)
			continue
		}
		lost += ch.size
		count++
	}
	c.changes = kept
	if c.Everything && count > 0 {
		c.notes.add("collect.ignored", "info", fmt.Sprintf("%d ignored files with %d bytes are beyond the cap of %d bytes and were not kept",
			count, lost, c.Caps.Ignored))
	}
}

// convert lets git apply line endings, $Id$ and encodings as .gitattributes of the workspace ask for them. No filter driver can
// run, as none is configured: pointers of large files stay pointers. A snapshot of everything keeps the bytes as they lie.
func (c *collector) convert(ctx context.Context) error {
	rules := c.rulesNamed(".gitattributes")
	if c.Everything || len(rules) == 0 && len(c.attributes()) == 0 {
		return nil
	}
	files := map[string]*change{}
	var copies []change
	for i, ch := range c.changes {
		if ch.mode == objects.ModeLink || ch.mode == objects.ModeRepo || len(ch.path) >= maxPath-256 {
			continue
		}
		files[ch.path] = &c.changes[i]
		copies = append(copies, ch)
	}
	if len(files) == 0 {
		return nil
	}
	for _, r := range rules {
		if files[r.path] == nil {
			copies = append(copies, r)
		}
	}
	dir, err := c.mirror(copies)
	if err != nil {
		return fmt.Errorf("mirror for line endings: %w", err)
	}
	defer os.RemoveAll(dir)
	out, err := c.hash(ctx, dir, files)
	if err != nil {
		return err
	}
	return setObjects(files, out)
}

// hash adds the files to an index that holds what the base has at their paths, by which git decides on line endings, and the base's
// attributes. It notes the files for which a filter is asked: they are recorded as they lie, which for large file storage may be a
// content that belongs elsewhere, or a pointer to what nobody has uploaded.
func (c *collector) hash(ctx context.Context, dir string, files map[string]*change) ([]byte, error) {
	index := dir + ".index"
	defer os.Remove(index)
	run := func(stdin []byte, args ...string) ([]byte, error) {
		call := git.Call{Dir: dir, WorkTree: dir, Index: index, Config: []string{"core.bare=false", "core.safecrlf=false"}, Args: args, Timeout: c.Caps.Rules}
		if args[0] == "update-index" { // which reads the files too
			call.Timeout *= 10
		}
		if stdin != nil {
			call.Stdin = bytes.NewReader(stdin)
		}
		out, err := c.Store.Run(ctx, call)
		if err = c.endless(ctx, err); err != nil {
			return nil, fmt.Errorf("line endings: %w", err)
		}
		return out, nil
	}
	var names bytes.Buffer
	paths := slices.Sorted(maps.Keys(files))
	for _, p := range paths {
		names.WriteString(p + "\x00")
	}
	known, err := c.inBase(append(paths, c.attributes()...))
	if err != nil {
		return nil, err
	}
	if _, err := run(known, "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}
	filters, err := run(names.Bytes(), "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return nil, err
	}
	answers := strings.Split(string(filters), "\x00")
	for ; len(answers) >= 3; answers = answers[3:] { // path, attribute, value
		if v := answers[2]; v != "unspecified" && v != "unset" {
			c.notes.add("git.filter", "medium", answers[0]+" (filter "+v+")")
		}
	}
	if _, err := run(names.Bytes(), "update-index", "--add", "--replace", "-z", "--stdin"); err != nil {
		return nil, err
	}
	return run(nil, "ls-files", "--stage", "-z")
}

// inBase writes what the base has at some paths, as update-index --index-info reads it.
func (c *collector) inBase(paths []string) ([]byte, error) {
	t, err := c.openBase()
	if err != nil {
		return nil, err
	}
	out := []byte{}
	for _, p := range paths {
		n, err := t.get(p)
		if err != nil {
			return nil, err
		}
		if n.Mode != "" && n.Mode != objects.ModeTree {
			out = fmt.Appendf(out, "%s %s 0\t%s\x00", n.Mode, n.ID, p)
		}
	}
	return out, nil
}

// setObjects reads "ls-files --stage -z": "mode id stage\tpath\0".
func setObjects(files map[string]*change, list []byte) error {
	for line := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		head, name, _ := strings.Cut(line, "\t")
		words := strings.Fields(head)
		if len(words) != 3 {
			return fmt.Errorf("line endings: %q from git", line)
		}
		if ch := files[name]; ch != nil {
			ch.mode, ch.object = words[0], words[1]
			delete(files, name)
		}
	}
	for name := range files {
		return fmt.Errorf("line endings: git has not taken %q", name)
	}
	return nil
}
