package checks

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

// hint is what people can do about a check that did not pass, in Markdown; empty where the log says it best.
func hint(res Result, log []byte, network []string) string {
	exit := res.Exit
	switch {
	case exit.Reason == sandbox.TimedOut:
		return joinHints("It was stopped before its end, so what it would have said is not known. `timeout` of this check in `.github/sandpiper.yml` gives it more time.", netHint(exit, log, network))
	case exit.Reason == sandbox.OutOfMem:
		return ofBot("SANDPIPER_LIMIT_MEMORY")
	case exit.Reason == sandbox.Overfull:
		return ofBot("SANDPIPER_LIMIT_DISK")
	case exit.Reason == sandbox.Flooded:
		return ofBot("SANDPIPER_LIMIT_OUTPUT")
	case res.Conclusion == Neutral:
		return noJudgement
	case res.Conclusion != Failure:
		return ""
	case exit.Code == 127:
		return "The programs of a sandbox are those of the bot's machine, and what `setup` in `.github/sandpiper.yml` makes. Whoever runs the bot can install what is missing."
	}
	if utf16.Match(log) {
		return joinHints("Its log has a report in UTF-16, which is not read; in UTF-8 it would be.", netHint(exit, log, network))
	}
	return netHint(exit, log, network)
}

// noJudgement stands on checks that could not be run or observed.
const noJudgement = "This says nothing about the change. A required check that was not judged is not passed either: run it again."

func ofBot(setting string) string {
	return "The limit is the bot's: whoever runs it can raise it (`" + setting + "`)."
}

func joinHints(a, b string) string { return strings.TrimSpace(a + "\n\n" + b) }

// utf16 knows the names that JUnit's and SARIF's documents have, in UTF-16 of either order.
var utf16 = regexp.MustCompile(`t\x00e\x00s\x00t\x00s\x00u\x00i\x00t\x00e|"\x00r\x00u\x00n\x00s\x00"`)

// unresolved is how programs say that they did not find a host: Go, node, curl with git and cargo, wget, pip, apt, Java and its tools.
var unresolved = regexp.MustCompile(`(?:dial tcp: lookup |ENOTFOUND |EAI_AGAIN |resolve host: |resolve host address .|Failed to resolve '|Temporary failure resolving '|UnknownHostException: |Unknown host )` +
	`([A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,})|` +
	`([A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}): (?:Temporary failure in name resolution|Name or service not known|No address associated)`)

// noNetwork is how they say that there is none.
var noNetwork = regexp.MustCompile(`[Tt]emporary failure in name resolution|[Nn]etwork is unreachable|ENETUNREACH`)

// netHint says which hosts a check asked for in vain, and the line of the policy that opens them. The proxy has seen them, or the log
// names them; where it only says that there is no network, so does this.
func netHint(exit sandbox.Exit, log []byte, network []string) string {
	var hosts []egress.Host
	for _, blocked := range exit.Blocked {
		name, text, _ := net.SplitHostPort(blocked)
		if port, err := strconv.ParseUint(text, 10, 16); err == nil {
			hosts = append(hosts, egress.Host{Name: name, Port: uint16(port)})
		}
	}
	if hosts != nil {
		return "It asked for " + named(hosts) + ", which the policy does not open. " + opens(hosts, network)
	}
	tail := log[max(len(log)-256<<10, 0):]
	for _, m := range unresolved.FindAllSubmatch(tail, 200) {
		name, err := egress.Canonical(string(m[1]) + string(m[2]))
		host := egress.Host{Name: name, Port: 443}
		if reserved := strings.HasSuffix(name, ".invalid") || strings.HasSuffix(name, ".test"); err == nil && !reserved && !slices.Contains(hosts, host) {
			hosts = append(hosts, host) // what tests look for in vain on purpose is left out
		}
	}
	switch rules, err := egress.Parse(network); {
	case err != nil:
		return ""
	case len(hosts) > 0 && !slices.ContainsFunc(hosts, func(h egress.Host) bool { _, _, open := rules.Match(h); return !open }):
		return "Its log says that it did not find " + named(hosts) + ", which is open by the proxy alone that `$https_proxy` names: the program seems not to have asked it."
	case len(hosts) > 0:
		return "Its log says that it did not find " + named(hosts) + ". " + opens(hosts, network)
	case noNetwork.Match(tail):
		return "Its log says that it found no network. Checks reach the hosts that `network` in `.github/sandpiper.yml` names, by a proxy, and nothing else."
	}
	return ""
}

const hostsNamed = 5

func named(hosts []egress.Host) string {
	var names []string
	for _, h := range hosts[:min(len(hosts), hostsNamed)] {
		name := h.String()
		if h.Port == 443 {
			name = h.Name
		}
		names = append(names, quote.Code(name))
	}
	text := strings.Join(names, ", ")
	if more := len(hosts) - hostsNamed; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// opens is the line of the policy with what it lacks.
func opens(hosts []egress.Host, network []string) string {
	list := slices.Clone(network)
	for _, h := range hosts[:min(len(hosts), hostsNamed)] {
		if line := egress.Line(h); !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	for i, line := range list {
		list[i] = strconv.Quote(line)
	}
	return "If it should reach them, this line in `.github/sandpiper.yml` on the default branch opens them: " + quote.Code("network: ["+strings.Join(list, ", ")+"]")
}
