package objects

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// pack is one pack and its index: a fan-out table with the number of ids up to each first byte, the sorted ids, checksums, offsets,
// and a table of those offsets that need 64 bits.
type pack struct {
	name  string // without .idx or .pack
	index *os.File
	data  *os.File // nil until something is read of it
	fan   [256]uint32
}

// place is where an object begins.
type place struct {
	pack *pack
	at   int64
}

// list looks for the packs: once, and again when it is asked to.
func (r *Reader) list(again bool) error {
	if r.listed && !again {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(r.dir, "pack"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.listed = true
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".idx")
		if !ok || r.names[name] {
			continue
		}
		p, err := openPack(filepath.Join(r.dir, "pack", name))
		if errors.Is(err, fs.ErrNotExist) { // packed anew at this moment
			continue
		}
		if err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		r.names[name] = true
		r.packs = append(r.packs, p)
	}
	return nil
}

const (
	indexHead = 8                 // "\377tOc" and version 2
	indexIDs  = indexHead + 4*256 // where the ids begin
)

func openPack(name string) (*pack, error) {
	index, err := os.Open(name + ".idx")
	if err != nil {
		return nil, err
	}
	p := &pack{name: name, index: index}
	head := make([]byte, indexIDs)
	if _, err := index.ReadAt(head, 0); err != nil || string(head[:indexHead]) != "\xfftOc\x00\x00\x00\x02" {
		p.close()
		return nil, fmt.Errorf("its index is not of version 2 (%v): %w", err, git.ErrCorrupt)
	}
	var before uint32
	for i := range p.fan {
		p.fan[i] = binary.BigEndian.Uint32(head[indexHead+4*i:])
		if p.fan[i] < before {
			p.close()
			return nil, fmt.Errorf("the order of its index: %w", git.ErrCorrupt)
		}
		before = p.fan[i]
	}
	// The data now: whoever packs anew may remove it, and an open file stays readable.
	if p.data, err = os.Open(name + ".pack"); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pack) close() {
	p.index.Close()
	if p.data != nil {
		p.data.Close()
	}
}

// chunk is how many ids are read at once. The ids of a first byte are halved until they fit.
const chunk = 256

// offset looks an object up.
func (p *pack) offset(id rawID) (at int64, ok bool, err error) {
	low, high := int64(0), int64(p.fan[id[0]])
	if id[0] > 0 {
		low = int64(p.fan[id[0]-1])
	}
	var buf [chunk * idSize]byte
	for high-low > chunk {
		middle := (low + high) / 2
		if _, err := p.index.ReadAt(buf[:idSize], indexIDs+idSize*middle); err != nil {
			return 0, false, damaged(err)
		}
		if bytes.Compare(buf[:idSize], id[:]) > 0 {
			high = middle
		} else {
			low = middle
		}
	}
	ids := buf[:idSize*(high-low)]
	if _, err := p.index.ReadAt(ids, indexIDs+idSize*low); err != nil && len(ids) > 0 {
		return 0, false, damaged(err)
	}
	i := int64(sort.Search(int(high-low), func(i int) bool { return bytes.Compare(ids[idSize*i:idSize*(i+1)], id[:]) >= 0 }))
	if i == high-low || !bytes.Equal(ids[idSize*i:idSize*(i+1)], id[:]) {
		return 0, false, nil
	}
	at, err = p.offsetOf(low + i)
	return at, err == nil, err
}

func (p *pack) offsetOf(i int64) (int64, error) {
	count := int64(p.fan[255])
	offsets := indexIDs + (idSize+4)*count
	var b [8]byte
	if _, err := p.index.ReadAt(b[:4], offsets+4*i); err != nil {
		return 0, damaged(err)
	}
	at := binary.BigEndian.Uint32(b[:])
	if at&(1<<31) == 0 {
		return int64(at), nil
	}
	if _, err := p.index.ReadAt(b[:], offsets+4*count+8*int64(at&^(1<<31))); err != nil {
		return 0, damaged(err)
	}
	return int64(binary.BigEndian.Uint64(b[:])), nil
}

// The types of objects in a pack.
const (
	packedCommit    = 1
	packedTree      = 2
	packedBlob      = 3
	packedByOffset  = 6 // a delta against what lies that far before
	packedByID      = 7 // a delta against an object of the same pack
	longestChain    = 4096
	mostHeldOfBases = 16 << 20
)

var packedKinds = map[byte]string{packedCommit: Commit, packedTree: Tree, packedBlob: Blob, 4: "tag"}

// head is what an object in a pack begins with.
type head struct {
	kind byte
	size int64 // of what follows, when it is inflated
	base int64 // for deltas: where that against which they are is
	data int64 // where the deflated bytes begin
}

