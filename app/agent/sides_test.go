package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSidesOfAFileAndADirectoryOfOneName has one side turn a file into a directory, and a file in the way of the other name too.
func TestSidesOfAFileAndADirectoryOfOneName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &Sides{Files: map[string][]byte{"a": []byte("file"), "a/b": []byte("below"), "a~": []byte("other")}}
	w, err := newWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.write(w); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range []string{"a~~", "a/b", "a~"} {
		text, err := os.ReadFile(filepath.Join(dir, sidesDir, name))
		if err != nil {
			t.Error(err)
		}
		got[name] = string(text)
	}
	if diff := cmp.Diff(map[string]string{"a~~": "file", "a/b": "below", "a~": "other"}, got); diff != "" {
		t.Errorf("sides (-want +got):\n%s", diff)
	}
}
