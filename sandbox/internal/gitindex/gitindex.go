// Package gitindex reads and writes the index of git, version 2, as gitformat-index(5) describes it.
//
// It is for indexes that our own git has just written, or that this package made of one: to correct what they say of files (their
// times, their place on the disk) and to take entries out and in, which git itself would do only by looking at every file.
// It must not be given an index that a sandbox could have written.
package gitindex

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"math"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// statSize is what an entry begins with: ctime, mtime (seconds and nanoseconds of each), dev, ino, mode, uid, gid and size, of
// 4 bytes each.
const statSize = 40

// Entry is one file, as it lies in the index.
type Entry struct {
	raw  []byte // stat, object id, flags, path, and at least one zero up to the next multiple of 8
	head int    // where the path begins
	end  int    // and ends
}

// Index is a whole index, in the order of the paths. It stays as the bytes that it was read as, since most of it is never looked at.
type Index struct {
	data   []byte   // the entries
	at     []uint32 // where each begins in data, and where the last one ends
	idSize int
	tree   []byte // the TREE extension: ids of the trees that are known
}

// Len is the number of entries.
func (x *Index) Len() int { return len(x.at) - 1 }

// Entry gives one of them. What is set in it is set in the index.
func (x *Index) Entry(i int) Entry {
	e, _ := cut(x.data[x.at[i]:x.at[i+1]], x.idSize)
	return e
}

// Entries gives those from one number on, up to another.
func (x *Index) Entries(from, to int) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := from; i < to && yield(x.Entry(i)); i++ {
		}
	}
}

// Find gives the number of the first entry at a path or after it, and whether it is the one at the path.
func (x *Index) Find(path string) (int, bool) {
	return sort.Find(x.Len(), func(i int) int { return strings.Compare(path, string(x.Entry(i).path())) })
}

// cut takes the first entry of some.
func cut(data []byte, idSize int) (e Entry, ok bool) {
	e.head = statSize + idSize + 2
	if len(data) < e.head || data[e.head-2]&0x30 != 0 { // a stage: a merge that is not finished
		return e, false
	}
	length := int(binary.BigEndian.Uint16(data[e.head-2:]) & longName)
	if length == longName { // or more
		if length = bytes.IndexByte(data[e.head:], 0); length < longName {
			return e, false
		}
	}
	e.end = e.head + length
	size := (e.end + 8) &^ 7
	if size > len(data) || data[e.end] != 0 {
		return e, false
	}
	e.raw = data[:size:size]
	return e, true
}

// longName is the length that the flags of an entry tell of a path of as many bytes or more.
const longName = 0xfff

func (e Entry) path() []byte { return e.raw[e.head:e.end] }

// Path is relative to the root of the work tree.
func (e Entry) Path() string { return string(e.path()) }

// Name is the last part of the path.
func (e Entry) Name() []byte { return e.path()[bytes.LastIndexByte(e.path(), '/')+1:] }

// Mode is git's, such as 0o100644.
func (e Entry) Mode() uint32 { return binary.BigEndian.Uint32(e.raw[24:]) }

// Mtime is in seconds.
func (e Entry) Mtime() int64 { return int64(binary.BigEndian.Uint32(e.raw[8:])) }

// Same says whether the file is the one that the index knows, by what git compares (match_stat_data in read-cache.c).
func (e Entry) Same(st *unix.Stat_t) bool {
	var now [statSize]byte
	putStat(now[:], st)
	// Not the device, which git leaves out too, and not the mode, where git keeps its own.
	return bytes.Equal(now[:16], e.raw[:16]) && bytes.Equal(now[20:24], e.raw[20:24]) && bytes.Equal(now[28:], e.raw[28:statSize])
}

// Was says whether the file is the one that the index knows, and as long: whatever became of its times and owner. An entry of New
// knows no file, and takes any.
func (e Entry) Was(st *unix.Stat_t) bool {
	ino, size := binary.BigEndian.Uint32(e.raw[20:]), binary.BigEndian.Uint32(e.raw[36:])
	return ino == 0 || ino == uint32(st.Ino) && size == uint32(st.Size)
}

