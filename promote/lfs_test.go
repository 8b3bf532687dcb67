package promote

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	double "github.com/sandpiper-bot/sandpiper/fixtures/github"
)

func pointerTo(content string) (text, oid string) {
	sum := sha256.Sum256([]byte(content))
	oid = hex.EncodeToString(sum[:])
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, len(content)), oid
}

// withLFS has the run put content in the place of a file of Git LFS.
func withLFS(t *testing.T, content string) *world {
	w := newWorld(t)
	w.made.files = map[string]string{".gitattributes": "*.psd filter=lfs diff=lfs merge=lfs -text\n", "art/logo.psd": content, "art/empty.psd": "", "other.bin": content}
	return w
}

// TestCase20LFSObjectIsUploaded: the commit has a pointer, and the server the object, before the branch is there.
func TestCase20LFSObjectIsUploaded(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("\x00layer", 100_000)
	pointer, oid := pointerTo(content)
	for _, api := range []bool{false, true} {
		w := withLFS(t, content)
		w.req.API = api
		res, err := w.publish()
		must(t, err)
		if got, ok := w.server.LFSObject("octavia/calc", oid); !ok || string(got) != content {
			t.Errorf("API %v: the object has %d bytes, %v", api, len(got), ok)
		}
		for path, want := range map[string]string{"art/logo.psd": pointer, "art/empty.psd": "", "other.bin": content} {
			ids, err := w.repo.blobIDs(t.Context(), w.req.Staged.Commit, []string{path})
			must(t, err)
			text, err := w.repo.Blobs(t.Context(), []string{ids[path]}, 1<<20)
			must(t, err)
			if got := string(text[ids[path]]); got != want {
				t.Errorf("API %v: %s has %d bytes, want %d", api, path, len(got), len(want))
			}
		}
		w.shows(res)
		if len(w.req.Staged.LFS) != 1 || w.req.Staged.LFS[0].Content.Path != "art/logo.psd" {
			t.Errorf("API %v: objects %+v", api, w.req.Staged.LFS)
		}
		w.req.Staged = Staged{}
		again, err := w.publish()
		must(t, err)
		if again.Head != res.Head {
			t.Errorf("API %v: published twice is %s and %s", api, res.Head, again.Head)
		}
	}
}

// TestCase20NoPointerWithoutItsObject: what cannot be uploaded leaves no branch, and a pointer that came in otherwise is let
// through only when the server has its object.
func TestCase20NoPointerWithoutItsObject(t *testing.T) {
	t.Parallel()
	w := withLFS(t, "content")
	must(t, w.server.AddFault(double.Fault{Method: "LFS", Path: "batch", Times: -1, Status: 403, Message: "Git LFS is disabled for this repository."}))
	var refused *ErrRefused
	if _, err := w.publish(); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "disabled") {
		t.Errorf("got %v, want a refusal with the reason", err)
	}
	if got := w.branches(); len(got) != 0 {
		t.Errorf("branches %v", got)
	}
	w.server.ClearFaults()
	_, err := w.publish()
	must(t, err)

	pointer, _ := pointerTo("content")
	unknown, _ := pointerTo("other content")
	w.made.files = map[string]string{".gitattributes": "*.psd filter=lfs\n", "copy.psd": pointer, "unknown.psd": unknown}
	w.req.Mission, w.req.Run, w.req.Issue = "m-2", "r-2-1", 2
	staged, err := w.stage()
	must(t, err)
	if len(staged.LFS) != 1 || staged.LFS[0].Content.Path != "copy.psd" || !staged.LFS[0].There {
		t.Errorf("objects %+v, want copy.psd that is there", staged.LFS)
	}
	w.req.Staged = staged // as if no gate had looked
	if _, err := Publish(t.Context(), w.deps, w.req); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "unknown Git LFS object") {
		t.Errorf("got %v, want the refusal of the server", err)
	}
}

// TestLFSErrorsKeepTheAddress: that of a storage is signed, and errors come into logs and onto issues.
func TestLFSErrorsKeepTheAddress(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, address := range []string{gone.URL + "/storage?X-Amz-Signature=c0ffee", "http://storage/%zz?X-Amz-Signature=c0ffee"} {
		var a lfsAnswer
		a.Actions.Upload.Href = address
		w := withLFS(t, "content")
		staged, err := w.stage()
		must(t, err)
		if err := w.repo.send(t.Context(), staged.LFS[0], a); err == nil || strings.Contains(err.Error(), "c0ffee") {
			t.Errorf("%s: got %v", address, err)
		}
	}
}
