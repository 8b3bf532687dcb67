package promote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// A sandbox has the files of a repository as git holds them, without filters: of Git LFS these are pointers, and what an agent
// writes in their place is content. Stage commits a pointer to it, as git-lfs would have, and Publish uploads the content before
// anything refers to it. A pointer that came in otherwise has to have its object at GitHub.

// LFSObject is a file of Git LFS in a promotion.
type LFSObject struct {
	OID     string         `json:"oid"` // SHA-256 of the content, hex
	Size    int64          `json:"size"`
	Content sandbox.Change `json:"content"`         // the change as it would be without Git LFS: its new blob is the content
	There   bool           `json:"there,omitempty"` // the server had it: nothing is uploaded
}

// lfsMost bounds one object: its upload has to end within the two minutes of one step, because what git-lfs calls a basic transfer
// cannot be resumed within an object (https://github.com/git-lfs/git-lfs/blob/main/docs/api/basic-transfers.md).
const lfsMost = 512 << 20

// uploadLeast is what must be left of a step for one more object to be begun: what would be cut off is left to the next one.
const uploadLeast = time.Minute

// ErrMore says that a step brought objects to the server and that time is up before the others. Nothing refers to them yet. Whoever
// publishes again goes on with the next: which are there, the server knows.
type ErrMore struct{ Sent, Left int }

func (e *ErrMore) Error() string {
	return fmt.Sprintf("%d objects of Git LFS uploaded, %d to go", e.Sent, e.Left)
}

var lfsPointerForm = regexp.MustCompile(`^version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,15})\n$`)

// pointerMost is the size of the largest pointer (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
const pointerMost = 1024

