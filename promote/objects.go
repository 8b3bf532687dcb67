package promote

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// changed are the paths that differ from one commit to another, renames as two.
func (r Stored) changed(ctx context.Context, from, to string) (map[string]bool, error) {
	out, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to}})
	if err != nil {
		return nil, fmt.Errorf("paths from %s to %s: %w", from, to, err)
	}
	paths := map[string]bool{}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		paths[path] = true
	}
	return paths, nil
}

// blobIDs are the blobs at paths of a commit; what is no file there is not in the answer.
func (r Stored) blobIDs(ctx context.Context, commit string, paths []string) (map[string]string, error) {
	ids := map[string]string{}
	for some := range slices.Chunk(paths, 500) { // a command line has its limits
		out, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{
			Args: append([]string{"ls-tree", "-z", "--full-tree", commit, "--"}, some...), Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
		if err != nil {
			return nil, fmt.Errorf("files of %s: %w", commit, err)
		}
		for entry := range strings.SplitSeq(string(out), "\x00") {
			meta, path, ok := strings.Cut(entry, "\t")
			if f := strings.Fields(meta); ok && len(f) == 3 && f[1] == "blob" {
				ids[path] = f[2]
			}
		}
	}
	return ids, nil
}

// Blobs reads blobs of the store, each up to a number of bytes. Longer ones, and ids that are no blobs, are not in the answer.
func (r Stored) Blobs(ctx context.Context, ids []string, most int64) (map[string][]byte, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	found := map[string][]byte{}
	for some := range slices.Chunk(ids, 200) { // what git answers is held in memory
		short, err := r.shorter(ctx, some, most)
		if err != nil {
			return nil, err
		}
		out, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"cat-file", "--batch"}, Stdin: strings.NewReader(strings.Join(short, "\n") + "\n")})
		if err != nil {
			return nil, fmt.Errorf("read blobs: %w", err)
		}
		if len(short) > 0 {
			if err := readBatch(out, found); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// shorter are the blobs that are not longer than most.
func (r Stored) shorter(ctx context.Context, ids []string, most int64) ([]string, error) {
	out, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"cat-file", "--batch-check"}, Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n")})
	if err != nil {
		return nil, fmt.Errorf("sizes of blobs: %w", err)
	}
	var short []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "blob" {
			if size, err := strconv.ParseInt(f[2], 10, 64); err == nil && size <= most {
				short = append(short, f[0])
			}
		}
	}
	return short, nil
}

// readBatch reads "<id> <type> <size>\n<content>\n" again and again.
func readBatch(out []byte, into map[string][]byte) error {
	for len(out) > 0 {
		head, rest, _ := bytes.Cut(out, []byte("\n"))
		f := strings.Fields(string(head))
		if len(f) != 3 {
			return fmt.Errorf("read blobs: %.100q from git", head)
		}
		size, err := strconv.Atoi(f[2])
		if err != nil || size+1 > len(rest) {
			return fmt.Errorf("read blobs: %.100q from git", head)
		}
		into[f[0]], out = rest[:size], rest[size+1:]
	}
	return nil
}

// edits are what differs from one commit to another. A commit that the API has made on a branch is fetched first.
func (r Stored) edits(ctx context.Context, branch, expect, from, to string) ([]edit, error) {
	if expect != "" {
		if _, err := r.Stores.Resolve(ctx, r.Remote.Key, from); err != nil {
			if _, err := r.Tip(ctx, branch); err != nil {
				return nil, err
			}
		}
	}
	out, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none", from, to}})
	if err != nil {
		return nil, fmt.Errorf("changes from %s to %s: %w", from, to, err)
	}
	var list []edit
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			return nil, fmt.Errorf("changes from %s to %s: %.100q from git", from, to, fields[i])
		}
		e := edit{path: fields[i+1], oldMode: f[0], mode: f[1], id: f[3]}
		if e.oldMode == "000000" {
			e.oldMode = ""
		}
		if e.mode == "000000" {
			e.mode, e.id = "", ""
		}
		list = append(list, e)
	}
	return list, nil
}
