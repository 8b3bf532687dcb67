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

	"golang.org/x/sys/unix"
)

// statSize is what an entry begins with: ctime, mtime (seconds and nanoseconds of each), dev, ino, mode, uid, gid and size, of
// 4 bytes each.
const statSize = 40

// Entry is one file.
type Entry struct {
	head []byte // stat, object id, flags
	path []byte
}

// Index is a whole index, in the order of the paths.
type Index struct {
	Entries []Entry
	idSize  int
	tree    []byte // the TREE extension: ids of the trees that are known
}

// Path is relative to the root of the work tree.
func (e Entry) Path() string { return string(e.path) }

// Name is the last part of the path.
func (e Entry) Name() []byte { return e.path[bytes.LastIndexByte(e.path, '/')+1:] }

// Mode is git's, such as 0o100644.
func (e Entry) Mode() uint32 { return binary.BigEndian.Uint32(e.head[24:]) }

// Mtime is in seconds.
func (e Entry) Mtime() int64 { return int64(binary.BigEndian.Uint32(e.head[8:])) }

// Same says whether the file is the one that the index knows, by what git compares (match_stat_data in read-cache.c).
func (e Entry) Same(st *unix.Stat_t) bool {
	var now [statSize]byte
	putStat(now[:], st)
	// Not the device, which git leaves out too, and not the mode, where git keeps its own.
	return bytes.Equal(now[:16], e.head[:16]) && bytes.Equal(now[20:24], e.head[20:24]) && bytes.Equal(now[28:], e.head[28:statSize])
}

// Was says whether the file is the one that the index knows, and as long: whatever became of its times and owner. An entry of New
// knows no file, and takes any.
func (e Entry) Was(st *unix.Stat_t) bool {
	ino, size := binary.BigEndian.Uint32(e.head[20:]), binary.BigEndian.Uint32(e.head[36:])
	return ino == 0 || ino == uint32(st.Ino) && size == uint32(st.Size)
}

// SetStat makes the index know a file as it is. The mode stays.
func (e Entry) SetStat(st *unix.Stat_t) {
	mode := e.Mode()
	putStat(e.head, st)
	binary.BigEndian.PutUint32(e.head[24:], mode)
}

func putStat(b []byte, st *unix.Stat_t) {
	for i, v := range []int64{st.Ctim.Sec, st.Ctim.Nsec, st.Mtim.Sec, st.Mtim.Nsec, int64(st.Dev), int64(st.Ino), int64(st.Mode), int64(st.Uid),
		int64(st.Gid), st.Size} {
		binary.BigEndian.PutUint32(b[4*i:], uint32(v)) // git cuts them in the same way
	}
}

// New makes an entry for a file of a mode and object id that git may have to look at again: nothing is known of it on the disk.
func New(path string, mode uint32, id []byte) Entry {
	head := make([]byte, statSize+len(id)+2)
	binary.BigEndian.PutUint32(head[24:], mode)
	copy(head[statSize:], id)
	binary.BigEndian.PutUint16(head[statSize+len(id):], uint16(min(len(path), 0xfff)))
	return Entry{head, []byte(path)}
}

func newHash(idSize int) hash.Hash {
	if idSize == sha256.Size {
		return sha256.New()
	}
	return sha1.New()
}

// Parse reads an index whose object ids have idSize bytes: 20, or 32. It keeps data.
func Parse(data []byte, idSize int) (*Index, error) {
	if len(data) < 12+idSize || string(data[:4]) != "DIRC" {
		return nil, errors.New("index: it is none")
	}
	if v := binary.BigEndian.Uint32(data[4:]); v != 2 {
		return nil, fmt.Errorf("index: version %d is not supported", v)
	}
	h := newHash(idSize)
	h.Write(data[:len(data)-idSize])
	if !bytes.Equal(h.Sum(nil), data[len(data)-idSize:]) {
		return nil, errors.New("index: its checksum is wrong")
	}
	x := &Index{idSize: idSize, Entries: make([]Entry, 0, min(binary.BigEndian.Uint32(data[8:]), uint32(len(data)/(statSize+idSize))))}
	rest := data[12 : len(data)-idSize]
	head := statSize + idSize + 2
	for range binary.BigEndian.Uint32(data[8:]) {
		if len(rest) < head {
			return nil, errDamaged
		}
		end := bytes.IndexByte(rest[head:], 0)
		if end < 0 || rest[head-2]&0x30 != 0 { // a stage: a merge that is not finished
			return nil, errDamaged
		}
		size := (head + end + 8) &^ 7
		if size > len(rest) {
			return nil, errDamaged
		}
		x.Entries = append(x.Entries, Entry{rest[:head:head], rest[head : head+end : head+end]})
		rest = rest[size:]
	}
	return x, x.extensions(rest)
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

// Bytes is the index as a file.
func (x *Index) Bytes() []byte {
	size := 12 + 8 + len(x.tree) + x.idSize
	for _, e := range x.Entries {
		size += len(e.head) + len(e.path) + 8
	}
	out := make([]byte, 0, size)
	out = append(out, "DIRC"...)
	out = binary.BigEndian.AppendUint32(out, 2)
	out = binary.BigEndian.AppendUint32(out, uint32(len(x.Entries)))
	var zero [8]byte
	for _, e := range x.Entries {
		n := len(e.head) + len(e.path)
		out = append(append(out, e.head...), e.path...)
		out = append(out, zero[:(n+8)&^7-n]...)
	}
	if len(x.tree) > 0 {
		out = append(out, "TREE"...)
		out = binary.BigEndian.AppendUint32(out, uint32(len(x.tree)))
		out = append(out, x.tree...)
	}
	h := newHash(x.idSize)
	h.Write(out)
	return h.Sum(out)
}
