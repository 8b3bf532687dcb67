package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
)

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.json")
	var got map[string]int
	if err := durable.ReadJSON(path, &got); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	for i := range 3 {
		if err := durable.WriteJSON(path, map[string]int{"n": i}); err != nil {
			t.Fatal(err)
		}
		if err := durable.ReadJSON(path, &got); err != nil || got["n"] != i {
			t.Errorf("read %v, %v; want %d", got, err, i)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are there (%v), want 1", len(entries), err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestFailureKeepsTheOld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.json")
	if err := durable.WriteJSON(path, 1); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteJSON(path, func() {}); err == nil {
		t.Error("a function as JSON: no error")
	}
	if err := durable.Write(filepath.Join(path, "below"), nil); err == nil {
		t.Error("below a file: no error")
	}
	var got int
	if err := durable.ReadJSON(path, &got); err != nil || got != 1 {
		t.Errorf("read %d, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.ReadJSON(path, &got); err == nil {
		t.Error("half of a file: no error")
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.json")
	var got int
	for i := range 3 {
		if err := durable.ReplaceJSON(path, i); err != nil {
			t.Fatal(err)
		}
		if err := durable.ReadJSON(path, &got); err != nil || got != i {
			t.Errorf("read %d, %v; want %d", got, err, i)
		}
	}
	if err := os.Truncate(path, 0); err != nil { // a power cut
		t.Fatal(err)
	}
	if err := durable.ReadJSON(path, &got); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing in it: %v", err)
	}
}
