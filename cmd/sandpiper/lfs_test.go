package main

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// TestCase20FileOfGitLFS: what the agent wrote in the place of a pointer is uploaded; people are told, since they cannot read it.
func TestCase20FileOfGitLFS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("printf '\\000new' >logo.psd\n"+fixes, ".gitattributes", "*.psd filter=lfs diff=lfs merge=lfs -text\n"))
	w.start()
	n := w.openIssue("A new logo", "")
	w.label("octavia", n)
	w.ended(n, "changed")
	sum := sha256.Sum256([]byte("\x00new"))
	if got, ok := w.double.LFSObject("acme/calc", hex.EncodeToString(sum[:])); !ok || string(got) != "\x00new" {
		t.Errorf("the object: %q, %v", got, ok)
	}
	pr := w.pulls()[0]
	if got := w.fileAt(pr.GetHead().GetSHA(), "logo.psd"); !strings.HasPrefix(got, "version https://git-lfs") {
		t.Errorf("committed: %q", got)
	}
	for _, want := range []string{"`logo.psd` (4 bytes, uploaded with this)", "a binary file of 4 bytes"} {
		if !strings.Contains(pr.GetBody(), want) {
			t.Errorf("the pull request does not say %q:\n%s", want, pr.GetBody())
		}
	}
}
