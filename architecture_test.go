package sandpiper_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sandpiper-bot/sandpiper"

// edge allows one package of ours to import another.
type edge struct{ from, to, why string }

// house is every import between our packages, outside of tests: who imports whom, and why. A new edge needs a line here.
var house = []edge{
	{"cmd/sandpiper", "", "set-up and the double read app.yml"},
	{"cmd/sandpiper", "app", "serve runs the bot"},
	{"cmd/sandpiper", "app/audit", "audit verify and export"},
	{"cmd/sandpiper", "app/config", "every command reads the same settings"},
	{"cmd/sandpiper", "app/policy", "policy check explains a file"},
	{"cmd/sandpiper", "app/setup", "doctor"},
	{"cmd/sandpiper", "app/store", "missions are looked at and steered in the database; try shows how its own ended"},
	{"cmd/sandpiper", "fixtures/agents", "demo's agent"},
	{"cmd/sandpiper", "fixtures/github", "demo and try run on a GitHub of their own"},
	{"cmd/sandpiper", "fixtures/repos", "demo's repository"},
	{"cmd/sandpiper", "sandbox", "the command line of the contract"},
	{"cmd/sandpiper", "sandbox/egress", "the names of network groups, for --net"},
	{"cmd/sandpiper", "sandbox/broker", "exec --model says where the endpoint is"},
	{"cmd/sandpiper", "sandbox/git", "errors of git become exit statuses"},
	{"cmd/sandpiper", "sandbox/gitstore", "a repository on this machine is fetched into a store"},
	{"cmd/sandpiper", "sandbox/jail", "errors of a launch become exit statuses"},
	{"cmd/sandpiper", "sandbox/probe", "probe, and demo escape"},
	{"cmd/sandpiper", "sandbox/reaper", "reap"},
	{"cmd/sandpiper", "sandbox/redact", "git credentials of the throw-away people"},
	{"cmd/sandpiper", "sandbox/quote", "others' text is shown on a terminal"},
	{"cmd/sandpiper", "webhooks", "replay decodes a delivery"},

	{"app", "app/audit", "the composition: what lower packages tell becomes a record"},
	{"app", "app/config", "the composition: settings"},
	{"app", "app/installation", "the composition: who we are at GitHub"},
	{"app", "app/mission", "the composition: the engine"},
	{"app", "app/queue", "the composition: ticks"},
	{"app", "app/store", "the composition: the database"},
	{"app", "app/ops", "the composition: what operators see"},
	{"app", "app/queue", "the composition: the carrier of ticks"},
	{"app", "app/sweep", "the composition: what webhooks lost"},
	{"app", "checks", "the composition: the reporter"},
	{"app", "sandbox", "the composition: the manager"},
	{"app", "sandbox/broker", "the composition: the broker with the models' keys"},
	{"app", "sandbox/egress", "the composition: how this machine reaches others"},
	{"app", "sandbox/container", "the composition: the backend for outsiders"},
	{"app", "sandbox/git", "the composition: the git command line"},
	{"app", "sandbox/jail", "control groups that killed launchers left are swept"},
	{"app", "sandbox/gitstore", "the composition: the stores"},
	{"app", "sandbox/probe", "the composition: the probes on a timer"},
	{"app", "sandbox/reaper", "the composition: the reaper on a timer"},
	{"app", "sandbox/overlay", "the composition: the backend that costs next to nothing"},
	{"app", "sandbox/redact", "the composition: one redactor for all"},
	{"app", "sandbox/worktree", "the composition: the backend"},
	{"app", "webhooks", "the composition: intake"},
	{"app/agent", "app/policy", "the policy says which context the agent is given"},
	{"app/agent", "sandbox", "a profile makes commands and reads exits"},
	{"app/audit", "app/store", "the chain lies in the database"},
	{"app/audit", "sandbox", "findings are exported"},
	{"app/config", "sandbox", "limits are settings"},
	{"app/config", "sandbox/redact", "secrets are typed from the moment they are read"},
	{"app/installation", "sandbox/git", "it answers when git asks for credentials"},
	{"app/installation", "sandbox/redact", "tokens are secrets"},
	{"app/mission", "app/agent", "a step of a mission"},
	{"app/mission", "app/audit", "decisions and wishes are put on record"},
	{"app/mission", "app/installation", "clients by purpose"},
	{"app/mission", "app/policy", "what the repository allows"},
	{"app/mission", "app/store", "what was done so far"},
	{"app/mission", "checks", "a step of a mission"},
	{"app/mission", "promote", "a step of a mission"},
	{"app/mission", "promote/gates", "what a person has to decide before a pull request"},
	{"app/mission", "sandbox", "a step of a mission"},
	{"app/mission", "sandbox/git", "errors of git become outcomes"},
	{"app/mission", "sandbox/gitstore", "fetches the base"},
	{"app/mission", "sandbox/probe", "no work without a boundary that was proven"},
	{"app/mission", "sandbox/quote", "others' text goes into comments"},
	{"app/mission", "webhooks", "commands come in"},
	{"app/policy", "promote/gates", "a policy sets what follows from a gate"},
	{"app/setup", "app/config", "the doctor shows the settings"},
	{"app/setup", "app/installation", "the doctor signs in as the App"},
	{"app/setup", "sandbox/git", "the doctor asks git for its version"},
	{"app/setup", "sandbox/jail", "the doctor tries the boundary"},
	{"app/ops", "app/mission", "is told of steps and deliveries"},
	{"app/ops", "app/store", "reads counts when somebody looks"},
	{"app/ops", "sandbox/redact", "a password is a secret"},
	{"app/sweep", "app/installation", "repositories of an installation, errors of GitHub"},
	{"app/sweep", "webhooks", "which deliveries are worth another try"},
	{"app/policy", "sandbox/egress", "what a network list may say"},
	{"app/store", "sandbox", "run ids"},
	{"app/store", "webhooks", "it is the log of deliveries"},

	{"checks", "sandbox", "commands, exits, ids"},
	{"checks", "sandbox/quote", "logs go into check runs"},
	{"promote", "sandbox", "changes, selections, commits"},
	{"promote", "sandbox/git", "errors of a push become reasons"},
	{"promote", "sandbox/gitstore", "pushes the branch"},
	{"promote", "sandbox/quote", "paths and titles go into the body of a pull request"},
	{"promote/gates", "sandbox", "changes and findings"},
	{"webhooks", "sandbox/redact", "webhook secrets are secrets"},

	{"sandbox", "sandbox/agentgit", "commits made in a sandbox are brought in as data"},
	{"sandbox", "sandbox/internal/gitname", "names in what Discard has recorded"},
	{"sandbox/agentgit", "sandbox/git", "git checks what it brings in"},
	{"sandbox/collect", "sandbox/internal/gitname", "names that git does not take"},
	{"sandbox", "sandbox/fastimport", "a selection of changes becomes a commit"},
	{"sandbox", "sandbox/git", "lists changes between commits"},
	{"sandbox", "sandbox/gitstore", "keep refs"},
	{"sandbox", "sandbox/internal/durable", "records outlive a crash"},
	{"sandbox", "sandbox/internal/flock", "one process works on a run"},
	{"sandbox", "sandbox/redact", "logs of commands"},
	{"sandbox/broker", "sandbox", "grants, what was spent of them, findings"},
	{"sandbox/broker", "sandbox/git", "serves fetches by git upload-pack"},
	{"sandbox/broker", "sandbox/gitstore", "the repository of a run"},
	{"sandbox/broker", "sandbox/redact", "keys of models"},
	{"sandbox/bases", "sandbox/git", "checks a commit out"},
	{"sandbox/bases", "sandbox/internal/durable", "a base is complete once it says so"},
	{"sandbox/bases", "sandbox/internal/flock", "one makes a base"},
	{"sandbox/bases", "sandbox/internal/gitindex", "an index that is true to the files, also of a base made of another"},
	{"sandbox/collect", "sandbox", "changes and findings"},
	{"sandbox/collect", "sandbox/fastimport", "the workspace becomes a commit"},
	{"sandbox/collect", "sandbox/git", "reads the base from the store"},
	{"sandbox/collect", "sandbox/internal/durable", "the baseline outlives a crash"},
	{"sandbox/container", "sandbox", "it is a backend"},
	{"sandbox/container", "sandbox/jail", "has its runtime run trees"},
	{"sandbox/container", "sandbox/worktree", "its workspaces are those of worktrees"},
	{"sandbox/fastimport", "sandbox/git", "runs git fast-import"},
	{"sandbox/git", "sandbox/redact", "credentials"},
	{"sandbox/gitstore", "sandbox/git", "fetches and pushes"},
	{"sandbox/gitstore", "sandbox/internal/durable", "what is known of a store"},
	{"sandbox/gitstore", "sandbox/internal/flock", "one fetch at a time"},
	{"sandbox/local", "sandbox", "commands, exits and findings of the contract"},
	{"sandbox/local", "sandbox/broker", "what a command with a grant may ask for"},
	{"sandbox/local", "sandbox/egress", "the way out of a command that has a network"},
	{"sandbox/local", "sandbox/jail", "confines commands"},
	{"sandbox/probe", "sandbox", "probes by the manager that makes the runs"},
	{"sandbox/probe", "sandbox/git", "makes the repository of the probes"},
	{"sandbox/probe", "sandbox/gitstore", "that has a store of its own"},
	{"sandbox/probe", "sandbox/jail", "who commands run as, for the control"},
	{"sandbox/jail", "sandbox/internal/flock", "one mounts the overlays of a run"},
	{"sandbox/overlay", "sandbox", "it is a backend"},
	{"sandbox/overlay", "sandbox/broker", "what commands with a grant ask"},
	{"sandbox/overlay", "sandbox/bases", "what lies below the runs"},
	{"sandbox/overlay", "sandbox/collect", "collects"},
	{"sandbox/overlay", "sandbox/egress", "commands reach the hosts that they were given"},
	{"sandbox/overlay", "sandbox/fastimport", "runs git in the store"},
	{"sandbox/overlay", "sandbox/git", "reads the base from the store"},
	{"sandbox/overlay", "sandbox/gitstore", "the store that bases are made from"},
	{"sandbox/overlay", "sandbox/internal/durable", "what a try of the machine has shown"},
	{"sandbox/overlay", "sandbox/jail", "mounts overlays and confines commands"},
	{"sandbox/overlay", "sandbox/local", "what it shares with other backends on this machine"},
	{"sandbox/reaper", "sandbox", "removes by the records"},
	{"sandbox/reaper", "sandbox/git", "refs of runs that are gone"},
	{"sandbox/sandboxtest", "sandbox", "the contract that it holds backends to"},
	{"sandbox/sandboxtest", "sandbox/git", "makes repositories"},
	{"sandbox/sandboxtest", "sandbox/gitstore", "makes stores"},
	{"sandbox/worktree", "sandbox", "it is a backend"},
	{"sandbox/worktree", "sandbox/broker", "hands it to its launches"},
	{"sandbox/worktree", "sandbox/collect", "collects"},
	{"sandbox/worktree", "sandbox/egress", "commands reach the hosts that they were given"},
	{"sandbox/worktree", "sandbox/fastimport", "errors of an import"},
	{"sandbox/worktree", "sandbox/git", "git worktree"},
	{"sandbox/worktree", "sandbox/gitstore", "the store that worktrees share"},
	{"sandbox/worktree", "sandbox/internal/durable", "the private git directory outlives a crash"},
	{"sandbox/worktree", "sandbox/jail", "confines commands"},
	{"sandbox/worktree", "sandbox/local", "what it shares with other backends on this machine"},
}

