package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// canaryName is a file beside the workspace, on the host, that nothing in a sandbox sees. It belongs to the user that commands run as:
// where one of them comes out of its workspace, the mode of the file does not keep it.
const canaryName = "canary"

// canary is what lies there before a command.
type canary struct{ path, text string }

// layCanary finds the canary of a run, or makes it.
func layCanary(dir string, uid int) (canary, error) {
	c := canary{path: filepath.Join(dir, canaryName)}
	text, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = c.make(uid)
		if err == nil || errors.Is(err, fs.ErrExist) { // another command of the sandbox, at the same time
			text, err = os.ReadFile(c.path)
		}
	}
	if err != nil {
		return c, fmt.Errorf("canary: %w", err)
	}
	c.text = string(text)
	return c, nil
}

// make puts it there at once: a name that appears with its content.
func (c canary) make(uid int) error {
	f, err := os.CreateTemp(filepath.Dir(c.path), canaryName+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(rand.Text() + "\n")
	if err == nil && os.Geteuid() == 0 {
		err = f.Chown(uid, uid)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), c.path)
}

// findings say whether the command got at it.
func (c canary) findings(run sandbox.ID, now time.Time) []sandbox.Finding {
	text, err := os.ReadFile(c.path)
	if err == nil && string(text) == c.text {
		return nil
	}
	evidence := "the file beside the workspace was changed"
	if err != nil {
		evidence = "the file beside the workspace: " + err.Error()
	}
	return []sandbox.Finding{{Run: run, Time: now.UTC(), Kind: "fs.canary", Severity: "high", Observer: "host", Evidence: evidence, Outcome: "breach"}}
}
