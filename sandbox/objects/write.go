package objects

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zlib"
	"github.com/pjbgf/sha1cd"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
)

// writer makes a pack of the objects that the repository does not have. It lies under the name of an unfinished pack, which git and
// the keepers of the store know to clear away, until it is whole.
type writer struct {
	ctx    context.Context
	known  *Reader
	file   *os.File
	out    *bufio.Writer
	z      *zlib.Writer
	at     int64
	sum    uint32 // of what is written of one object
	index  []written
	listed map[rawID]bool
}

// written is an object in the pack.
type written struct {
	id  rawID
	sum uint32
	at  int64
}

const (
	packHead = 12      // "PACK", version, number of objects
	small    = 1 << 20 // bytes of an object that is looked for before it is written
)

func newWriter(ctx context.Context, known *Reader) (*writer, error) {
	f, err := os.CreateTemp(filepath.Join(known.dir, "pack"), "tmp_pack_")
	if err != nil {
		return nil, err
	}
	w := &writer{ctx: ctx, known: known, file: f, out: bufio.NewWriterSize(f, 64<<10), listed: map[rawID]bool{}}
	w.z = zlib.NewWriter(w)
	_, err = w.Write(make([]byte, packHead))
	return w, err
}

// Write takes the bytes of the pack.
func (w *writer) Write(b []byte) (int, error) {
	w.sum = crc32.Update(w.sum, crc32.IEEETable, b)
	w.at += int64(len(b))
	return w.out.Write(b)
}

// add writes an object of a size, unless it is there already, and gives its id.
func (w *writer) add(kind byte, size int64, content io.Reader) (string, error) {
	if err := w.ctx.Err(); err != nil {
		return "", err
	}
	if size <= small {
		data, err := io.ReadAll(io.LimitReader(content, size+1))
		if err != nil {
			return "", err
		}
		if int64(len(data)) != size {
			return "", fmt.Errorf("%w: %d bytes where %d were expected", errSize, len(data), size)
		}
		h := newHash(kind, size)
		h.Write(data)
		if id, known, err := w.identify(h); err != nil || known {
			return hex.EncodeToString(id[:]), err
		}
		content = bytes.NewReader(data)
	}
	o, err := w.put(kind, size, content)
	if err != nil {
		return "", err
	}
	if w.listed[o.id] {
		return hex.EncodeToString(o.id[:]), w.rewind(o.at)
	}
	w.listed[o.id] = true
	w.index = append(w.index, o)
	return hex.EncodeToString(o.id[:]), nil
}

// errSize says that a content is longer or shorter than it was.
var errSize = errors.New("the content has another size")

// put writes an object.
func (w *writer) put(kind byte, size int64, content io.Reader) (written, error) {
	o := written{at: w.at}
	w.sum = 0
	b, rest := kind<<4|byte(size&15), size>>4 // see headAt
	head := make([]byte, 0, binary.MaxVarintLen64)
	for ; rest > 0; rest >>= 7 {
		head = append(head, b|0x80)
		b = byte(rest & 0x7f)
	}
	if _, err := w.Write(append(head, b)); err != nil {
		return o, err
	}
	h := newHash(kind, size)
	w.z.Reset(w)
	n, err := io.Copy(io.MultiWriter(h, w.z), io.LimitReader(content, size))
	if err == nil && n == size {
		more, _ := content.Read(make([]byte, 1))
		n += int64(more)
	}
	if err == nil && n != size {
		err = fmt.Errorf("%w: %d or more bytes where %d were expected", errSize, n, size)
	}
	if err = errors.Join(err, w.z.Close()); err != nil {
		return o, err
	}
	o.sum = w.sum
	o.id, err = sum(h)
	return o, err
}

// rewind forgets what was written last.
func (w *writer) rewind(to int64) error {
	err := errors.Join(w.out.Flush(), w.file.Truncate(to))
	_, serr := w.file.Seek(to, io.SeekStart)
	w.at = to
	return errors.Join(err, serr)
}

