package agentgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// quarantine is a repository of ours that holds objects of a sandbox and nothing else of it.
type quarantine struct {
	Options
	from *os.Root
	dir  string
	h    *History

	objects int
	bytes   int64
}

const config = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n[gc]\n\tauto = 0\n"

// fill makes the quarantine and copies the objects into it. It borrows those of the store.
func (q *quarantine) fill(ctx context.Context) error {
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(q.dir, d), 0o700); err != nil {
			return err
		}
	}
	store := q.Store.Dir(q.Key)
	files := map[string]string{"HEAD": "ref: refs/heads/none\n", "config": config, "objects/info/alternates": filepath.Join(store, "objects") + "\n"}
	if shallow, err := os.ReadFile(filepath.Join(store, "shallow")); err == nil {
		files["shallow"] = string(shallow)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(q.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := q.copyLoose(); err != nil {
		return err
	}
	return q.copyPacks(ctx)
}

var (
	fanOut    = regexp.MustCompile(`^[0-9a-f]{2}$`)
	looseName = regexp.MustCompile(`^([0-9a-f]{38}|[0-9a-f]{62})$`)
)

func (q *quarantine) copyLoose() error {
	for _, dir := range list(q.from, "objects") {
		if !fanOut.MatchString(dir) {
			continue
		}
		for _, name := range list(q.from, path.Join("objects", dir)) {
			if !looseName.MatchString(name) {
				continue
			}
			if err := q.copyFile(path.Join("objects", dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *quarantine) copyFile(name string) error {
	f, ok := q.open(name)
	if !ok {
		return nil
	}
	defer f.Close()
	to := filepath.Join(q.dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, w.Close())
}

// copyPacks indexes packs anew: an index of the sandbox could say anything.
func (q *quarantine) copyPacks(ctx context.Context) error {
	packs := slices.DeleteFunc(list(q.from, "objects/pack"), func(name string) bool { return !strings.HasSuffix(name, ".pack") })
	if len(packs) > mostPacks {
		q.h.Refused = append(q.h.Refused, fmt.Sprintf("%q and what follows: more than %d packs", packs[mostPacks], mostPacks))
		packs = packs[:mostPacks]
	}
	for _, name := range packs {
		f, ok := q.open(path.Join("objects/pack", name))
		if !ok {
			continue
		}
		_, err := q.Store.Run(ctx, q.Key, git.Call{GitDir: q.dir, Args: []string{"index-pack", "--stdin", "--fix-thin"}, Stdin: f, Timeout: patience})
		f.Close()
		if err != nil {
			if err := q.refuse(ctx, name, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens a file of the sandbox, if it is one and the bounds allow it. Reads end at the size that was counted.
func (q *quarantine) open(name string) (io.ReadCloser, bool) {
	f, size, err := openRegular(q.from, name)
	if err != nil {
		q.h.Refused = append(q.h.Refused, fmt.Sprintf("%q: %v", name, err))
		return nil, false
	}
	if q.objects, q.bytes = q.objects+1, q.bytes+size; q.objects > mostObjects || q.bytes > mostBytes {
		f.Close()
		if q.objects == mostObjects+1 || q.bytes-size <= mostBytes {
			q.h.Refused = append(q.h.Refused, fmt.Sprintf("%q and what follows: more than %d objects or %d MiB", name, mostObjects, mostBytes>>20))
		}
		return nil, false
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, size), f}, true
}

// openRegular opens a regular file and nothing else. A link can lead nowhere but into the same directory (os.Root), and a pipe in
// the place of a file does not make us wait.
func openRegular(root *os.Root, name string) (*os.File, int64, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("not a file (%v)", info.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// list gives the names in a directory of the sandbox, sorted; none if there is no such directory.
func list(root *os.Root, dir string) []string {
	f, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(mostObjects)
	slices.Sort(names)
	return names
}

// tip is a ref of the sandbox.
type tip struct {
	name, commit string
	head         bool
}

var idForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// readTips gives where commits may be that are not the base: the head first, then the stashes, branches and tags.
func readTips(root *os.Root, base string) ([]tip, error) {
	refs := map[string]string{}
	packed, err := readSmall(root, "packed-refs")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(packed) {
		id, name, ok := strings.Cut(strings.TrimSpace(string(line)), " ")
		if ok && idForm.MatchString(id) && strings.HasPrefix(name, "refs/") {
			refs[name] = id
		}
	}
	for _, dir := range []string{"refs/heads", "refs/tags", "refs/stash"} {
		if err := looseRefs(root, dir, refs, 0); err != nil {
			return nil, err
		}
	}
	head, err := readHead(root, refs)
	if err != nil {
		return nil, err
	}
	stashes(root, refs)
	var tips []tip
	if head != "" && head != base {
		tips = append(tips, tip{"HEAD", head, true})
	}
	seen := map[string]bool{base: true, head: true}
	for _, prefix := range []string{"refs/stash", "refs/heads/", "refs/tags/"} {
		for _, name := range sorted(refs) {
			if id := refs[name]; strings.HasPrefix(name, prefix) && !seen[id] && len(tips) < mostTips {
				seen[id] = true
				tips = append(tips, tip{name: name, commit: id})
			}
		}
	}
	return tips, nil
}

func sorted(refs map[string]string) []string {
	names := make([]string, 0, len(refs))
	for name := range refs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// readHead follows HEAD, once, to a commit. "": it has none.
func readHead(root *os.Root, refs map[string]string) (string, error) {
	text, err := readSmall(root, "HEAD")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	value := strings.TrimSpace(string(text))
	if branch, ok := strings.CutPrefix(value, "ref: "); ok {
		return refs[strings.TrimSpace(branch)], nil
	}
	if !idForm.MatchString(value) {
		return "", fmt.Errorf("HEAD: %.80q is no commit", value)
	}
	return value, nil
}

// looseRefs reads the files below a directory. Deeper than that nobody names branches.
func looseRefs(root *os.Root, name string, refs map[string]string, depth int) error {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || depth > 8 || len(refs) > 1000 {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		for _, n := range list(root, name) {
			if err := looseRefs(root, path.Join(name, n), refs, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := readSmall(root, name)
	if id := strings.TrimSpace(string(text)); err == nil && idForm.MatchString(id) {
		refs[name] = id
	}
	return nil
}

// stashes adds those below the newest: they are in the log of the ref only.
func stashes(root *os.Root, refs map[string]string) {
	text, err := readSmall(root, "logs/refs/stash")
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Reverse(lines) // the newest is stash@{0}, which refs/stash is too
	for i, line := range lines {
		if words := strings.Fields(line); len(words) > 1 && idForm.MatchString(words[1]) && i > 0 && i < mostTips {
			refs[fmt.Sprintf("refs/stash@{%d}", i)] = words[1]
		}
	}
}

func readSmall(root *os.Root, name string) ([]byte, error) {
	const most = 1 << 20
	f, size, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, fmt.Errorf("%s has %d bytes", name, size)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
