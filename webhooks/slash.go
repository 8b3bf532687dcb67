package webhooks

import (
	"strings"
	"unicode"
)

// MaxCommands is how many command lines of one comment are heard. A person writes one or two; a pasted log could hold
// thousands.
const MaxCommands = 10

const trigger = "/sandpiper"

// slashCommands returns a copy of common for each command line of a comment, filled in, and one Ignored when there are
// more than MaxCommands.
func slashCommands(text string, common Slash) []Command {
	var commands []Command
	var outside prose
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r") // browsers send CRLF
		if !outside.next(line) {
			continue
		}
		verb, args, ok := parseCommand(line)
		if !ok {
			continue
		}
		if len(commands) == MaxCommands {
			return append(commands, Ignored{Meta: common.Meta, Reason: "more commands in one comment than are heard"})
		}
		command := common
		command.Line, command.Verb, command.Args = i+1, verb, args
		commands = append(commands, command)
	}
	return commands
}

// parseCommand reads "/sandpiper verb args" with up to three blanks before it; four would make it code in Markdown.
func parseCommand(line string) (verb, args string, ok bool) {
	line = unindent(line)
	if len(line) < len(trigger) || !strings.EqualFold(line[:len(trigger)], trigger) {
		return "", "", false
	}
	rest := strings.TrimLeftFunc(line[len(trigger):], unicode.IsSpace)
	if len(rest) == len(line)-len(trigger) && rest != "" {
		return "", "", false // /sandpipers, /sandpiper-staging, /sandpiper/src
	}
	end := strings.IndexFunc(rest, unicode.IsSpace) // telephones write U+00A0
	if end < 0 {
		end = len(rest)
	}
	if verb = strings.ToLower(rest[:end]); verb == "" {
		verb = "help"
	}
	return verb, strings.TrimSpace(rest[end:]), true
}

// prose follows a Markdown text line by line and tells which lines a reader sees as the author's own words: not code,
// not a quotation of somebody else, not hidden in an HTML comment.
type prose struct {
	fence  string // what opened the fenced code block that we are in
	hidden bool   // in an HTML comment that began on an earlier line
}

func (p *prose) next(line string) bool {
	if p.fence != "" {
		if closes(line, p.fence) {
			p.fence = ""
		}
		return false
	}
	if p.hidden {
		p.hidden = !strings.Contains(line, "-->")
		return false
	}
	if p.fence = opens(line); p.fence != "" {
		return false
	}
	if at := strings.LastIndex(line, "<!--"); at >= 0 {
		p.hidden = !strings.Contains(line[at:], "-->")
	}
	return !strings.HasPrefix(unindent(line), ">")
}

// opens returns the fence that line begins a code block with: three or more of ` or ~ (CommonMark 4.5).
func opens(line string) string {
	line = unindent(line)
	for _, mark := range []string{"`", "~"} {
		info := strings.TrimLeft(line, mark)
		fence := line[:len(line)-len(info)]
		if len(fence) >= 3 && (mark == "~" || !strings.Contains(info, "`")) {
			return fence
		}
	}
	return ""
}

// closes reports whether line ends the block that fence began: as many of the same mark or more, and nothing else.
func closes(line, fence string) bool {
	line = strings.TrimRight(unindent(line), " \t")
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

// unindent takes off up to three blanks, which mean nothing in Markdown.
func unindent(line string) string {
	for i := 0; i < 3 && strings.HasPrefix(line, " "); i++ {
		line = line[1:]
	}
	return line
}
