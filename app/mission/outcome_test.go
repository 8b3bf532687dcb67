package mission

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// declared are the outcomes as the source declares them, so that none is left out of the test below.
func declared(t *testing.T) (all []outcome.Outcome) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../outcome/outcome.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Outcome" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, outcome.Outcome(text))
		}
		return true
	})
	if len(all) < 9 {
		t.Fatalf("%d outcomes", len(all))
	}
	return all
}

// TestOneVocabularyOfOutcomes: the status comment, the pull request, the error in the log and the documentation say the same word,
// each with what to do next.
func TestOneVocabularyOfOutcomes(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/developer.md")
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e := New(Config{Store: db, Now: time.Now})
	seen := map[string]outcome.Outcome{}
	for _, o := range declared(t) {
		m := &store.Mission{ID: "m-1", Kind: store.KindIssue, Run: "r-1-2", Attempt: 2, Step: stepClose, Outcome: string(o), Message: "because"}
		if said := e.statusText(t.Context(), m); !strings.Contains(said, "**"+string(o)+"**: because") || !strings.Contains(said, o.Next()) {
			t.Errorf("%s: the status comment says\n%s", o, said)
		}
		m.Pull, m.Step = 7, stepArchive
		if said := roundText(m, 2); !strings.Contains(said, "**"+string(o)+"**") || o != outcome.Changed && !strings.Contains(said, followNext) {
			t.Errorf("%s: the pull request says\n%s", o, said)
		}
		if said := outcome.End(o, nil, "because").Error(); said != string(o)+": because" {
			t.Errorf("%s: the log says %q", o, said)
		}
		if !strings.Contains(string(docs), "\n| "+string(o)+" |") {
			t.Errorf("%s: docs/developer.md has no row of it", o)
		}
		if other, twice := seen[o.Next()]; twice && o.Next() != outcome.Infrastructure.Next() {
			t.Errorf("%s and %s have the same next step", o, other)
		}
		seen[o.Next()] = o
	}
}

// TestWorkOnAPersonsPullRequestIsBegunAnewByFix: retry there would run the checks, or nothing.
func TestWorkOnAPersonsPullRequestIsBegunAnewByFix(t *testing.T) {
	t.Parallel()
	for _, o := range declared(t) {
		for _, work := range []task{{Onto: "by-hand"}, {Fork: true}} {
			m := &store.Mission{ID: "m-1", Task: marshal(work), Kind: store.KindIssue, Step: stepClose, Outcome: string(o), Message: "because"}
			said := nextOf(m)
			again := o == outcome.Changed && !work.Fork || o == outcome.Checked
			if strings.Contains(said, "/sandpiper retry") || strings.Contains(said, "the issue") || !again && !strings.Contains(said, "/sandpiper fix [words]") {
				t.Errorf("%s, %+v:\n%s", o, work, said)
			}
		}
	}
}