// SetStat makes the index know a file as it is. The mode stays.
func (e Entry) SetStat(st *unix.Stat_t) {
	mode := e.Mode()
	putStat(e.raw, st)
	binary.BigEndian.PutUint32(e.raw[24:], mode)
}

func putStat(b []byte, st *unix.Stat_t) {
	for i, v := range []int64{st.Ctim.Sec, st.Ctim.Nsec, st.Mtim.Sec, st.Mtim.Nsec, int64(st.Dev), int64(st.Ino), int64(st.Mode), int64(st.Uid),
		int64(st.Gid), st.Size} {
		binary.BigEndian.PutUint32(b[4*i:], uint32(v)) // git cuts them in the same way
	}
}

// New makes an entry for a file of a mode and object id that git may have to look at again: nothing is known of it on the disk.
func New(path string, mode uint32, id []byte) Entry {
	e := Entry{head: statSize + len(id) + 2}
	e.end = e.head + len(path)
	e.raw = make([]byte, (e.end+8)&^7)
	binary.BigEndian.PutUint32(e.raw[24:], mode)
	copy(e.raw[statSize:], id)
	binary.BigEndian.PutUint16(e.raw[e.head-2:], uint16(min(len(path), longName)))
	copy(e.raw[e.head:], path)
	return e
}

func newHash(idSize int) hash.Hash {
	if idSize == sha256.Size {
		return sha256.New()
	}
	return sha1.New()
}

// Parse reads an index whose object ids have idSize bytes: 20, or 32. It keeps data, and changes what is set in entries there. Like git it
// leaves the checksum alone: that takes as long as all the rest.
func Parse(data []byte, idSize int) (*Index, error) {
	if len(data) < 12+idSize || string(data[:4]) != "DIRC" {
		return nil, errors.New("index: it is none")
	}
	if v := binary.BigEndian.Uint32(data[4:]); v != 2 {
		return nil, fmt.Errorf("index: version %d is not supported", v)
	}
	if len(data) > math.MaxUint32 {
		return nil, errors.New("index: too large")
	}
	count := binary.BigEndian.Uint32(data[8:])
	rest := data[12 : len(data)-idSize]
	x := &Index{idSize: idSize, data: rest, at: make([]uint32, 0, min(int(count), len(rest)/(statSize+idSize))+1)}
	at := 0
	for range count {
		e, ok := cut(rest[at:], idSize)
		if !ok {
			return nil, errDamaged
		}
		x.at = append(x.at, uint32(at))
		at += len(e.raw)
	}
	x.at = append(x.at, uint32(at))
	x.data = rest[:at:at]
	return x, x.extensions(rest[at:])
}

var errDamaged = errors.New("index: it is damaged")

// extensions keeps the one that can be carried on. The others say where entries lie in the file.
func (x *Index) extensions(rest []byte) error {
	for len(rest) >= 8 {
		size := int(binary.BigEndian.Uint32(rest[4:]))
		if size > len(rest)-8 {
			return errDamaged
		}
		if string(rest[:4]) == "TREE" {
			x.tree = rest[8 : 8+size]
		}
		rest = rest[8+size:]
	}
	return nil
}

// Write writes the index as a file.
func (x *Index) Write(w io.Writer) error {
	head := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x02"), uint32(x.Len()))
	var tail []byte
	if len(x.tree) > 0 {
		tail = append(binary.BigEndian.AppendUint32([]byte("TREE"), uint32(len(x.tree))), x.tree...)
	}
	sum := make(chan []byte)
	go func() { // it takes as long as the writing
		h := newHash(x.idSize)
		for _, part := range [][]byte{head, x.data, tail} {
			h.Write(part)
		}
		sum <- h.Sum(nil)
	}()
	var err error
	for _, part := range [][]byte{head, x.data, tail} {
		if err == nil {
			_, err = w.Write(part)
		}
	}
	if last := <-sum; err == nil {
		_, err = w.Write(last)
	}
	return err
}
