package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Head is the last record of a chain. Kept elsewhere, it says later whether the chain up to it is still the same.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// Report is what Verify found of one copy of the chain.
type Report struct {
	Where    string   `json:"where"` // the database, or a directory
	First    int64    `json:"first"` // 0: there is no record
	Records  int64    `json:"records"`
	Head     Head     `json:"head"`
	Problems []string `json:"problems"`

	hashes map[int64]string
}

// OK says that nothing was found.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

func (r *Report) problem(format string, args ...any) {
	const most = 100
	if len(r.Problems) < most {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// add judges the next record as it was found.
func (r *Report) add(one item) {
	seq := one.record.Seq
	last := r.Head
	if r.Records == 0 {
		r.First = seq
		r.hashes = map[int64]string{}
	}
	switch {
	case r.Records == 0 && seq == 1 && one.record.Prev != noPrev:
		r.problem("record 1 says that there was one before it")
	case r.Records > 0 && seq > last.Seq+1:
		r.problem("%s missing between record %d and record %d", numbers(last.Seq+1, seq-1), last.Seq, seq)
	case r.Records > 0 && seq <= last.Seq:
		r.problem("record %d stands after record %d: records were moved or written twice", seq, last.Seq)
	case r.Records > 0 && one.record.Prev != last.Hash:
		r.problem("record %d does not follow record %d as that is now: one of them was changed", seq, last.Seq)
	}
	if hashOf(one.text) != one.hash {
		r.problem("record %d was changed: its text does not have its hash", seq)
	}
	r.Records++
	r.Head = Head{seq, one.hash}
	r.hashes[seq] = one.hash
}

func numbers(from, to int64) string {
	if from == to {
		return fmt.Sprintf("record %d is", from)
	}
	return fmt.Sprintf("records %d to %d are", from, to)
}

// VerifyChain reads the whole chain of a database. Its order is that of the numbers.
func VerifyChain(ctx context.Context, chain Chain) (*Report, error) {
	r := &Report{Where: "database", Problems: []string{}}
	for after := int64(0); ; {
		rows, err := chain.Audit(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			r.addRow(row)
			after = row.Seq
		}
		if len(rows) < page {
			break
		}
	}
	if r.Records > 0 && r.First != 1 {
		r.problem("%s missing at the beginning", numbers(1, r.First-1))
	}
	return r, nil
}

func (r *Report) addRow(row store.AuditRow) {
	one := item{text: row.Record, hash: row.Hash}
	if err := json.Unmarshal([]byte(row.Record), &one.record); err != nil {
		r.problem("record %d was changed: it is no record any more", row.Seq)
		one.record.Seq = row.Seq
	}
	if one.record.Seq != row.Seq || one.record.Kind != row.Kind || one.record.Mission != row.Mission || one.record.Run != row.Run {
		r.problem("record %d was changed: what it is found by does not agree with its text", row.Seq)
	}
	r.add(one)
}

// Verify reads all files. Older ones may have been moved away, so they may begin with any record.
func (f *Files) Verify() (*Report, error) {
	files, err := f.list()
	if err != nil {
		return nil, err
	}
	r, err := VerifyFiles(files...)
	if err == nil {
		r.Where = f.Dir
	}
	return r, err
}

// VerifyFiles reads files that hold one chain, in the order given.
func VerifyFiles(paths ...string) (*Report, error) {
	r := &Report{Where: "files", Problems: []string{}}
	for _, path := range paths {
		for one, err := range linesOf(path) {
			if err != nil && one.record.Seq == 0 {
				r.problem("%v", err)
				continue
			}
			r.add(one)
		}
	}
	return r, nil
}

// Compare finds what only one of two copies has, or both have differently.
func (r *Report) Compare(other *Report) {
	if r.Records == 0 && other.Records == 0 {
		return
	}
	low := max(r.First, other.First)
	for seq := low; seq <= min(r.Head.Seq, other.Head.Seq); seq++ {
		if a, b := r.hashes[seq], other.hashes[seq]; a != "" && b != "" && a != b {
			r.problem("record %d in the %s is not the one in %s: one of them was written anew", seq, r.Where, other.Where)
			return
		}
	}
	if other.Head.Seq > r.Head.Seq {
		r.problem("%s missing at the end of the %s: %s has them", numbers(r.Head.Seq+1, other.Head.Seq), r.Where, other.Where)
	}
}

// Expect holds the chain against a head that was kept elsewhere.
func (r *Report) Expect(head Head) {
	switch got := r.hashes[head.Seq]; {
	case got == "" && head.Seq > r.Head.Seq:
		r.problem("%s missing at the end: the chain had reached record %d", numbers(r.Head.Seq+1, head.Seq), head.Seq)
	case got != head.Hash:
		r.problem("record %d is not the one that was kept: the chain was written anew", head.Seq)
	}
}

// Export writes the chain after a record as lines, for another system to keep.
func Export(ctx context.Context, chain Chain, after int64, out io.Writer) error {
	for {
		rows, err := chain.Audit(ctx, after, page)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if _, err := io.WriteString(out, line(row.Record, row.Hash)+"\n"); err != nil {
				return err
			}
			after = row.Seq
		}
		if len(rows) < page {
			return nil
		}
	}
}
