package mission

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
)

// TestNothingPostedNamesTheStateDirectory by its own name or by that of a link to it.
func TestNothingPostedNamesTheStateDirectory(t *testing.T) {
	t.Parallel()
	real := filepath.Join(t.TempDir(), "state")
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Mkdir(real, 0o700), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	e := New(Config{Settings: Settings{StateDir: link}, Redact: func(s string) string { return s }})
	for _, dir := range []string{real, link} {
		_, err := os.ReadFile(filepath.Join(dir, "runs/r-1-1/run.json"))
		_, final := outcome.Judge(err, 100)
		if got, want := e.Redact(final.Message), "this failed 3 times in a row: open runs/r-1-1/run.json: no such file or directory"; got != want {
			t.Errorf("posted: %q, want %q", got, want)
		}
		if got, want := e.Redact("in "+dir+": no room"), "in the state directory: no room"; got != want {
			t.Errorf("posted: %q, want %q", got, want)
		}
	}
}
