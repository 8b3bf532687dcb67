package agent

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

var update = flag.Bool("update", false, "rewrite testdata/streams/golden.txt")

func parserFor(t testing.TB, name string) Parser {
	t.Helper()
	p, err := Lookup(policy.Agent{Profile: name})
	if err != nil {
		t.Fatal(err)
	}
	return p.Parser()
}

func exited(code int) sandbox.Exit { return sandbox.Exit{Reason: sandbox.Exited, Code: code} }

// recordings gives each recorded run the exit status that goes with what happened in it.
func recordings() map[string]sandbox.Exit {
	timedOut := sandbox.Exit{Reason: sandbox.TimedOut, Code: 143, Message: "ended after 90s"}
	return map[string]sandbox.Exit{
		"claude-2.1.332-401-killed-after-90s.jsonl": timedOut,
		"claude-2.1.332-error400.jsonl":             exited(1),
		"claude-2.1.332-fix.jsonl":                  exited(0),
		"claude-2.1.332-hang-sigterm.jsonl":         exited(143),
		"claude-2.1.332-permission-denied.jsonl":    exited(0),
		"claude-2.1.332-retry529.jsonl":             exited(0),
		"codex-0.171.0-error401.jsonl":              exited(1),
		"codex-0.171.0-error429.jsonl":              exited(1),
		"codex-0.171.0-fix.jsonl":                   exited(0),
		"codex-0.171.0-hang-sigterm.jsonl":          exited(143),
		"codex-0.171.0-no-network-killed.jsonl":     timedOut,
		"copilot-1.0.102-error401.jsonl":            exited(1),
		"copilot-1.0.102-fix.jsonl":                 exited(0),
		"gemini-0.61.0-error401.jsonl":              exited(1),
		"gemini-0.61.0-fix.jsonl":                   exited(0),
		"opencode-1.18.33-error401.jsonl":           exited(1),
		"opencode-1.18.33-fix.jsonl":                exited(0),
		"opencode-1.18.33-permission-denied.jsonl":  exited(0),
		"pi-0.73.1-fix.jsonl":                       exited(0),
	}
}