// never holds packages to what their comments promise about imports from elsewhere.
var never = []edge{
	{"sandbox", "github.com/google/go-github/v60/github", "a sandbox knows nothing of GitHub"},
	{"sandbox", "github.com/caarlos0/env/v10", "settings are handed in"},
	{"checks", "os/exec", "commands run in sandboxes only"},
	{"promote", "os/exec", "git is run by sandbox/git only"},
	{"webhooks", "os/exec", "intake starts nothing"},
	{"app/store", "net/http", "the store calls nobody"},
	{"app/policy", "os/exec", "a policy is data"},
	{"app/config", "net/http", "settings are read, not tried"},
}

// large are files that may have more than 400 lines.
var large = map[string]string{}

// long are functions outside of tests that may have more than 60 lines.
var long = map[string]string{
	"sandbox/jail/start_linux.go start":    "the steps of one launch, each of which undoes what was made before it when it fails",
	"sandbox/jail/args_linux.go bwrapArgs": "one command line, in the order in which bubblewrap reads it",
	"sandbox/jail/usage_linux.go walk":     "one loop over one directory",
}

// floor is the height of a room: nothing may import something higher, and rooms on the same floor leave each other alone.
func floor(room string) int {
	return map[string]int{"": 0, "sandbox": 1, "webhooks": 2, "checks": 2, "promote": 2, "app": 3, "fixtures": 3, "cmd": 4}[room]
}

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath, Dir, Doc               string
	Imports, TestImports, XTestImports []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// name is the path below the module; empty for the root package and false for what is not ours.
