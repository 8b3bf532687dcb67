package gates

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// change makes a change with its contents; mode "" is a plain file.
func change(in *Input, path, old, text, mode string) *sandbox.Change {
	if mode == "" {
		mode = "100644"
	}
	n := len(in.Changes)
	c := sandbox.Change{Path: path, Kind: sandbox.Modified, OldMode: mode, NewMode: mode, OldID: fmt.Sprintf("old%d", n), NewID: fmt.Sprintf("new%d", n), Size: int64(len(text))}
	if old == "" {
		c.Kind, c.OldMode, c.OldID = sandbox.Added, "", ""
	} else {
		in.Content[c.OldID] = []byte(old)
	}
	in.Content[c.NewID] = []byte(text)
	in.Changes = append(in.Changes, c)
	return &in.Changes[n]
}

func input(attributes string) *Input {
	return &Input{
		Content: map[string][]byte{}, Secrets: func(_, text string) []Secret { return FindSecrets(text) },
		Protected: func(p string) (string, bool) { return "AGENTS.md", p == "AGENTS.md" },
		Read:      func(p string) ([]byte, bool) { return []byte(attributes), p == ".gitattributes" && attributes != "" },
	}
}

// found gives "gate path:line" of what was found.
func found(results []Result) (all []string) {
	for _, r := range results {
		for _, e := range r.Found {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s:%d", r.Gate, e.Path, e.Line)))
		}
	}
	return all
}

var pointer = lfsPointer + "oid sha256:" + strings.Repeat("a", 64) + "\nsize 5\n"

