package egress

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Rules are an allow-list. The zero value allows nothing.
type Rules struct {
	exact  map[string][]entry // by name
	suffix map[string][]entry // by the name after "*."
	lines  []string           // as they were written
}

// entry is one rule for one name.
type entry struct {
	line string // as the policy has it: a group or a host
	port uint16 // 0: 80 and 443
}

func (e entry) opens(port uint16) bool {
	return e.port == port || e.port == 0 && (port == 80 || port == 443)
}

// Parse reads the entries of a policy's network list: names of groups, hosts ("example.com"), all hosts below one
// ("*.example.com", which is not example.com itself), each on ports 80 and 443, or with a port ("example.com:8443"). The error
// names every entry that is wrong.
func Parse(lines []string) (Rules, error) {
	r := newRules()
	var errs []error
	for _, line := range lines {
		if err := r.read(line); err != nil {
			errs = append(errs, fmt.Errorf("network %q: %w", line, err))
		}
	}
	return r, errors.Join(errs...)
}

// Check says what is wrong with one entry of a network list.
func Check(line string) error {
	r := newRules()
	return r.read(line)
}

func newRules() Rules { return Rules{exact: map[string][]entry{}, suffix: map[string][]entry{}} }

func (r *Rules) read(line string) error {
	hosts := []string{line}
	if g, ok := groups[line]; ok {
		hosts = g.hosts()
	} else if !strings.ContainsAny(line, ".:") {
		return fmt.Errorf("no such group; there are %s", strings.Join(Groups(), ", "))
	}
	for _, host := range hosts {
		if err := r.add(line, host); err != nil {
			return err
		}
	}
	r.lines = append(r.lines, line)
	return nil
}

func (r *Rules) add(line, host string) error {
	name, text, hasPort := strings.Cut(host, ":")
	e := entry{line: line}
	var err error
	if hasPort {
		if e.port, err = parsePort(text); err != nil {
			return err
		}
	}
	name, below := strings.CutPrefix(name, "*.")
	if below && !strings.Contains(name, ".") {
		return fmt.Errorf("*.%s would be a whole top-level domain", name)
	}
	if name, err = Canonical(name); err != nil {
		return err
	}
	// Below a public suffix anybody can register a name: everybody's bucket is no limit.
	if public, _ := publicsuffix.PublicSuffix(name); below && public == name {
		return fmt.Errorf("anybody can have a name below %s: name the hosts", name)
	}
	into := r.exact
	if below {
		into = r.suffix
	}
	if !slices.Contains(into[name], e) {
		into[name] = append(into[name], e)
	}
	return nil
}

// Match finds the line that opens a host. Otherwise it says whether the name is open on another port.
func (r Rules) Match(h Host) (line string, otherPort, ok bool) {
	look := func(entries []entry) bool {
		for _, e := range entries {
			if e.opens(h.Port) {
				line = e.line
				return true
			}
			otherPort = true
		}
		return false
	}
	if look(r.exact[h.Name]) {
		return line, false, true
	}
	for _, rest, more := strings.Cut(h.Name, "."); more; _, rest, more = strings.Cut(rest, ".") {
		if look(r.suffix[rest]) {
			return line, false, true
		}
	}
	return "", otherPort, false
}

// Empty says that nothing is open.
func (r Rules) Empty() bool { return len(r.exact) == 0 && len(r.suffix) == 0 }

// Has says whether an entry is in the list as it was written.
func (r Rules) Has(line string) bool { return slices.Contains(r.lines, line) }

// Line is what a policy would have to say to open a host: a group, where there is one with that host in it.
func Line(h Host) string {
	for _, name := range Groups() {
		rules, err := Parse([]string{name})
		if _, _, ok := rules.Match(h); ok && err == nil {
			return name
		}
	}
	if h.Port == 80 || h.Port == 443 {
		return h.Name
	}
	return h.String()
}

// Groups are the names of the ready-made groups, in order.
func Groups() []string { return slices.Sorted(maps.Keys(groups)) }