// identify gives the id, and says whether the object is there.
func (w *writer) identify(h sha1cd.CollisionResistantHash) (id rawID, known bool, err error) {
	if id, err = sum(h); err != nil || w.listed[id] {
		return id, err == nil, err
	}
	known, err = w.known.has(id)
	return id, known, err
}

// newHash begins the id of an object: that of "kind size\0" and the content.
func newHash(kind byte, size int64) sha1cd.CollisionResistantHash {
	h := sha1cd.New().(sha1cd.CollisionResistantHash)
	fmt.Fprintf(h, "%s %d\x00", packedKinds[kind], size)
	return h
}

// sum refuses what was made to have the id of something else (https://shattered.io), as git does.
func sum(h sha1cd.CollisionResistantHash) (id rawID, err error) {
	out, collision := h.CollisionResistantSum(nil)
	if collision {
		return id, fmt.Errorf("a content that was made to collide with another one under SHA-1: %w", git.ErrCorrupt)
	}
	return rawID(out), nil
}

// finish makes the pack whole and puts it in its place; lasting waits for the disk. A pack of nothing is not kept.
func (w *writer) finish(lasting bool) error {
	if err := w.ctx.Err(); err != nil || len(w.index) == 0 {
		return errors.Join(err, w.discard())
	}
	err := w.out.Flush()
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(w.index)))
	_, werr := w.file.WriteAt(head, 0)
	if err = errors.Join(err, werr); err != nil {
		return errors.Join(err, w.discard())
	}
	all := sha1.New()
	if _, err := io.Copy(all, io.NewSectionReader(w.file, 0, w.at)); err != nil {
		return errors.Join(err, w.discard())
	}
	trailer := all.Sum(nil)
	name := filepath.Join(w.known.dir, "pack", "pack-"+hex.EncodeToString(trailer))
	if _, err := w.file.WriteAt(trailer, w.at); err != nil {
		return errors.Join(err, w.discard())
	}
	if err := settle(w.file, name+".pack", lasting); err != nil {
		return err
	}
	index, err := os.CreateTemp(filepath.Dir(name), "tmp_idx_")
	if err != nil {
		return err
	}
	if _, err := index.Write(w.encodeIndex(trailer)); err != nil {
		return errors.Join(err, index.Close(), os.Remove(index.Name()))
	}
	if err := settle(index, name+".idx", lasting); err != nil || !lasting {
		return err
	}
	return durable.SyncDir(filepath.Dir(name))
}

// settle gives a file that is whole its name. All may read it, whatever the umask: a sandbox that has a user of its own does.
func settle(f *os.File, name string, lasting bool) error {
	err := f.Chmod(0o444)
	if err == nil && lasting {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// discard takes the unfinished pack away.
func (w *writer) discard() error { return errors.Join(w.file.Close(), os.Remove(w.file.Name())) }

// encodeIndex writes what openPack and offset read.
func (w *writer) encodeIndex(trailer []byte) []byte {
	slices.SortFunc(w.index, func(a, b written) int { return bytes.Compare(a.id[:], b.id[:]) })
	out := []byte("\xfftOc\x00\x00\x00\x02")
	n := 0
	for first := range 256 {
		for n < len(w.index) && int(w.index[n].id[0]) == first {
			n++
		}
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	for _, o := range w.index {
		out = append(out, o.id[:]...)
	}
	for _, o := range w.index {
		out = binary.BigEndian.AppendUint32(out, o.sum)
	}
	var far []byte
	for _, o := range w.index {
		at := uint32(o.at)
		if o.at >= 1<<31 {
			at = 1<<31 | uint32(len(far)/8)
			far = binary.BigEndian.AppendUint64(far, uint64(o.at))
		}
		out = binary.BigEndian.AppendUint32(out, at)
	}
	out = append(append(out, far...), trailer...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}
