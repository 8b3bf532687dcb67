package container

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A tarball is the administrator's, and still no name in it may lead out of the directory that it is unpacked to.
func TestUnpackStaysInside(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, headers := range map[string][]tar.Header{
		"parents":           {{Name: "../../../../../../../../" + outside + "/x", Typeflag: tar.TypeReg, Mode: 0o644}},
		"a link":            {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "l/x", Typeflag: tar.TypeReg, Mode: 0o644}},
		"a link of parents": {{Name: "a/l", Typeflag: tar.TypeSymlink, Linkname: "../../../../../../../.." + outside}, {Name: "a/l/x", Typeflag: tar.TypeReg, Mode: 0o644}},
		"a hard link":       {{Name: "x", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"a device":          {{Name: "x", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		_ = unpack(&b, dir) // an error is as good
		if left, _ := os.ReadDir(outside); len(left) > 0 {
			t.Errorf("%s: %s was made outside", name, left[0].Name())
		}
		if info, err := os.Lstat(filepath.Join(dir, "x")); err == nil {
			t.Errorf("%s: %s was made", name, info.Mode())
		}
	}
}

// A tarball is read to its end: what writes it into a pipe would else be ended by that, and a broken one not be seen.
func TestUnpackReadsToTheEnd(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o644}), w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(make([]byte, 1<<20)); err != nil { // as tar fills up a record
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unpack(bytes.NewReader(packed.Bytes()), t.TempDir()); err != nil {
		t.Error(err)
	}
	broken := packed.Bytes()
	broken[len(broken)-8] ^= 1 // of the checksum
	if err := unpack(bytes.NewReader(broken), t.TempDir()); !errors.Is(err, gzip.ErrChecksum) {
		t.Errorf("a broken one: %v", err)
	}
}

// TestUnpackedAfterACrash: what one who was killed has left of an image is gone once it is unpacked.
func TestUnpackedAfterACrash(t *testing.T) {
	t.Parallel()
	i := image{name: "an-image", cache: filepath.Join(t.TempDir(), "images")}
	killed := errors.New("killed")
	for _, left := range []string{"first", "second"} {
		var at string
		err := i.unpacked(t.Context(), left, func(dir string) error {
			at = filepath.Dir(dir)
			return killed
		})
		if !errors.Is(err, killed) {
			t.Fatal(err)
		}
		// As it was before the end of that call.
		if err := os.MkdirAll(filepath.Join(at, "root", left), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := i.unpacked(t.Context(), left, func(dir string) error {
			if found, err := os.ReadDir(dir); len(found) > 0 || err != nil {
				t.Errorf("%s: filled where %d files lie: %v", left, len(found), err)
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", left, err)
		}
	}
	if found, err := filepath.Glob(filepath.Join(i.cache, "new-*")); len(found) > 0 || err != nil {
		t.Errorf("left: %q, %v", found, err)
	}
}
