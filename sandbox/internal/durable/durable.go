// Package durable writes small files so that a reader, or the next start after a crash, sees the old or the new content
// and never half of one.
package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteJSON writes v as JSON to path: a temporary file beside it, fsync, rename, fsync of the directory. Mode 0600.
func WriteJSON(path string, v any) error { return writeJSON(path, v, true) }

// ReplaceJSON is WriteJSON for what may be lost in a power cut: without the two waits for the disk. What is left after one may be the
// old content, or nothing.
func ReplaceJSON(path string, v any) error { return writeJSON(path, v, false) }

func writeJSON(path string, v any, lasting bool) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return write(path, append(data, '\n'), lasting)
}

// Write writes data to path as WriteJSON does.
func Write(path string, data []byte) error { return write(path, data, true) }

func write(path string, data []byte, lasting bool) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil && lasting {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	if lasting {
		if err := SyncDir(dir); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// ReadJSON reads a file that WriteJSON or ReplaceJSON wrote. A missing file is os.ErrNotExist, and so is an empty one, which a power
// cut can leave of what was not waited for.
func ReadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return &os.PathError{Op: "read", Path: path, Err: os.ErrNotExist}
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