// headAt reads type and size (3 bits and the lowest 4, then 7 a byte, lowest first) and what a delta is against.
func (r *Reader) headAt(p *pack, at int64) (h head, err error) {
	var buf [64]byte
	n, err := p.data.ReadAt(buf[:], at)
	if n < idSize+1 { // each pack ends with a checksum
		return h, damaged(errors.Join(err, io.ErrUnexpectedEOF))
	}
	b := buf[:n]
	h.kind, h.size = b[0]>>4&7, int64(b[0]&15)
	i := 1
	for shift := 4; b[i-1]&0x80 != 0; shift += 7 {
		if shift > 60-7 {
			return h, fmt.Errorf("size in a pack: %w", git.ErrCorrupt)
		}
		h.size |= int64(b[i]&0x7f) << shift
		i++
	}
	switch h.kind {
	case packedByOffset: // 7 bits a byte, highest first, each further byte stands for one more
		back := int64(b[i] & 0x7f)
		for i++; b[i-1]&0x80 != 0; i++ {
			if back > at>>7 {
				return h, fmt.Errorf("base of a delta: %w", git.ErrCorrupt)
			}
			back = (back+1)<<7 | int64(b[i]&0x7f)
		}
		if h.base = at - back; back == 0 || h.base < 12 {
			return h, fmt.Errorf("base of a delta: %w", git.ErrCorrupt)
		}
	case packedByID:
		if len(b) < i+idSize {
			return h, damaged(io.ErrUnexpectedEOF)
		}
		base, ok, err := p.offset(rawID(b[i : i+idSize]))
		if err != nil || !ok {
			return h, errors.Join(err, fmt.Errorf("base %s of a delta: %w", hex.EncodeToString(b[i:i+idSize]), git.ErrCorrupt))
		}
		h.base, i = base, i+idSize
	default:
		if packedKinds[h.kind] == "" {
			return h, fmt.Errorf("type %d in a pack: %w", h.kind, git.ErrCorrupt)
		}
	}
	h.data = at + int64(i)
	return h, nil
}

func (h head) isDelta() bool { return h.kind == packedByOffset || h.kind == packedByID }

// packed reads an object of a pack: what its deltas are in the end against, and then one delta after the other.
func (r *Reader) packed(p *pack, at int64) (found, error) {
	var deltas []head
	var from found
	starts := []int64{at}
	for from.kind == "" {
		if known, ok := r.bases[place{p, at}]; ok {
			from = known
			break
		}
		h, err := r.headAt(p, at)
		if err != nil {
			return found{}, err
		}
		if !h.isDelta() {
			from.kind = packedKinds[h.kind]
			if from.data, err = r.content(p, h); err != nil {
				return found{}, err
			}
			break
		}
		if deltas = append(deltas, h); len(deltas) > longestChain {
			return found{}, fmt.Errorf("a chain of more than %d deltas: %w", longestChain, git.ErrCorrupt)
		}
		at = h.base
		starts = append(starts, at)
	}
	for i := len(deltas) - 1; i >= 0; i-- {
		r.hold(place{p, starts[i+1]}, from)
		delta, err := r.content(p, deltas[i])
		if err != nil {
			return found{}, err
		}
		if from.data, err = applyDelta(from.data, delta); err != nil {
			return found{}, err
		}
	}
	return from, nil
}

func (r *Reader) content(p *pack, h head) ([]byte, error) {
	content, err := r.inflater(io.NewSectionReader(p.data, h.data, 1<<62))
	if err != nil {
		return nil, err
	}
	return exactly(content, h.size)
}

// hold keeps what further deltas are likely to be against: neighbours in the history of one path are in one chain.
func (r *Reader) hold(at place, o found) {
	if _, ok := r.bases[at]; ok {
		return
	}
	if r.held += len(o.data); r.held > mostHeldOfBases {
		clear(r.bases)
		r.held = len(o.data)
	}
	r.bases[at] = o
}

// packedSize gives the size of an object: for a delta it is the second number in it.
func (r *Reader) packedSize(p *pack, at int64) (int64, error) {
	h, err := r.headAt(p, at)
	if err != nil || !h.isDelta() {
		return h.size, err
	}
	content, err := r.inflater(io.NewSectionReader(p.data, h.data, 1<<62))
	if err != nil {
		return 0, err
	}
	buf := make([]byte, min(h.size, 2*binary.MaxVarintLen64))
	if _, err := io.ReadFull(content, buf); err != nil {
		return 0, damaged(err)
	}
	_, n := binary.Uvarint(buf)
	if n <= 0 {
		return 0, git.ErrCorrupt
	}
	size, n := binary.Uvarint(buf[n:])
	if n <= 0 || size > 1<<62 {
		return 0, git.ErrCorrupt
	}
	return int64(size), nil
}

// applyDelta makes an object of another one: sizes of both, then pieces to copy (a first byte from 0x80 whose bits say which bytes of
// offset and size follow) and bytes to add.
func applyDelta(base, delta []byte) ([]byte, error) {
	from, n := binary.Uvarint(delta)
	if n <= 0 || from != uint64(len(base)) {
		return nil, fmt.Errorf("a delta against %d bytes: %w", from, git.ErrCorrupt)
	}
	delta = delta[n:]
	size, n := binary.Uvarint(delta)
	if n <= 0 || size > most {
		return nil, fmt.Errorf("a delta that makes %d bytes: %w", size, git.ErrCorrupt)
	}
	delta = delta[n:]
	out := make([]byte, 0, size)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		piece := delta
		if op&0x80 != 0 {
			var v [7]byte
			for i := range v {
				if op&(1<<i) == 0 {
					continue
				}
				if len(delta) == 0 {
					return nil, git.ErrCorrupt
				}
				v[i], delta = delta[0], delta[1:]
			}
			at := uint64(v[0]) | uint64(v[1])<<8 | uint64(v[2])<<16 | uint64(v[3])<<24
			length := uint64(v[4]) | uint64(v[5])<<8 | uint64(v[6])<<16
			if length == 0 {
				length = 0x10000
			}
			if at+length > uint64(len(base)) {
				return nil, git.ErrCorrupt
			}
			piece = base[at : at+length]
		} else {
			if op == 0 || int(op) > len(delta) {
				return nil, git.ErrCorrupt
			}
			piece, delta = delta[:op], delta[op:]
		}
		if uint64(len(out)+len(piece)) > size {
			return nil, git.ErrCorrupt
		}
		out = append(out, piece...)
	}
	if uint64(len(out)) != size {
		return nil, git.ErrCorrupt
	}
	return out, nil
}