func name(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

func room(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Doc,Imports,TestImports,XTestImports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestImports holds the direction of imports, and their table.
func TestImports(t *testing.T) {
	t.Parallel()
	allowed := make(map[[2]string]bool) // by edge; true once it was seen
	for _, e := range house {
		if e.why == "" {
			t.Errorf("%s -> %s has no reason", e.from, e.to)
		}
		allowed[[2]string{e.from, e.to}] = false
	}
	var unknown []string
	for _, p := range packages(t) {
		from, _ := name(p.ImportPath)
		for _, path := range p.Imports {
			to, ours := name(path)
			if !ours {
				continue
			}
			if msg := below(from, to); msg != "" {
				t.Error(msg)
			}
			key := [2]string{from, to}
			if _, ok := allowed[key]; !ok {
				unknown = append(unknown, fmt.Sprintf("\t{%q, %q, \"\"},", from, to))
			}
			allowed[key] = true
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			if to, ours := name(path); ours && room(to) != "fixtures" && room(to) != room(from) {
				if msg := below(from, to); msg != "" {
					t.Errorf("in a test: %s", msg)
				}
			}
		}
		for _, e := range never {
			if (from == e.from || strings.HasPrefix(from, e.from+"/")) && slices.Contains(p.Imports, e.to) {
				t.Errorf("%s imports %s, but %s", from, e.to, e.why)
			}
		}
	}
	if len(unknown) > 0 {
		t.Errorf("imports that the house does not have yet; those that are right want a line and a reason:\n%s", strings.Join(unknown, "\n"))
	}
	for key, seen := range allowed {
		if !seen {
			t.Errorf("%s does not import %s any more; take it out of the table", key[0], key[1])
		}
	}
}

// below says what is wrong with the direction of an import; it holds whatever the table says.
func below(from, to string) string {
	a, b := room(from), room(to)
	switch {
	case to == "sandbox/sandboxtest":
		return fmt.Sprintf("%s imports %s, which is for tests", from, to)
	case a == b:
		return ""
	case b == "fixtures" && a != "cmd":
		return fmt.Sprintf("%s imports %s, which is for tests and for the demo", from, to)
	case b == "cmd", b != "" && floor(b) >= floor(a):
		return fmt.Sprintf("%s imports %s: imports go cmd -> app -> webhooks, checks, promote -> sandbox", from, to)
	}
	return ""
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment: what is it for, and what must it not do?", p.ImportPath)
		}
	}
}

