package checks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// shell is a Runner that runs the commands here, in a directory, and remembers each by its name as the manager does.
type shell struct {
	t     *testing.T
	dir   string
	ran   []string
	known map[string]sandbox.CheckResult
	exit  func(sandbox.Exit) sandbox.Exit
}

func (s *shell) RunCheck(ctx context.Context, id sandbox.ID, name string, c sandbox.Command) (sandbox.CheckResult, error) {
	if got, ok := s.known[name]; ok {
		return got, nil
	}
	s.ran = append(s.ran, name)
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = filepath.Join(s.dir, c.Dir)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return sandbox.CheckResult{}, err
	}
	log := filepath.Join(s.t.TempDir(), "log")
	if err := os.WriteFile(log, out, 0o600); err != nil {
		return sandbox.CheckResult{}, err
	}
	res := sandbox.CheckResult{Name: name, Command: c, Log: log, Exit: sandbox.Exit{
		Code: cmd.ProcessState.ExitCode(), Reason: sandbox.Exited, Started: start, Ended: time.Now(),
	}}
	if s.exit != nil {
		res.Exit = s.exit(res.Exit)
	}
	if s.known == nil {
		s.known = map[string]sandbox.CheckResult{}
	}
	s.known[name] = res
	return res, nil
}

func TestRun(t *testing.T) {
	t.Parallel()
	tree := mapTree{"a.go": "", "sub/b.go": ""}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	list := []Check{
		{Name: "good", Run: "echo a.go:1: looks odd", Required: true},
		{Name: "bad", Run: "echo a.go:2: is wrong; false; echo never reached"},
		{Name: "No such tool!", Run: "nosuchtool --version"},
		{Name: "below", Run: "echo b.go:3: is wrong; false", Dir: "sub"},
		{Name: "nowhere", Run: "true", Dir: "no such place"},
	}
	var starting, finished []string
	results, err := Run(t.Context(), &shell{t: t, dir: dir}, "r-1-1", list, Options{
		Tree:     tree,
		Starting: func(c Check) { starting = append(starting, c.Name) },
		Finished: func(r Result) { finished = append(finished, r.Name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprintf("%s: %s: %s\n%s", r.Name, r.Conclusion, r.Summary, show(Found{Annotations: r.Annotations})))
	}
	want := []string{
		"good: success: passed\nwarning a.go:1:0 [] \"looks odd\"\n",
		"bad: failure: exit status 1; a.go:2: is wrong\nfailure a.go:2:0 [] \"is wrong\"\n",
		"No such tool!: failure: the command \"nosuchtool\" was not found in the sandbox (exit status 127)\n",
		"below: failure: exit status 1; sub/b.go:3: is wrong\nfailure sub/b.go:3:0 [] \"is wrong\"\n",
	}
	if diff := cmp.Diff(want, got[:4]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if r := results[4]; r.Conclusion != Failure || !strings.Contains(r.Excerpt, "no such place") {
		t.Errorf("a directory that is not there: %s, with %q", r.Conclusion, r.Excerpt)
	}
	names := []string{"good", "bad", "No such tool!", "below", "nowhere"}
	if diff := cmp.Diff([][]string{names, names}, [][]string{starting, finished}); diff != "" {
		t.Errorf("progress (-want +got)\n%s", diff)
	}
	if !Passed(list, results) {
		t.Error("not passed although the one required check was")
	}
	if strings.Contains(results[1].LogTail, "never reached") {
		t.Error("the shell went on after a failure")
	}
}

func TestRunGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	runner := &shell{t: t, dir: t.TempDir()}
	list := []Check{{Name: "one", Run: "true"}, {Name: "two", Run: "true"}}
	restart := errors.New("the bot is going down")
	results, err := Run(ctx, runner, "r-1-1", list, Options{Finished: func(Result) { cancel(restart) }})
	if !errors.Is(err, restart) || len(results) != 1 {
		t.Fatalf("got %d results and %v, want 1 and %v", len(results), err, restart)
	}
	if results, err = Run(t.Context(), runner, "r-1-1", list, Options{}); err != nil || len(results) != 2 {
		t.Fatalf("got %d results and %v", len(results), err)
	}
	if n := strings.Count(strings.Join(runner.ran, " "), "check-1-one"); n != 1 {
		t.Errorf("the first check began %d times", n)
	}
}

func TestRunKeepsToTheBudget(t *testing.T) {
	t.Parallel()
	runner := &shell{t: t, dir: t.TempDir(), exit: func(e sandbox.Exit) sandbox.Exit {
		e.Ended = e.Started.Add(time.Minute)
		return e
	}}
	list := []Check{{Name: "one", Run: "true", Timeout: time.Hour, Required: true}, {Name: "two", Run: "true", Required: true}}
	results, err := Run(t.Context(), runner, "r-1-1", list, Options{Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if got := runner.known["check-1-one"].Command.Timeout; got != time.Minute {
		t.Errorf("the first had %v, want the budget", got)
	}
	if r := results[1]; r.Conclusion != TimedOut || !strings.Contains(r.Summary, "was used up") || len(runner.ran) != 1 {
		t.Errorf("second is %v (%s) after %q", r.Conclusion, r.Summary, runner.ran)
	}
	if Passed(list, results) {
		t.Error("passed although a required check did not run")
	}
}

// A check that failed for want of a host says so; one that passed in spite of it does not.
func TestRunNamesBlockedHosts(t *testing.T) {
	t.Parallel()
	runner := &shell{t: t, dir: t.TempDir(), exit: func(e sandbox.Exit) sandbox.Exit {
		e.Blocked = []string{"a.example:443", "b.example:443", "c.example:443", "d.example:443"}
		return e
	}}
	list := []Check{{Name: "unit tests", Run: "false"}, {Name: "vet", Run: "true"}}
	results, err := Run(t.Context(), runner, "r-1-1", list, Options{Network: []string{"go"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "blocked host a.example:443, b.example:443, c.example:443 and 1 more while running unit tests"
	if !strings.Contains(results[0].Summary, want) || strings.Contains(results[1].Summary, "blocked") {
		t.Errorf("got %q and %q", results[0].Summary, results[1].Summary)
	}
	if diff := cmp.Diff([]string{"go"}, runner.known["check-1-unit-tests"].Command.Network); diff != "" {
		t.Error(diff)
	}
}

type failing struct{ err error }

func (f failing) RunCheck(context.Context, sandbox.ID, string, sandbox.Command) (sandbox.CheckResult, error) {
	return sandbox.CheckResult{}, f.err
}

func TestRunDoesNotBlameTheChangeForTheMachine(t *testing.T) {
	t.Parallel()
	list := []Check{{Name: "test", Run: "true", Required: true}}
	results, err := Run(t.Context(), failing{errors.New("no space left on device")}, "r-1-1", list, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Conclusion != Neutral || r.Summary != "not run: no space left on device" {
		t.Errorf("%v: %s", r.Conclusion, r.Summary)
	}
	if Passed(list, results) {
		t.Error("a neutral result passed for a success")
	}
}

func TestConclude(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		exit sandbox.Exit
		run  string
		log  string
		how  Conclusion
		why  string
	}{
		{sandbox.Exit{Reason: sandbox.Exited}, "x", "", Success, "passed"},
		{sandbox.Exit{Reason: sandbox.Exited, Code: 3}, "x", "", Failure, "exit status 3"},
		{sandbox.Exit{Reason: sandbox.Exited, Code: 126}, "x", "", Failure, "the command was found but cannot be executed (exit status 126)"},
		{sandbox.Exit{Reason: sandbox.Exited, Code: 127}, "make lint", "/bin/sh: 1: golint: not found\n", Failure, `the command "golint" was not found in the sandbox (exit status 127)`},
		{sandbox.Exit{Reason: sandbox.Exited, Code: 127}, "x", "bash: line 1: y: command not found\n", Failure, `the command "y" was not found in the sandbox (exit status 127)`},
		{sandbox.Exit{Reason: sandbox.Exited, Code: 127}, "x", "zsh:1: command not found: z\n", Failure, `the command "z" was not found in the sandbox (exit status 127)`},
		{sandbox.Exit{Reason: sandbox.Exited, Code: 127}, "x y", "", Failure, `the command "x" was not found in the sandbox (exit status 127)`},
		{sandbox.Exit{Reason: sandbox.TimedOut, Code: 137}, "x", "", TimedOut, "stopped at its time limit after 1.5s"},
		{sandbox.Exit{Reason: sandbox.Signaled, Code: 139}, "x", "", Failure, "killed by signal 11 (segmentation fault)"},
		{sandbox.Exit{Reason: sandbox.OutOfMem, Message: "limit 1 GiB"}, "x", "", Failure, "stopped: too much memory: limit 1 GiB"},
		{sandbox.Exit{Reason: sandbox.Flooded}, "x", "", Failure, "stopped: too much output"},
		{sandbox.Exit{Reason: sandbox.Cancelled}, "x", "", Cancelled, "cancelled"},
		{sandbox.Exit{Reason: sandbox.Lost}, "x", "", Neutral, "lost: what watched it ended before it did, so its result is not known"},
		{sandbox.Exit{Reason: sandbox.NotBegun, Message: "no user namespaces\nhere"}, "x", "", Neutral, "could not be started: no user namespaces here"},
		{sandbox.Exit{Reason: "eaten"}, "x", "", Neutral, `ended in a way that is not known here ("eaten")`},
	} {
		tt.exit.Started, tt.exit.Ended = start, start.Add(1500*time.Millisecond)
		how, why := conclude(Check{Run: tt.run}, tt.exit, []byte(tt.log), strings.Clone)
		if how != tt.how || why != tt.why {
			t.Errorf("%+v: %s, %s; want %s, %s", tt.exit, how, why, tt.how, tt.why)
		}
	}
}

func TestLogTailBeginsWithTheFailure(t *testing.T) {
	t.Parallel()
	noise := strings.Repeat("a line of noise that nobody reads\n", 20_000)
	log := noise + "before it\n--- FAIL: TestSum (0.00s)\n" + noise + "the very end\n"
	got := logTail([]byte(log), -1, logMax, strings.Clone)
	if len(got) > logMax {
		t.Errorf("%d bytes, want at most %d", len(got), logMax)
	}
	fail, end := strings.Index(got, "--- FAIL: TestSum"), strings.Index(got, "the very end")
	if fail < 0 || end < 0 || fail > end || fail > 1000 {
		t.Errorf("failure at %d, end at %d of %d bytes", fail, end, len(got))
	}
	if !strings.Contains(got, "the end of the log, from byte") {
		t.Error("does not say that something is left out")
	}
	if got := excerpt([]byte(log), -1, strings.Clone); !strings.Contains(got, "before it\n--- FAIL: TestSum") || len(got) > excerptMax {
		t.Errorf("excerpt of %d bytes: %.200q", len(got), got)
	}
}

func TestLogTailFindsTheFailureBehindAnEndlessLine(t *testing.T) {
	t.Parallel()
	log := []byte(strings.Repeat("x", 200_000) + "\nFAIL: here\n" + strings.Repeat("noise\n", 100_000))
	if got := logTail(log, -1, logMax, strings.Clone); !strings.Contains(got[:500], "FAIL: here") {
		t.Errorf("begins with %.200q", got)
	}
	if got := excerpt(log, -1, strings.Clone); !strings.HasPrefix(got, "FAIL: here") {
		t.Errorf("excerpt is %.200q", got)
	}
}

func TestLogIsReadableAndRedacted(t *testing.T) {
	t.Parallel()
	redact := func(s string) string { return strings.ReplaceAll(s, "hunter2hunter2", "[secret]") }
	for _, tt := range []struct{ name, in, want string }{
		{"colours", "\x1b[31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07\x1b(B end", "red link end"},
		{"progress bars", "1%\r50%\r100%\r\ndone", "100%\ndone"},
		{"hidden text", "a\u202eb\x00c\U000e0041\u200bd", "abcd"},
		{"bytes", "a\xffb", "a\ufffdb"},
		{"secrets", "token hunter2hunter2!", "token [secret]!"},
		{"secrets in colours", "hunter2\x1b[1mhunter2", "[secret]"},
		{"secrets with hidden characters", "hunter2\u200bhunter2", "[secret]"},
		{"endless lines", strings.Repeat("x", 3*lineMax), strings.Repeat("x", lineMax-4) + " …"},
	} {
		if diff := cmp.Diff(tt.want, tidy([]byte(tt.in), redact)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
	}
	json := `{"Action":"output","Package":"p","Output":"--- FAIL: T\n"}` + "\n" + `{"Action":"fail","Package":"p"}` + "\nplain\n"
	if diff := cmp.Diff("--- FAIL: T\nplain\n", string(readable([]byte(json)))); diff != "" {
		t.Errorf("json (-want +got)\n%s", diff)
	}
}

func TestReadLogKeepsBothEnds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, w := range []struct {
		at int64
		s  string
	}{{0, "the start"}, {100 << 20, "the end"}} {
		if _, err := f.WriteAt([]byte(w.s), w.at); err != nil {
			t.Fatal(err)
		}
	}
	log, err := readLog(file)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(log); !strings.HasPrefix(s, "the start") || !strings.HasSuffix(s, "the end") || !strings.Contains(s, "bytes of the log are not read") {
		t.Errorf("%d bytes: %q … %q", len(s), s[:20], s[len(s)-20:])
	}
	if _, err := readLog(t.TempDir()); err == nil {
		t.Error("read a directory as a log")
	}
}

func FuzzLogTail(f *testing.F) {
	f.Add([]byte("FAIL\n\x1b[3"), 100, 3)
	f.Add([]byte(strings.Repeat("ä\n", 500)), 300, -1)
	f.Fuzz(func(t *testing.T, log []byte, limit, at int) {
		if limit < 200 || limit > 1<<16 {
			return
		}
		got := logTail(log, min(max(at, -1), len(log)-1), limit, strings.Clone)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("%d bytes for %d, valid %v", len(got), limit, utf8.ValidString(got))
		}
		if e := excerpt(log, -1, strings.Clone); len(e) > excerptMax || !utf8.ValidString(e) {
			t.Errorf("excerpt of %d bytes", len(e))
		}
	})
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tree mapTree
		want []string
	}{
		"nothing":          {mapTree{"README": ""}, nil},
		"go":               {mapTree{"go.mod": "module x", "Makefile": "test:\n"}, []string{"go build ./... !", "go test ./... !", "go vet ./..."}},
		"npm":              {mapTree{"package.json": `{"scripts":{"test":"node --test"}}`}, []string{"npm run test !"}},
		"pnpm":             {mapTree{"package.json": `{"scripts":{"test":"x"}}`, "pnpm-lock.yaml": ""}, []string{"pnpm run test !"}},
		"npm without test": {mapTree{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}, nil},
		"broken npm":       {mapTree{"package.json": `{`}, nil},
		"rust":             {mapTree{"Cargo.toml": ""}, []string{"cargo test !"}},
		"pytest":           {mapTree{"pyproject.toml": "[tool.pytest.ini_options]"}, []string{"python3 -m pytest !"}},
		"unittest":         {mapTree{"setup.py": ""}, []string{"python3 -m unittest discover !"}},
		"make test":        {mapTree{"Makefile": "all: x\ncheck: y\ntest :\n"}, []string{"make test !"}},
		"make check":       {mapTree{"GNUmakefile": "check::\n\ttrue\n"}, []string{"make check !"}},
		"make variable":    {mapTree{"Makefile": "test := x\n"}, nil},
	} {
		var got []string
		for _, c := range Detect(tt.tree) {
			s := c.Run
			if c.Required {
				s += " !"
			}
			got = append(got, s)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
