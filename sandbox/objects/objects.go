// Package objects reads and writes objects of a bare repository: blobs, trees and commits, in packs and in files of their own, as
// gitformat-pack(5) and gitrepository-layout(5) describe them. A git process takes longer to start than all that a run needs to know
// of its base, and all that it adds.
//
// The cost is that of the objects that are asked for: of an index only the part is read that leads to them. Nothing is read
// from a working tree: no index, no filter, no hook. What is written is one pack with one commit on a parent.
//
// The package must not decide what may be in a tree: it takes any path, also .git/config. It knows repositories with SHA-1 that
// have their objects themselves: no alternates, no replacements, no objects that are fetched on demand.
package objects

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zlib"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// The kinds of objects.
const (
	Blob   = "blob"
	Tree   = "tree"
	Commit = "commit"
)

// idSize is that of SHA-1.
const idSize = 20

type rawID [idSize]byte

func parseID(id string) (raw rawID, err error) {
	if n, err := hex.Decode(raw[:], []byte(id)[:min(len(id), 2*idSize)]); err != nil || n != idSize || len(id) != 2*idSize {
		return raw, fmt.Errorf("object id %.100q: %w", id, git.ErrCorrupt)
	}
	return raw, nil
}

// most is the size of the largest object that Get holds in memory.
const most = 256 << 20

// Reader reads objects. It is not safe for concurrent use.
type Reader struct {
	dir     string // of the objects
	packs   []*pack
	listed  bool
	names   map[string]bool // of the packs that are known
	source  *bufio.Reader
	inflate io.ReadCloser
	bases   map[place]found // what deltas were made against
	held    int             // bytes in bases
}

// found is an object.
type found struct {
	kind string
	data []byte
}

// Open reads the repository whose git directory this is.
func Open(gitDir string) *Reader {
	return &Reader{dir: filepath.Join(gitDir, "objects"), names: map[string]bool{}, bases: map[place]found{}, source: bufio.NewReader(nil)}
}

// Close gives the descriptors back.
func (r *Reader) Close() {
	for _, p := range r.packs {
		p.close()
	}
	r.packs = nil
}

// Get gives an object. Its content is not to be changed: it may be what others are made from. An object that is not there, or not as it should be, is git.ErrCorrupt.
func (r *Reader) Get(id string) (kind string, data []byte, err error) {
	var o found
	err = r.find(id, func(p *pack, at int64) (err error) {
		o, err = r.packed(p, at)
		return err
	}, func(kind string, size int64, content io.Reader) (err error) {
		o.kind = kind
		o.data, err = exactly(content, size)
		return err
	})
	return o.kind, o.data, err
}

// Expect is Get for an object that has to be of a kind.
func (r *Reader) Expect(id, kind string) ([]byte, error) {
	is, data, err := r.Get(id)
	if err == nil && is != kind {
		err = fmt.Errorf("object %s is a %s and no %s: %w", id, is, kind, git.ErrCorrupt)
	}
	return data, err
}

// Size gives the size of an object without reading the whole.
func (r *Reader) Size(id string) (size int64, err error) {
	err = r.find(id, func(p *pack, at int64) (err error) {
		size, err = r.packedSize(p, at)
		return err
	}, func(_ string, n int64, _ io.Reader) error {
		size = n
		return nil
	})
	return size, err
}

// Has says whether an object is there. It does not look for packs that are younger than the first question.
func (r *Reader) Has(id string) (bool, error) {
	raw, err := parseID(id)
	if err != nil {
		return false, err
	}
	return r.has(raw)
}

func (r *Reader) has(id rawID) (bool, error) {
	if err := r.list(false); err != nil {
		return false, err
	}
	for _, p := range r.packs {
		if _, ok, err := p.offset(id); err != nil || ok {
			return ok, err
		}
	}
	_, err := os.Stat(r.loosePath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// find calls one of two functions with where an object is. Who packs a store anew removes the old after the new is there: what is
// found nowhere is looked for once more.
func (r *Reader) find(id string, packed func(*pack, int64) error, loose func(kind string, size int64, content io.Reader) error) error {
	raw, err := parseID(id)
	if err != nil {
		return err
	}
	for _, again := range []bool{false, true} {
		if err := r.list(again); err != nil {
			return err
		}
		for _, p := range r.packs {
			at, ok, err := p.offset(raw)
			if err == nil && ok {
				err = packed(p, at)
			}
			if err != nil {
				return fmt.Errorf("object %s: %w", id, err)
			}
			if ok {
				return nil
			}
		}
		err := r.loose(raw, loose)
		if !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				err = fmt.Errorf("object %s: %w", id, err)
			}
			return err
		}
	}
	return fmt.Errorf("object %s is missing: %w", id, git.ErrCorrupt)
}

func (r *Reader) loosePath(id rawID) string {
	name := hex.EncodeToString(id[:])
	return filepath.Join(r.dir, name[:2], name[2:])
}

// loose reads an object that has a file of its own: "kind size\0" and the content, deflated.
func (r *Reader) loose(id rawID, read func(kind string, size int64, content io.Reader) error) error {
	f, err := os.Open(r.loosePath(id))
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := r.inflater(f)
	if err != nil {
		return err
	}
	content := bufio.NewReaderSize(z, 512)
	head, err := content.ReadSlice(0)
	if err != nil {
		return damaged(err)
	}
	kind, number, _ := strings.Cut(strings.TrimSuffix(string(head), "\x00"), " ")
	size, err := strconv.ParseInt(number, 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("head %.40q: %w", head, git.ErrCorrupt)
	}
	return read(kind, size, content)
}

// inflater gives what a deflated stream holds. There is one at a time.
func (r *Reader) inflater(from io.Reader) (io.Reader, error) {
	r.source.Reset(from)
	var err error
	if r.inflate == nil {
		r.inflate, err = zlib.NewReader(r.source)
	} else {
		err = r.inflate.(zlib.Resetter).Reset(r.source, nil)
	}
	return r.inflate, damaged(err)
}

// exactly reads all of what has to have a size.
func exactly(from io.Reader, size int64) ([]byte, error) {
	if size > most {
		return nil, fmt.Errorf("%d bytes are more than the %d that are read at once", size, int64(most))
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(from, data); err != nil {
		return nil, damaged(err)
	}
	if n, err := from.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than the %d bytes that it should have (%v): %w", size, err, git.ErrCorrupt)
	}
	return data, nil
}

// damaged marks what is wrong with the bytes. What the disk says stays as it is.
func damaged(err error) error {
	var disk *fs.PathError
	if err == nil || errors.As(err, &disk) {
		return err
	}
	return fmt.Errorf("%w: %w", git.ErrCorrupt, err)
}