// forbidden are calls that may not be written, with where they may.
var forbidden = []struct {
	call string
	may  func(path string) bool
	why  string
}{
	{"time.Sleep", nobody, "wait for what is waited for, with a timer and a context"},
	{"http.DefaultClient", nobody, "it has no timeout and anybody may change it"},
	{"http.Get", isTest, "it uses http.DefaultClient"},
	{"http.Post", isTest, "it uses http.DefaultClient"},
	{"http.DefaultServeMux", nobody, "anybody may add to it"},
	{"os.Exit", func(path string) bool {
		return strings.HasPrefix(path, "cmd/") || isTest(path) || strings.HasPrefix(path, "sandbox/sandboxtest/")
	}, "an exit status is decided in cmd"},
	{"log.Fatal", nobody, "an exit status is decided in cmd"},
	{"log.Fatalf", nobody, "an exit status is decided in cmd"},
}

func nobody(string) bool { return false }

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

func TestSource(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "vendor" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "fixtures/repos/"):
			return nil
		}
		checkFile(t, filepath.ToSlash(path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, path string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, 0)
	if err != nil {
		t.Error(err)
		return
	}
	if lines := fset.File(file.Pos()).LineCount(); lines > 400 && large[path] == "" {
		t.Errorf("%s has %d lines; more than 400 want to be two files", path, lines)
	} else if lines <= 400 && large[path] != "" {
		t.Errorf("%s is not large any more; take it out of the table", path)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok && !isTest(path) {
			lines, key := fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line+1, path+" "+fn.Name.Name
			if lines > 60 && long[key] == "" {
				t.Errorf("%s has %d lines; more than 60 want to be two functions", key, lines)
			} else if lines <= 60 && long[key] != "" {
				t.Errorf("%s is not long any more; take it out of the table", key)
			}
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok || x.Obj != nil { // Obj: a variable of that name
			return true
		}
		for _, f := range forbidden {
			if x.Name+"."+sel.Sel.Name == f.call && !f.may(path) {
				t.Errorf("%s: %s: %s", fset.Position(n.Pos()), f.call, f.why)
			}
		}
		return true
	})
}
