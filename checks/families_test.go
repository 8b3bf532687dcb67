package checks

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// toolCase reads a file of testdata/tools: `# tool and version; kind: K; tree: files`, what the tool printed, a line of dashes, what
// is found. The files of the tree are empty, or from testdata/tools/files.
func toolCase(t testing.TB, file string) (head, kind string, tree mapTree, log, want string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(data), "\n")
	log, want, _ = strings.Cut(rest, "\n----\n")
	tree = mapTree{}
	for _, part := range strings.Split(head, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), ": ")
		switch key {
		case "kind":
			kind = value
		case "tree":
			for _, name := range strings.Fields(value) {
				text, _ := os.ReadFile(filepath.Join("testdata/tools/files", filepath.Base(name)))
				tree[name] = string(text)
			}
		}
	}
	return head, kind, tree, log, want
}

// Each file of testdata/tools is what a real tool printed, its version on the first line; a few say that they are from documentation.
func TestToolsGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/tools/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			head, kind, tree, log, want := toolCase(t, file)
			if !slices.Contains(Kinds(), kind) {
				t.Fatalf("kind %q", kind)
			}
			source := Source{Root: "/workspace", Tree: tree}
			got := show(Parse(kind, []byte(log), source))
			if *rewrite {
				if err := os.WriteFile(file, []byte(head+"\n"+log+"\n----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" || want == "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if any := show(Parse("", []byte(log), source)); any != got {
				t.Errorf("without a kind (-with +without)\n%s", cmp.Diff(got, any))
			}
		})
	}
}

// TestToolsWithOtherEnds: what tools print is understood with the line ends of Windows, in colours, and behind a byte order mark too.
func TestToolsWithOtherEnds(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/tools/*.txt")
	for _, file := range files {
		_, kind, tree, log, want := toolCase(t, file)
		changed := map[string]string{"CRLF": strings.ReplaceAll(log, "\n", "\r\n"), "byte order mark": "\ufeff" + log}
		if !strings.ContainsAny(log[:1], "[{<") { // documents have no colours
			changed["colours"] = "\x1b[31m" + strings.ReplaceAll(log, "\n", "\x1b[0m\n\x1b[1;31m") + "\x1b[0m"
		}
		for how, log := range changed {
			if diff := cmp.Diff(want, show(Parse(kind, []byte(log), Source{Root: "/workspace", Tree: tree}))); diff != "" {
				t.Errorf("%s with %s (-want +got)\n%s", file, how, diff)
			}
		}
	}
}

func FuzzTools(f *testing.F) {
	files, _ := filepath.Glob("testdata/tools/*.txt")
	tree := mapTree{}
	for _, file := range files {
		_, _, of, log, _ := toolCase(f, file)
		for name, text := range of {
			tree[name] = text
		}
		f.Add([]byte(log))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		for _, kind := range append(Kinds(), "") {
			for _, a := range Parse(kind, log, Source{Root: "/workspace", Tree: tree}).Annotations {
				if !tree.Exists(a.GetPath()) || a.GetStartLine() < 1 || a.GetMessage() == "" || len(a.GetMessage()) > messageMax+200 {
					t.Errorf("kind %q: bad annotation %v", kind, a)
				}
			}
		}
	})
}

// BenchmarkTools parses a megabyte of each tool's lines. 100 MB/s are wanted.
func BenchmarkTools(b *testing.B) {
	files, _ := filepath.Glob("testdata/tools/*.txt")
	for _, file := range files {
		_, _, tree, log, _ := toolCase(b, file)
		if strings.HasPrefix(log, "{") || strings.HasPrefix(log, "[") || strings.HasPrefix(log, "<") {
			continue
		}
		megabyte := bytes.Repeat([]byte(log), 1<<20/len(log)+1)
		b.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(b *testing.B) {
			perCPU(b, len(megabyte), func() { Parse("", megabyte, Source{Root: "/workspace", Tree: tree}) })
		})
	}
}

// perCPU reports MB for each second of the processor's time too: on a busy machine the clock measures its neighbours.
func perCPU(b *testing.B, size int, do func()) {
	b.SetBytes(int64(size))
	var before, after syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	for b.Loop() {
		do()
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	spent := after.Utime.Nano() - before.Utime.Nano()
	b.ReportMetric(float64(size)*float64(b.N)*1e3/float64(max(spent, 1)), "MB/cpu-s")
}
