package webhooks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func heard(text string) []string {
	var out []string
	for _, c := range slashCommands(text, Slash{}) {
		switch c := c.(type) {
		case Slash:
			out = append(out, fmt.Sprintf("%d %s|%s", c.Line, c.Verb, c.Args))
		case Ignored:
			out = append(out, "ignored")
		}
	}
	return out
}

func TestSlashCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing":             {"", nil},
		"one":                 {"/sandpiper run", []string{"1 run|"}},
		"arguments":           {"/sandpiper fix  the  <b>test</b> \t", []string{"1 fix|the  <b>test</b>"}},
		"case":                {"/SandPiper RUN Now", []string{"1 run|Now"}},
		"CRLF":                {"hello\r\n/sandpiper cancel\r\n/sandpiper run x\r\n", []string{"2 cancel|", "3 run|x"}},
		"no verb":             {"/sandpiper", []string{"1 help|"}},
		"no verb but blanks":  {"/sandpiper  \t", []string{"1 help|"}},
		"three blanks before": {"   /sandpiper run", []string{"1 run|"}},
		"indented code":       {"    /sandpiper run\n\t/sandpiper run", nil},
		"in a sentence":       {"please /sandpiper run", nil},
		"longer word":         {"/sandpipers run\n/sandpiper-dev run\n/sandpiper/src", nil},
		"no-break space":      {"/sandpiper\u00a0run\u00a0it", []string{"1 run|it"}},
		"only a prefix":       {"/sandpipe run", nil},
		"quoted":              {"> /sandpiper run\n  >/sandpiper run\n\n/sandpiper status", []string{"4 status|"}},
		"fence":               {"```\n/sandpiper run\n```\n/sandpiper status", []string{"4 status|"}},
		"fence with info":     {"``` sh\n/sandpiper run\n```", nil},
		"tildes":              {"~~~\n/sandpiper run\n~~~", nil},
		"other mark inside":   {"~~~\n```\n~~~\n/sandpiper run", []string{"4 run|"}},
		"longer fence":        {"````\n```\n/sandpiper run\n````\n/sandpiper status", []string{"5 status|"}},
		"fence of CRLF":       {"```\r\n/sandpiper run\r\n```\r\n/sandpiper status", []string{"4 status|"}},
		"fence not closed":    {"```\n/sandpiper run", nil},
		"closing with text":   {"```\n``` x\n/sandpiper run", nil},
		"code span, no fence": {"```x``` y\n/sandpiper run", []string{"2 run|"}},
		"two marks":           {"``\n/sandpiper run", []string{"2 run|"}},
		"hidden":              {"<!-- write\n/sandpiper run\n-->\n/sandpiper status", []string{"4 status|"}},
		"hidden, one line":    {"<!-- x -->\n/sandpiper run", []string{"2 run|"}},
	} {
		if diff := cmp.Diff(tc.want, heard(tc.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSlashCommandsAreCapped(t *testing.T) {
	t.Parallel()
	got := heard(strings.Repeat("/sandpiper run\n", 5000))
	if len(got) != MaxCommands+1 || got[MaxCommands] != "ignored" {
		t.Errorf("got %d commands, the last %q; want %d and a note", len(got), got[len(got)-1], MaxCommands)
	}
}

func FuzzSlashCommands(f *testing.F) {
	f.Add("/sandpiper run\r\n> x\n```\n/sandpiper\n```")
	f.Add("<!--\n/sandpiper run -->\n/sandpiper drop *.md")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		for _, c := range slashCommands(text, Slash{}) {
			s, ok := c.(Slash)
			if !ok {
				continue
			}
			if s.Verb == "" || strings.ContainsAny(s.Verb+s.Args, "\n") || strings.TrimSpace(s.Args) != s.Args {
				t.Errorf("verb %q args %q", s.Verb, s.Args)
			}
			if s.Line < 1 || s.Line > len(lines) || !strings.Contains(strings.ToLower(lines[s.Line-1]), trigger) {
				t.Errorf("line %d of %d holds no command", s.Line, len(lines))
			}
		}
	})
}
