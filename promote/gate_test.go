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

// givesReview are methods by which a review is given, whatever they are called on.
var givesReview = regexp.MustCompile(`^(CreateReview|SubmitReview)$`)

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
	comment := map[ast.Expr]bool{} // calls that do nothing but comment
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			comment[n.Fun] = filepath.Base(path) == "review.go" && file.Name.Name == "promote" && onlyComments(n)
		case *ast.SelectorExpr:
			if comment[n] {
				break
			}
			if givesReview.MatchString(n.Sel.Name) {
				found = append(found, files.Position(n.Pos()).String()+" "+n.Sel.Name)
			}
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

// onlyComments knows the one call of CreateReview that there may be: its request stands in it, with the event COMMENT as a literal. An
// event that comes from elsewhere could be any, and a review without one waits to be submitted.
func onlyComments(call *ast.CallExpr) bool {
	if method, ok := call.Fun.(*ast.SelectorExpr); !ok || method.Sel.Name != "CreateReview" || len(call.Args) == 0 {
		return false
	}
	at, ok := call.Args[len(call.Args)-1].(*ast.UnaryExpr)
	if !ok {
		return false
	}
	request, ok := at.X.(*ast.CompositeLit)
	if !ok {
		return false
	}
	events := 0
	for _, e := range request.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		if name, ok := field.Key.(*ast.Ident); !ok || name.Name != "Event" {
			continue
		}
		of, ok := field.Value.(*ast.CallExpr)
		if !ok || len(of.Args) != 1 {
			return false
		}
		by, ok := of.Fun.(*ast.SelectorExpr)
		word, literal := of.Args[0].(*ast.BasicLit)
		if !ok || by.Sel.Name != "String" || !literal || word.Value != `"COMMENT"` {
			return false
		}
		events++
	}
	return events == 1
}

func TestTheScanLetsAReviewOnlyComment(t *testing.T) {
	t.Parallel()
	const in = "package promote\nfunc f() {\n"
	just := `c.PullRequests.CreateReview(ctx, o, r, 1, &github.PullRequestReviewRequest{Body: &b, Event: github.String("COMMENT")})`
	if found := approvals(t, "review.go", []byte(in+just+"\n}\n")); len(found) != 0 {
		t.Errorf("a comment is no approval: %q", found)
	}
	for file, codes := range map[string][]string{
		"other.go": {just},
		"review.go": {
			strings.Replace(just, "COMMENT", "APPROVE", 1), strings.Replace(just, "COMMENT", "REQUEST_CHANGES", 1), strings.Replace(just, `"COMMENT"`, "event", 1),
			strings.Replace(just, `github.String("COMMENT")`, "&event", 1), strings.Replace(just, `, Event: github.String("COMMENT")`, "", 1),
			strings.Replace(just, `github.String("COMMENT")`, `github.String("COMMENT"), Event: &event`, 1),
			`c.PullRequests.CreateReview(ctx, o, r, 1, request)`, `f := c.PullRequests.CreateReview`, `s := c.PullRequests; s.SubmitReview(ctx, o, r, 1, 2, request)`,
		},
	} {
		for _, code := range codes {
			if found := approvals(t, file, []byte(in+code+"\n}\n")); len(found) == 0 {
				t.Errorf("not found in %s: %s", file, code)
			}
		}
	}
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
