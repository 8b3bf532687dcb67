package checks

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// Detect gives the checks of a repository that names none, from what it is: Go, Node, Rust, Python, and, if it is none of
// these, a Makefile with a test or check target. It gives none when nothing is recognised. Linters are not required.
func Detect(tree Tree) []Check {
	var list []Check
	if tree.Exists("go.mod") {
		list = append(list,
			Check{Name: "build", Run: "go build ./...", Annotate: "go", Required: true},
			Check{Name: "test", Run: "go test ./...", Annotate: "go", Required: true},
			Check{Name: "vet", Run: "go vet ./...", Annotate: "go"})
	}
	list = append(list, detectNode(tree)...)
	if tree.Exists("Cargo.toml") {
		list = append(list, Check{Name: "cargo test", Run: "cargo test", Required: true})
	}
	list = append(list, detectPython(tree)...)
	if len(list) == 0 {
		list = detectMake(tree)
	}
	return list
}

// detectNode asks for the script named test, but not for the placeholder that `npm init` writes, which always fails.
func detectNode(tree Tree) []Check {
	data, err := tree.Read("package.json")
	if err != nil {
		return nil
	}
	var manifest struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal(data, &manifest) != nil || manifest.Scripts["test"] == "" ||
		strings.Contains(manifest.Scripts["test"], "no test specified") {
		return nil
	}
	tool := "npm"
	for _, t := range []struct{ lock, tool string }{
		{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"},
	} {
		if tree.Exists(t.lock) {
			tool = t.tool
			break
		}
	}
	return []Check{{Name: tool + " test", Run: tool + " run test", Required: true}}
}

func detectPython(tree Tree) []Check {
	project := false
	for _, f := range []string{"pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini"} {
		data, err := tree.Read(f)
		if err != nil {
			continue
		}
		project = true
		if f == "pytest.ini" || bytes.Contains(data, []byte("pytest")) {
			return []Check{{Name: "pytest", Run: "python3 -m pytest", Required: true}}
		}
	}
	if !project {
		return nil
	}
	return []Check{{Name: "unittest", Run: "python3 -m unittest discover", Required: true}}
}

var makeTarget = regexp.MustCompile(`(?m)^(test|check)\s*::?(?:[^=]|$)`)

func detectMake(tree Tree) []Check {
	for _, f := range []string{"GNUmakefile", "makefile", "Makefile"} { // the order in which make looks
		data, err := tree.Read(f)
		if err != nil {
			continue
		}
		targets := map[string]bool{}
		for _, m := range makeTarget.FindAllSubmatch(data, -1) {
			targets[string(m[1])] = true
		}
		for _, t := range []string{"test", "check"} {
			if targets[t] {
				return []Check{{Name: "make " + t, Run: "make " + t, Required: true}}
			}
		}
		return nil
	}
	return nil
}
