package promote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// TestLFSUploadIsContinued: a step has an end, and objects that do not get through before it are brought by the next one. Nothing
// refers to any of them before all are there, and none is sent twice.
func TestLFSUploadIsContinued(t *testing.T) {
	t.Parallel()
	w := withLFS(t, "one")
	for _, name := range []string{"two", "three"} {
		w.made.files["art/"+name+".psd"] = name
	}
	w.made.files["art/copy.psd"] = "one"
	staged, err := w.stage()
	must(t, err)
	w.req.Staged = staged
	var got []string
	for range 3 { // each has less time left than an object is begun with, so that it sends the one that it may
		step, cancel := context.WithTimeout(t.Context(), uploadLeast-time.Second)
		res, err := Publish(step, w.deps, w.req)
		cancel()
		if more := (*ErrMore)(nil); errors.As(err, &more) {
			got = append(got, fmt.Sprintf("%s, %d branches", more, len(w.branches())))
			continue
		}
		must(t, err)
		w.shows(res)
		got = append(got, fmt.Sprintf("pull request, %d branches", len(w.branches())))
	}
	want := []string{
		"1 objects of Git LFS uploaded, 2 to go, 0 branches", "1 objects of Git LFS uploaded, 1 to go, 0 branches", "pull request, 1 branches",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := w.server.CallCount("LFS", "storage"); n != 3 {
		t.Errorf("%d uploads, want 3", n)
	}
}

// TestLFSObjectThatTakesTooLong: its step ends with the sentence that says what to do.
func TestLFSObjectThatTakesTooLong(t *testing.T) {
	t.Parallel()
	w := withLFS(t, "content")
	staged, err := w.stage()
	must(t, err)
	storage := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer storage.Close()
	var a lfsAnswer
	a.Actions.Upload.Href = storage.URL
	oid := staged.LFS[0].OID
	step, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = w.repo.sendAll(step, staged.LFS, map[string]lfsAnswer{oid: a}, map[string]bool{oid: true})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "art/logo.psd") || !strings.Contains(err.Error(), "/sandpiper drop") {
		t.Errorf("got %v", err)
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
