package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program is what the tests start as sandpiper: the test binary, but where ThreadSanitizer cannot start in a jail.
var program string

// TestMain lets the test binary be the program itself, so that the tests start real processes of the very code that they
// are compiled with, race detector included.
//
// The jail of an ordinary user has no memory cgroup and holds RLIMIT_DATA instead, and the probe runs the program inside: with
// the detector it ends with 66 before main. For that user it is built without.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(tests(m))
}

func tests(m *testing.M) int {
	defer database.Stop()
	var err error
	if program, err = os.Executable(); err == nil && raceDetector && os.Geteuid() != 0 {
		dir, tempErr := os.MkdirTemp("", "sandpiper-program-")
		defer os.RemoveAll(dir)
		program, err = filepath.Join(dir, "sandpiper"), tempErr
		if err == nil {
			err = build(program)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(path string) error {
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("build without the race detector: %w\n%s", err, out)
	}
	return nil
}

// stateParent is a directory below which sandboxes of another user can be reached when the tests run as root.
func stateParent(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o711))
	}
	// The kernel's work directory of an overlay has no permissions, not even for its owner.
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
	})
	return dir
}
