package container_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/container"
	"github.com/sandpiper-bot/sandpiper/sandbox/sandboxtest"
)

// rootFS is a root file system of nothing but a shell.
func rootFS(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sh(t, dir, `mkdir bin; cp -L /bin/sh bin/dash; ln -s /bin/dash bin/sh; chmod 4755 bin/dash
ldd /bin/sh | grep -o '/[^ ]*' | while read -r lib; do mkdir -p ".${lib%/*}"; cp -L "$lib" ".$lib"; done`)
	return dir
}

func sh(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// A root file system needs nothing but a shell; what is mounted gets its places without a write to it.
func TestImage(t *testing.T) {
	needsRuntime(t)
	for name, make := range map[string]func(t *testing.T, root string) string{
		"directory":     func(_ *testing.T, root string) string { return root },
		"tarball":       func(t *testing.T, root string) string { return tarball(t, root, "cf") },
		"small tarball": func(t *testing.T, root string) string { return tarball(t, root, "czf") },
		"podman":        imported("podman"),
		"docker":        imported("docker"),
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			root := rootFS(t)
			before := sh(t, root, "find . | sort")
			state := t.TempDir()
			f, err := openWith(state, nil, container.Options{Image: make(t, root)})
			if err != nil {
				t.Fatal(err)
			}
			repo := sandboxtest.NewRepo(t)
			repo.Write("a.txt", "one\n")
			repo.Commit()
			for range 2 { // made ready once, used twice
				id := f.Create(t, repo)
				got := f.Sh(t, id, `read -r x <a.txt; echo "$x"; echo new >b.txt; [ ! -e /usr/bin/git ]; ! echo x >/marker; ! echo x >/bin/sh`)
				if !strings.HasPrefix(got, "one\n") {
					t.Errorf("said %q", got)
				}
				if _, err := f.Manager.Discard(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
			if after := sh(t, root, "find . | sort"); after != before {
				t.Errorf("the image was written to: %s", after)
			}
			unpacked, _ := filepath.Glob(filepath.Join(state, "images", "of-*"))
			if name != "directory" && len(unpacked) != 1 {
				t.Errorf("unpacked: %q", unpacked)
			}
			for _, dir := range unpacked {
				if set := sh(t, dir, "find . -perm /6000"); set != "" {
					t.Errorf("set-user-id: %s", set)
				}
			}
		})
	}
}

func tarball(t *testing.T, root, how string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root.tar")
	sh(t, root, "tar "+how+" "+file+" .")
	return file
}

// imported gives an engine the root file system as an image. Nothing is pulled.
func imported(engine string) func(*testing.T, string) string {
	return func(t *testing.T, root string) string {
		name := fmt.Sprintf("sandpiper-test-%d", os.Getpid())
		if out, err := exec.Command(engine, "info").CombinedOutput(); err != nil {
			t.Skipf("%s does not run here, so that its images are not tried: %v: %.200s", engine, err, out)
		}
		if out, err := exec.Command(engine, "import", tarball(t, root, "cf"), name).CombinedOutput(); err != nil {
			t.Skipf("%s takes no image here: %v: %.300s", engine, err, out)
		}
		t.Cleanup(func() { _ = exec.Command(engine, "rmi", "--force", name).Run() })
		return name
	}
}

// What is not there is said when a sandbox is made, as the backend not being available.
func TestImageThatIsNotThere(t *testing.T) {
	needsRuntime(t)
	layers := filepath.Join(t.TempDir(), "saved.tar")
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o644}), w.Close(), os.WriteFile(layers, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.tar.gz")
	text.Reset()
	z := gzip.NewWriter(&text)
	_, err := z.Write(bytes.Repeat([]byte("no tar"), 1000))
	if err := errors.Join(err, z.Close(), os.WriteFile(broken, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		image, says string
		unavailable bool
	}{
		{"/nonexistent/image", "no such file", true},
		{"localhost/sandpiper-nonexistent", "image", true},
		{layers, "'export' of a container", false},
		{broken, "unpack", false},
	} {
		state := t.TempDir()
		f, err := openWith(state, nil, container.Options{Image: c.image})
		if err != nil {
			t.Fatal(err)
		}
		repo := sandboxtest.NewRepo(t)
		repo.Commit()
		_, err = f.Manager.Create(t.Context(), "", f.Source(t, repo), sandbox.Options{})
		var not *sandbox.ErrUnavailable
		if err == nil || errors.As(err, &not) != c.unavailable || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.image, err)
		}
		if left, _ := filepath.Glob(filepath.Join(state, "images", "*", "*")); len(left) > 0 {
			t.Errorf("%s: left behind %q", c.image, left)
		}
	}
}
