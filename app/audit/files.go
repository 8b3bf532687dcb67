package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Files are the copy of the chain as JSON lines:
//
//	<dir>/audit.jsonl                     the newest
//	<dir>/audit-<first>-<last>.jsonl      older ones, which are never written again and may be moved away
type Files struct {
	Dir  string
	Most int64 // bytes at which the newest file becomes an older one; 0: 64 MiB
}

const newest = "audit.jsonl"

// page is how many records are read at once.
const page = 500

// follow appends what the chain has and the files have not.
func (f *Files) follow(ctx context.Context, chain Chain) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("audit files: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(f.Dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("audit files: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil { // for as long as it takes to write some lines
		return fmt.Errorf("audit files: %w", err)
	}
	for {
		seq, hash, err := f.head()
		if err != nil {
			return err
		}
		rows, err := chain.Audit(ctx, max(0, seq-1), page)
		if err != nil {
			return err
		}
		if seq > 0 {
			if len(rows) == 0 || rows[0].Seq != seq || rows[0].Hash != hash {
				return fmt.Errorf("audit files: record %d of the database is not the one in %s; see 'sandpiper audit verify'", seq, f.Dir)
			}
			rows = rows[1:]
		}
		if len(rows) == 0 {
			return nil
		}
		if err := f.write(rows); err != nil {
			return err
		}
	}
}

func (f *Files) write(rows []store.AuditRow) error {
	var text bytes.Buffer
	for _, r := range rows {
		text.WriteString(line(r.Record, r.Hash) + "\n")
	}
	path := filepath.Join(f.Dir, newest)
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("audit files: %w", err)
	}
	_, err = out.Write(text.Bytes())
	info, serr := out.Stat()
	if err = errors.Join(err, serr, out.Close()); err != nil {
		return fmt.Errorf("audit files: %w", err)
	}
	most := f.Most
	if most == 0 {
		most = 64 << 20
	}
	if info.Size() < most {
		return nil
	}
	first, err := firstSeq(path)
	if err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(f.Dir, fmt.Sprintf("audit-%012d-%012d.jsonl", first, rows[len(rows)-1].Seq)))
}

// list gives the files, the oldest first.
func (f *Files) list() ([]string, error) {
	entries, err := os.ReadDir(f.Dir) // sorted, and "audit-" is before "audit."
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var found []string
	for _, e := range entries {
		if name := e.Name(); name == newest || strings.HasPrefix(name, "audit-") && strings.HasSuffix(name, ".jsonl") {
			found = append(found, filepath.Join(f.Dir, name))
		}
	}
	return found, err
}

// head is the last record of the files; a line that a crash has left half written is cut off. Zero: there is none.
func (f *Files) head() (seq int64, hash string, err error) {
	files, err := f.list()
	if err != nil {
		return 0, "", fmt.Errorf("audit files: %w", err)
	}
	for _, path := range slices.Backward(files) {
		last, err := lastLine(path)
		if err != nil {
			return 0, "", fmt.Errorf("audit file %s: %w", path, err)
		}
		if last == "" {
			continue
		}
		text, hash, err := unline(last)
		if err != nil {
			return 0, "", fmt.Errorf("audit file %s: %w", path, err)
		}
		var r Record
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return 0, "", fmt.Errorf("audit file %s: %w", path, err)
		}
		return r.Seq, hash, nil
	}
	return 0, "", nil
}

func lastLine(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	// Two records and some: the last whole one is in it.
	from := max(0, info.Size()-2*(mostData+8*mostText))
	tail := make([]byte, info.Size()-from)
	if _, err := file.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	end := bytes.LastIndexByte(tail, '\n')
	if end < len(tail)-1 {
		if err := file.Truncate(from + int64(end) + 1); err != nil {
			return "", err
		}
	}
	if end < 0 {
		return "", nil
	}
	begin := bytes.LastIndexByte(tail[:end], '\n')
	return string(tail[begin+1 : end]), nil
}

func firstSeq(path string) (int64, error) {
	for item, err := range linesOf(path) {
		return item.record.Seq, err
	}
	return 0, fmt.Errorf("audit file %s is empty", path)
}

// item is one record as it was found, and where.
type item struct {
	record     Record
	text, hash string
}

// linesOf reads a file of records.
func linesOf(path string) func(yield func(item, error) bool) {
	return func(yield func(item, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(item{}, fmt.Errorf("audit file: %w", err))
			return
		}
		defer file.Close()
		in := bufio.NewScanner(file)
		in.Buffer(nil, 4*mostData)
		for n := 1; in.Scan(); n++ {
			if strings.TrimSpace(in.Text()) == "" {
				continue
			}
			one, err := parse(in.Text())
			if err != nil {
				err = fmt.Errorf("%s line %d: %w", path, n, err)
			}
			if !yield(one, err) {
				return
			}
		}
		if err := in.Err(); err != nil {
			yield(item{}, fmt.Errorf("audit file %s: %w", path, err))
		}
	}
}

func parse(line string) (item, error) {
	var one item
	var err error
	if one.text, one.hash, err = unline(line); err != nil {
		return one, err
	}
	return one, json.Unmarshal([]byte(one.text), &one.record)
}
