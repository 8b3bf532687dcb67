package container

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// unpack writes the root file system that a tarball holds, plain or by gzip. What has no place in one that is only read is left
// out: devices, pipes, owners, the bits by which a program gets another user. No name leads out of the directory.
func unpack(r io.Reader, dir string) error {
	in := bufio.NewReader(r)
	var files io.Reader = in
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		files = z
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewReader(files)
	modes := map[string]os.FileMode{} // of directories, which may be closed to ourselves while something is still to come
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if name == "" {
			continue
		}
		if name == "manifest.json" || name == "oci-layout" {
			return errors.New("unpack: these are the layers of an image, as 'save' writes them; 'export' of a container writes a root file system")
		}
		if h.Typeflag == tar.TypeDir {
			modes[name] = h.FileInfo().Mode().Perm()
		}
		if err := unpackOne(root, name, h, archive); err != nil {
			return fmt.Errorf("unpack %q: %w", name, err)
		}
	}
	// What follows is padding: it holds the checksum of gzip, and whoever writes it is not to find that nobody reads.
	if _, err := io.Copy(io.Discard, files); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	for name, mode := range modes {
		if err := root.Chmod(name, mode|0o500); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("unpack %q: %w", name, err)
		}
	}
	return nil
}

func unpackOne(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Chmod(h.FileInfo().Mode().Perm()), f.Close())
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(strings.TrimPrefix(path.Clean("/"+h.Linkname), "/"), name)
	}
	return nil
}