func TestGates(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_" + strings.Repeat("aB3d", 9)
	for name, tt := range map[string]struct {
		make func(in *Input)
		want []string
	}{
		"an ordinary change": {func(in *Input) { change(in, "a.go", "package a\n", "package a\n\nfunc A() {}\n", "") }, nil},
		"a workflow file":    {func(in *Input) { change(in, ".github/workflows/ci.yml", "on: push\n", "on: pull_request\n", "") }, []string{"workflows .github/workflows/ci.yml:0"}},
		"a workflow file, permitted": {func(in *Input) {
			in.Workflows = true
			change(in, ".github/workflows/ci.yml", "on: push\n", "on: pull_request\n", "")
		}, nil},
		"a workflow file, deleted":  {func(in *Input) { change(in, ".github/workflows/ci.yml", "on: push\n", "", "").Kind = sandbox.Deleted }, nil},
		"a secret in an added line": {func(in *Input) { change(in, "a.env", "A=1\n", "A=1\n\nKEY="+token+"\n", "") }, []string{"secrets a.env:3"}},
		"a secret that was there":   {func(in *Input) { change(in, "a.env", "KEY="+token+"\n", "A=1\nKEY="+token+"\n", "") }, nil},
		"a breach":                  {func(in *Input) { in.Findings = []sandbox.Finding{{Kind: "net.unrecorded", Outcome: "inconclusive"}} }, []string{"boundary :0"}},
		"a denied attempt":          {func(in *Input) { in.Findings = []sandbox.Finding{{Kind: "net.denied", Outcome: "contained"}} }, nil},
		"a set-user-id file": {func(in *Input) {
			in.Findings = []sandbox.Finding{{Kind: "fs.setuid", Outcome: "contained", Evidence: "a"}}
		}, []string{"setuid :0"}},
		"a link inside":                          {func(in *Input) { change(in, "a/b/l", "", "../../c", "120000") }, nil},
		"a link out":                             {func(in *Input) { change(in, "a/b/l", "", "../../../c", "120000") }, []string{"symlinks a/b/l:0"}},
		"a link out and in again":                {func(in *Input) { change(in, "l", "", "x/../../repo/c", "120000") }, []string{"symlinks l:0"}},
		"an absolute link":                       {func(in *Input) { change(in, "l", "", "/etc/passwd", "120000") }, []string{"symlinks l:0"}},
		"a link into the git directory":          {func(in *Input) { change(in, "l", "", ".GIT/hooks/x", "120000") }, []string{"symlinks l:0"}},
		"case 20: a pointer without its object":  {func(in *Input) { change(in, "a.bin", pointer, strings.Replace(pointer, "a", "b", 1), "") }, []string{"lfs a.bin:0"}},
		"case 20: content in place of a pointer": {func(in *Input) { change(in, "a.bin", pointer, "content\n", "") }, []string{"lfs a.bin:0"}},
		"case 20: a new file that is tracked":    {func(in *Input) { change(in, "sub/a.psd", "", "content\n", "") }, []string{"lfs sub/a.psd:0"}},
		"a pointer that moved": {func(in *Input) {
			c := change(in, "b.bin", pointer, pointer, "")
			c.From, c.Kind, c.NewID = "a.bin", sandbox.Renamed, c.OldID
		}, nil},
		"lost-lines":               {func(in *Input) { in.Lost = []Evidence{{"a.go", 3, "x"}} }, []string{"lost-lines a.go:3"}},
		"protected, renamed away":  {func(in *Input) { change(in, "x.md", "a\n", "a\n", "").From = "AGENTS.md" }, []string{"protected x.md:0"}},
		"a lock file":              {func(in *Input) { change(in, "web/package-lock.json", "{}\n", "{ }\n", "") }, []string{"dependencies web/package-lock.json:0"}},
		"hidden letters":           {func(in *Input) { change(in, "a.go", "a\n", "a\nif admin\u202e {\n\u200bx\n", "") }, []string{"hidden-text a.go:2", "hidden-text a.go:3"}},
		"hidden letters in a name": {func(in *Input) { change(in, "a\u202egpj.exe", "", "x\n", "") }, []string{"hidden-text a\u202egpj.exe:0"}},
		"emoji and scripts":        {func(in *Input) { change(in, "a.md", "", "\ufeff👩\u200d💻 ❤\ufe0f می\u200cخواهم\n", "") }, nil},
		"a conflict": {func(in *Input) {
			change(in, "a.go", "a\n=======\n", "a\n<<<<<<< HEAD\r\nb\r\n||||||| 1234567\r\n=======\r\nc\r\n>>>>>>> theirs\r\n=======\n", "")
		}, []string{"conflict-markers a.go:2"}},
		"half of a conflict": {func(in *Input) { change(in, "a.md", "", "Heading\n=======\n>>>>>>> quoted\n<<<<<<< \n", "") }, nil},
		"a conflict that was there": {func(in *Input) {
			change(in, "a.md", "<<<<<<< a\n=======\n>>>>>>> b\n", "<<<<<<< a\n=======\n>>>>>>> b\nx\n", "")
		}, nil},
		"a submodule":      {func(in *Input) { change(in, "lib", "", "", "160000") }, []string{"submodules lib:0"}},
		"a binary":         {func(in *Input) { c := change(in, "a.png", "", "\x00", ""); c.Added, c.Removed = -1, -1 }, []string{"binaries a.png:0"}},
		"too many lines":   {func(in *Input) { change(in, "a", "", "a\n", "").Added = 5001 }, []string{"size :0"}},
		"too large a file": {func(in *Input) { change(in, "a", "", "a\n", "").Size = 2 << 20 }, []string{"size a:0"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			in := input("*.psd filter=lfs diff=lfs -text\n")
			tt.make(in)
			results := Run(*in, nil)
			if diff := cmp.Diff(tt.want, found(results)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, r := range results {
				for _, e := range r.Found {
					if strings.Contains(e.Text, token) {
						t.Errorf("%s repeats the secret: %s", r.Gate, e.Text)
					}
				}
			}
		})
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	in := input("")
	for i := range 60 {
		change(in, fmt.Sprintf("%d/go.mod", i), "", "x\n", "")
	}
	results := Run(*in, map[string]Level{"dependencies": Note})
	i := slices.IndexFunc(results, func(r Result) bool { return r.Gate == "dependencies" })
	r := results[i]
	if len(r.Found) != evidenceMost || r.More != 10 || r.Holds(Draft) || !r.Holds(Note) {
		t.Errorf("%d and %d more, draft %v", len(r.Found), r.More, r.Holds(Draft))
	}
	r.Level = Block
	if !r.Holds(Draft) || !r.Holds(Block) {
		t.Error("what blocks makes a draft too")
	}
	if r.Allowed = "octavia"; r.Holds(Note) {
		t.Error("what a person allowed holds nothing")
	}
}

// Values are put together here, so that no scanner takes this file for a leak.
func TestFindSecrets(t *testing.T) {
	t.Parallel()
	random := "q7Zk29LmX4cVb81NsT6yRw3P"
	for _, tt := range []struct{ in, want string }{
		{"gh" + "s_123_" + strings.Repeat("eyJhbGciOi.x-_", 30), "GitHub token"},
		{"_ey" + "JhbGciOiJSUzI1NiJ9.ey" + "JpYXQiOjE3NjQ1MDAwMDB9." + random + random, "signed token (JWT)"}, // a token of GitHub without its first 7 characters
		{"AK" + "IAQYLPMN5HFIQR7XYA", "AWS access key"},
		{"AK" + "IAIOSFODNN7EXAMPLE", ""},
		{"-----BEGIN OPENSSH " + "PRIVATE KEY-----", "private key"},
		{"sk-" + "ant-api03-" + strings.Repeat("aB3_", 20), "Anthropic key"},
		{"postgres://bot:" + "Tr0ub4dor@db.internal.net/x", "password in an address"},
		{"postgres://bot:${PASSWORD}@db.internal.net/x", ""},
		{`api_key = "` + random + random + `"`, "random value under a name that says secret"},
		{`token: ${{ secrets.GITHUB_TOKEN_FOR_RELEASES }}`, ""},
		{`password = os.getenv("DATABASE_PASSWORD_PRODUCTION")`, ""},
		{`const tokenExpirationTimeInMilliseconds = defaultTokenExpirationTimeInMilliseconds`, ""},
		{`sha256:` + strings.Repeat("0123456789abcdef", 4), ""},
		{`go.sum h1:` + random + "=", ""},
	} {
		got := ""
		if s := FindSecrets("first\n" + tt.in); len(s) > 0 {
			got = s[0].Rule
			if s[0].Line != 2 {
				t.Errorf("%s: line %d", tt.in, s[0].Line)
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	key := "AK" + "IAQYLPMN5HFIQR7XYA"
	if diff := cmp.Diff("a [secret: AWS access key] b, AKIAIOSFODNN7EXAMPLE", Mask("a "+key+" b, AKIAIOSFODNN7EXAMPLE")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// .gitattributes are the agent's to write: a matcher that tries each ** at each place does not come back from this.
func TestAttributesDoNotExplode(t *testing.T) {
	t.Parallel()
	text, deep := strings.Repeat("**/a/", 60)+"x filter=lfs\n", strings.Repeat("a/", 200)
	if _, decided := attribute(text, deep+"f"); decided {
		t.Error("f is decided by a line about x")
	}
	if lfs, _ := attribute(text, deep+"x"); !lfs {
		t.Error("x is not decided")
	}
}

func FuzzUnseen(f *testing.F) {
	f.Add("a\u202eb\xff")
	f.Fuzz(func(t *testing.T, s string) {
		unseen(s)
		FindSecrets(s)
		attribute(s, "a/b")
	})
}

func BenchmarkFindSecrets(b *testing.B) {
	text := strings.Repeat("	if err := store.Save(ctx, mission, now); err != nil { return fmt.Errorf(\"token: %w\", err) }\n", 10_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		FindSecrets(text)
	}
}

// TestWhatIsLeftBehindMakesADraft: a pull request without a part of what was made is not ready.
func TestWhatIsLeftBehindMakesADraft(t *testing.T) {
	t.Parallel()
	in := Input{Findings: []sandbox.Finding{{Kind: "collect.limit", Outcome: "contained", Evidence: "big.bin (130000000 bytes)"}, {Kind: "collect.ignored", Outcome: "contained"}}}
	for _, r := range Run(in, nil) {
		if want := r.Gate == "left-behind"; r.Holds(Draft) != want {
			t.Errorf("%s: %+v", r.Gate, r)
		}
	}
}