// toPointers puts pointers in the place of content that belongs to Git LFS.
func (r Stored) toPointers(ctx context.Context, w Workshop, s *Staged, spec sandbox.CommitSpec) error {
	tracked, err := r.tracked(ctx, s)
	if err != nil || len(tracked) == 0 {
		return err
	}
	pointers := map[string]string{} // path -> blob
	for _, c := range tracked {
		oid, err := r.digest(ctx, c.NewID)
		if err != nil {
			return fmt.Errorf("content of %q: %w", c.Path, err)
		}
		text := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, c.Size)
		out, err := r.Stores.Run(ctx, r.Remote.Key, git.Call{Args: []string{"hash-object", "-w", "--stdin"}, Stdin: strings.NewReader(text)})
		if err != nil {
			return fmt.Errorf("pointer for %q: %w", c.Path, err)
		}
		pointers[c.Path] = strings.TrimSpace(string(out))
		if pointers[c.Path] != c.OldID {
			s.LFS = append(s.LFS, LFSObject{OID: oid, Size: c.Size, Content: c})
		}
	}
	_, tree, err := objects.Build(ctx, r.Stores.At(r.Remote.Key), objects.Spec{Parent: s.Commit, Message: spec.Message,
		Author: objects.Ident(spec.Author), Committer: objects.Ident(spec.Committer)}, func(f *objects.Edit) error {
		for _, c := range tracked {
			f.Object(c.Path, c.NewMode, pointers[c.Path])
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("commit pointers: %w", err)
	}
	s.Tree = tree
	if s.Commit, err = r.commit(ctx, s.Tree, spec, s.MergeBase); err != nil {
		return fmt.Errorf("commit pointers: %w", err)
	}
	if s.Changes, err = w.Between(ctx, r.Remote.Key, s.MergeBase, s.Commit); err != nil {
		return err
	}
	if len(s.Changes) == 0 {
		return fmt.Errorf("the objects of Git LFS are what they were: %w", ErrNothing)
	}
	return r.keep(ctx, mergedRef(s.Run), s.Commit)
}

// tracked are the changes that put content where attributes want a pointer. An empty file stays one, as git-lfs has it.
func (r Stored) tracked(ctx context.Context, s *Staged) (list []sandbox.Change, err error) {
	files := slices.DeleteFunc(slices.Clone(s.Changes), func(c sandbox.Change) bool {
		return c.NewMode != "100644" && c.NewMode != "100755" || c.Size == 0
	})
	var names []string
	for _, c := range files {
		for dir := path.Dir(c.Path); ; dir = path.Dir(dir) {
			names = append(names, path.Join(dir, ".gitattributes"))
			if dir == "." {
				break
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	ids, err := r.blobIDs(ctx, s.Commit, names)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	want := []string{}
	for _, id := range ids {
		want = append(want, id)
	}
	for _, c := range files {
		if c.Size <= pointerMost {
			want = append(want, c.NewID)
		}
	}
	text, err := r.Blobs(ctx, want, sidesMost)
	if err != nil {
		return nil, err
	}
	read := func(name string) ([]byte, bool) { t, ok := text[ids[path.Clean(name)]]; return t, ok }
	for _, c := range files {
		if gates.Tracked(read, c.Path) && !lfsPointerForm.Match(text[c.NewID]) && c.Size <= lfsMost {
			list = append(list, c)
		}
	}
	return list, nil
}

// digest is the SHA-256 of a blob's content.
func (r Stored) digest(ctx context.Context, blob string) (string, error) {
	h := sha256.New()
	_, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"cat-file", "blob", blob}, Stdout: h})
	return hex.EncodeToString(h.Sum(nil)), err
}

// findObjects looks whether the server has the objects of pointers that came in otherwise.
func (r Stored) findObjects(ctx context.Context, s *Staged) error {
	ours := map[string]bool{}
	for _, o := range s.LFS {
		ours[o.OID] = true
	}
	var small []string
	at := map[string][]sandbox.Change{}
	for _, c := range s.Changes {
		if c.NewID != "" && c.NewMode != "160000" && c.NewMode != "120000" && c.Size <= pointerMost && c.Size > 0 {
			small, at[c.NewID] = append(small, c.NewID), append(at[c.NewID], c)
		}
	}
	text, err := r.Blobs(ctx, small, pointerMost)
	if err != nil {
		return err
	}
	var asked []LFSObject
	for id, list := range at {
		m := lfsPointerForm.FindSubmatch(text[id])
		if m == nil || ours[string(m[1])] {
			continue
		}
		size, err := strconv.ParseInt(string(m[2]), 10, 64)
		if err != nil {
			continue
		}
		for _, c := range list {
			asked = append(asked, LFSObject{OID: string(m[1]), Size: size, Content: c})
		}
	}
	if len(asked) == 0 {
		return nil
	}
	answers, err := r.batch(ctx, "download", asked)
	if errors.As(err, new(*ErrRefused)) {
		return nil // it has no Git LFS, or not for us: a gate says that the objects are missing
	}
	if err != nil {
		return err
	}
	slices.SortFunc(asked, func(a, b LFSObject) int { return strings.Compare(a.Content.Path, b.Content.Path) })
	for _, o := range asked {
		if a, ok := answers[o.OID]; ok && a.Error == nil {
			o.There = true
			s.LFS = append(s.LFS, o)
		}
	}
	return nil
}

// upload brings the objects to the server that it does not have. It can be done again, and is when it ends with ErrMore.
func (r Stored) upload(ctx context.Context, objects []LFSObject) error {
	objects = slices.DeleteFunc(slices.Clone(objects), func(o LFSObject) bool { return o.There })
	if len(objects) == 0 {
		return nil
	}
	answers, err := r.batch(ctx, "upload", objects)
	if err != nil {
		return err
	}
	missing := map[string]bool{} // two files may have one object
	for _, o := range objects {
		a, ok := answers[o.OID]
		switch {
		case !ok:
			return fmt.Errorf("the server of Git LFS says nothing of %s", o.OID)
		case a.Error != nil:
			reason := fmt.Sprintf("GitHub does not take %s into Git LFS: %d %s", o.Content.Path, a.Error.Code, a.Error.Message)
			return &ErrRefused{Reason: oneLine(reason, strings.Clone), Paths: []string{o.Content.Path}}
		}
		missing[o.OID] = a.Actions.Upload.Href != ""
	}
	maps.DeleteFunc(missing, func(_ string, missing bool) bool { return !missing })
	return r.sendAll(ctx, objects, answers, missing)
}

// sendAll uploads one object after the other, as long as there is time.
func (r Stored) sendAll(ctx context.Context, objects []LFSObject, answers map[string]lfsAnswer, missing map[string]bool) error {
	sent := 0
	for _, o := range objects {
		if !missing[o.OID] {
			continue
		}
		if end, bound := ctx.Deadline(); bound && sent > 0 && time.Until(end) < uploadLeast {
			return &ErrMore{Sent: sent, Left: len(missing)}
		}
		err := r.send(ctx, o, answers[o.OID])
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s (%d MB) does not get to the storage of Git LFS in the time that one step has; /sandpiper drop leaves it out: %w", oneLine(o.Content.Path, strings.Clone), o.Size>>20, err)
		}
		if err != nil {
			return fmt.Errorf("upload %q to Git LFS: %w", o.Content.Path, err)
		}
		delete(missing, o.OID)
		sent++
	}
	return nil
}

// content gives a blob to a reader while git writes it. Close waits for git.
func (r Stored) content(ctx context.Context, blob string) io.ReadCloser {
	out, in := io.Pipe()
	c := &contentReader{PipeReader: out, written: make(chan struct{})}
	go func() { // ends when all was read, or the reader was closed
		defer close(c.written)
		_, err := r.Stores.Read(ctx, r.Remote.Key, git.Call{Args: []string{"cat-file", "blob", blob}, Stdout: in})
		in.CloseWithError(err)
	}()
	return c
}

type contentReader struct {
	*io.PipeReader
	written chan struct{}
}

func (c *contentReader) Close() error {
	err := c.PipeReader.Close()
	<-c.written
	return err
}