func TestRecordedStreams(t *testing.T) {
	t.Parallel()
	const golden = "testdata/streams/golden.txt"
	files, err := filepath.Glob("testdata/streams/*.jsonl")
	if err != nil || len(files) != len(recordings()) {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	var got strings.Builder
	for _, file := range files {
		name := filepath.Base(file)
		exit, ok := recordings()[name]
		if !ok {
			t.Fatalf("no exit status for %s", name)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		agent, _, _ := strings.Cut(name, "-")
		fmt.Fprintf(&got, "### %s\n%s\n", name, replay(t, parserFor(t, agent), data, exit))
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// replay feeds a stream in odd pieces and writes down what came of it.
func replay(t *testing.T, p Parser, data []byte, exit sandbox.Exit) string {
	t.Helper()
	var out strings.Builder
	s := NewStream(p, func(e Event) {
		if line := e.String(); line != "" {
			fmt.Fprintf(&out, "%s: %s\n", e.Kind, line)
		}
	})
	for len(data) > 0 {
		n := min(len(data), 777)
		if _, err := s.Write(data[:n]); err != nil {
			t.Fatal(err)
		}
		data = data[n:]
	}
	s.Flush()
	outcome, err := json.Marshal(p.Outcome(exit))
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + string(outcome) + "\n"
}

// A run whose status is 0 is no success when the stream says otherwise, and a stream that says success is none when the
// status is not 0.
func TestStatusAndStreamMustAgree(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		agent, stream string
		exit          sandbox.Exit
		want          Class
	}{
		"ClaudeSuccessAndStatus1": {"claude", `{"type":"result","subtype":"success","is_error":false,"result":"ok"}`, exited(1), Failed},
		"ClaudeErrorAndStatus0":   {"claude", `{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"Overloaded"}`, exited(0), RateLimited},
		"ClaudeOutOfTurns":        {"claude", `{"type":"result","subtype":"error_max_turns","is_error":true}`, exited(1), ModelError},
		"ClaudeCutInALine":        {"claude", `{"type":"assis`, exited(0), CutOff},
		"ClaudeAsRoot":            {"claude", "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons", exited(1), Failed},
		"PiNoConnection":          {"pi", `{"type":"auto_retry_end","success":false,"attempt":3,"finalError":"Connection error."}` + "\n" + `{"type":"agent_end","messages":[]}`, exited(0), ModelError},
		"PiErrorMessage":          {"pi", `{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"401 status: 401"}}` + "\n" + `{"type":"agent_end","messages":[]}`, exited(0), NoAuth},
		"PiLongLastEvent":         {"pi", `{"type":"agent_end","messages":["` + strings.Repeat("x", 2<<20) + `"]}`, exited(0), Finished},
		"GeminiNoAuthMethod":      {"gemini", "Invalid auth method selected.", exited(41), NoAuth},
		"GeminiNoEnd":             {"gemini", `{"type":"init"}`, exited(0), CutOff},
		"CopilotStatusInStream":   {"copilot", `{"type":"result","exitCode":1}`, exited(0), Failed},
		"CodexKeyRefused":         {"codex", `{"type":"turn.failed","error":{"message":"unexpected status 403 Forbidden"}}`, exited(1), NoAuth},
		"GaveUp":                  {"claude", `{"type":"result","is_error":false,"result":"I looked.\n\n**GAVE UP:** the spec is missing"}`, exited(0), GaveUp},
		"Nothing":                 {"claude", `{"type":"result","is_error":false,"result":"NOTHING TO CHANGE: it is right as it is"}`, exited(0), Nothing},
		"MarkInASentence":         {"claude", `{"type":"result","is_error":false,"result":"I did not say GAVE UP: anywhere"}`, exited(0), Finished},
		"Cancelled":               {"claude", "", sandbox.Exit{Reason: sandbox.Cancelled, Code: 143}, CutOff},
		"Flooded":                 {"codex", "", sandbox.Exit{Reason: sandbox.Flooded, Code: 137}, CutOff},
		"Lost":                    {"pi", "", sandbox.Exit{Reason: sandbox.Lost}, CutOff},
		"NotBegun":                {"pi", "", sandbox.Exit{Reason: sandbox.NotBegun, Message: "pi: not found"}, NotStarted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parserFor(t, tc.agent)
			s := NewStream(p, nil)
			if _, err := s.Write([]byte(tc.stream)); err != nil {
				t.Fatal(err)
			}
			s.Flush()
			if got := p.Outcome(tc.exit); got.Class != tc.want || got.Summary == "" && got.Class != Finished {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

func TestPlainCommand(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		output  string
		exit    sandbox.Exit
		class   Class
		summary string
	}{
		"OK":            {"reading\nfixing sum.go\ndone\n", exited(0), Finished, "reading fixing sum.go done"},
		"OKSilent":      {"", exited(0), Finished, ""},
		"ErrStatus":     {"panic: oh\n", exited(1), Failed, "exit status 1: panic: oh"},
		"ErrNotFound":   {"sh: 1: ./agent.sh: not found\n", exited(127), NotStarted, "sh: 1: ./agent.sh: not found"},
		"ErrNoRight":    {"sh: 1: ./agent.sh: Permission denied\n", exited(126), NotStarted, "sh: 1: ./agent.sh: Permission denied"},
		"ErrKilled":     {"", exited(137), CutOff, "killed by signal 9"},
		"ErrTime":       {"working\n", sandbox.Exit{Reason: sandbox.TimedOut, Code: 137}, CutOff, "timed out"},
		"GaveUp":        {"hm\nGAVE UP: no spec\n", exited(0), GaveUp, "no spec"},
		"Nothing":       {"NOTHING TO CHANGE: fine\n", exited(0), Nothing, "fine"},
		"Colours":       {"\x1b[31mred\x1b[0m \x1b]0;title\x07done\n", exited(0), Finished, "red done"},
		"Progress bar":  {"10%\r50%\r100%\n", exited(0), Finished, "10% 50% 100%"},
		"InvisibleText": {"a\u202eb\u200bc\x00\n", exited(0), Finished, "abc"},
		"LikeAnEvent":   {`{"type":"result","is_error":true}` + "\n", exited(0), Finished, `{"type":"result","is_error":true}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlain()
			s := NewStream(p, nil)
			if _, err := s.Write([]byte(tc.output)); err != nil {
				t.Fatal(err)
			}
			s.Flush()
			got := p.Outcome(tc.exit)
			if got.Class != tc.class || got.Summary != tc.summary {
				t.Errorf("got %q %q, want %q %q", got.Class, got.Summary, tc.class, tc.summary)
			}
		})
	}
}

func TestStreamIsBounded(t *testing.T) {
	t.Parallel()
	p := newPlain()
	events := 0
	s := NewStream(p, func(e Event) {
		events++
		if len(e.Text) > maxLine {
			t.Errorf("an event of %d bytes", len(e.Text))
		}
	})
	piece := bytes.Repeat([]byte("x"), 64<<10)
	for range 320 { // 20 MB on one line
		if _, err := s.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if cap(s.line) > 2*longest {
		t.Errorf("the stream holds %d bytes", cap(s.line))
	}
	if _, err := s.Write([]byte("\nnext\n")); err != nil {
		t.Fatal(err)
	}
	if events != 2 {
		t.Errorf("%d events, want 2", events)
	}
}

func TestUsageCannotLie(t *testing.T) {
	t.Parallel()
	p := parserFor(t, "claude")
	p.Line([]byte(`{"type":"result","total_cost_usd":-5,"num_turns":-1,"usage":{"input_tokens":-9}}`))
	if got := p.Outcome(exited(0)).Usage; got != (Usage{}) {
		t.Errorf("got %+v", got)
	}
}

func FuzzParsers(f *testing.F) {
	files, err := filepath.Glob("testdata/streams/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for i, line := range bytes.Split(data, []byte("\n")) {
			if i%5 == 0 {
				f.Add(line)
			}
		}
	}
	f.Add([]byte("\x1b[\x1b]\xff\x00{"))
	f.Add([]byte(strings.Repeat("x", maxLine-len("…")) + " y")) // cut after a space
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range append(policy.Profiles(), "") {
			p := newPlain()
			if name != "" {
				p = parserFor(t, name)
			}
			s := NewStream(p, func(e Event) {
				for _, text := range []string{e.Text, e.Tool} {
					if len(text) > maxLine || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b\n\r") {
						t.Fatalf("%s: %q", name, text)
					}
				}
			})
			_, _ = s.Write(data)
			s.Flush()
			for _, exit := range []sandbox.Exit{exited(0), exited(1), exited(143), {Reason: sandbox.TimedOut}} {
				if o := p.Outcome(exit); o.Class == "" || len(o.Summary) > maxSummary || exit.Code != 0 && (o.Class == Finished || o.Class == Nothing) {
					t.Fatalf("%s: %+v", name, o)
				}
			}
		}
	})
}
