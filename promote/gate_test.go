package promote

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Selectors of go-github by which a review is given or something is merged, as receiver.Method. Refs and branches can be
// moved by others; those of the base branch are held by GitHub's own rules, which doctor looks at.
var forbiddenCalls = regexp.MustCompile(`^(PullRequests\.(Merge|CreateReview|SubmitReview)|Repositories\.(Merge|MergeUpstream))$`)

// Words of the REST and GraphQL APIs for the same. Reading a review's state, APPROVED, is none of them.
var forbiddenWords = regexp.MustCompile(`^APPROVE$|/merge$|/merges$|/pulls/[^ ]*/reviews|mergePullRequest|mergeBranch|enablePullRequestAutoMerge|enqueuePullRequest|addPullRequestReview|submitPullRequestReview|pr merge`)

// The bot cannot approve and cannot merge: there is no code for it, in any package that is part of it.
func TestNoCodeApprovesOrMerges(t *testing.T) {
	t.Parallel()
	root := ".."
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("not in the repository: %v", err)
	}
	scanned := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "fixtures" || name == "vendor"):
			return fs.SkipDir // the double must merge: it plays the people
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		scanned++
		for _, found := range approvals(t, path, src) {
			t.Errorf("%s: the bot must not be able to do this", found)
		}
		return nil
	})
	must(t, err)
	if scanned < 20 {
		t.Errorf("looked at %d files only", scanned)
	}
}

func approvals(t *testing.T, path string, src []byte) []string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution)
	must(t, err)
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if on, ok := n.X.(*ast.SelectorExpr); ok && forbiddenCalls.MatchString(on.Sel.Name+"."+n.Sel.Name) {
				found = append(found, files.Position(n.Pos()).String()+" "+on.Sel.Name+"."+n.Sel.Name)
			}
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && forbiddenWords.MatchString(s) {
				found = append(found, files.Position(n.Pos()).String()+" "+n.Value)
			}
		}
		return true
	})
	return found
}

func TestTheScanFindsWhatItLooksFor(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		`c.PullRequests.Merge(ctx, o, r, 1, "", nil)`, `c.PullRequests.CreateReview(ctx, o, r, 1, nil)`, `f := c.Repositories.Merge; f()`,
		`c.NewRequest("PUT", "repos/a/b/pulls/1/merge", nil)`, `query("mutation { enablePullRequestAutoMerge(input: $i) { clientMutationId } }")`,
		`event := "APPROVE"`, `exec("gh pr merge 1")`,
	} {
		if found := approvals(t, "x.go", []byte("package x\nfunc f() {\n"+code+"\n}\n")); len(found) == 0 {
			t.Errorf("not found: %s", code)
		}
	}
	if found := approvals(t, "x.go", []byte("package x\nvar a = r.GetState() == \"APPROVED\"\n")); len(found) != 0 {
		t.Errorf("reading is no approval: %q", found)
	}
}
