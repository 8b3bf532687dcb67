package policy

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
)

// Money is an amount in millionths of a US dollar: agents report their cost in dollars with that many digits.
type Money int64

const usd Money = 1_000_000

// Dollars is the amount in US dollars.
func (m Money) Dollars() float64 { return float64(m) / float64(usd) }

func (m Money) String() string {
	if m%usd == 0 {
		return fmt.Sprintf("%d USD", m/usd)
	}
	return fmt.Sprintf("%.2f USD", m.Dollars())
}

// Size is a number of bytes.
type Size int64

const megabyte Size = 1_000_000

var units = []struct {
	name  string
	bytes Size
}{{"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1}}

func (s Size) String() string {
	for _, u := range units {
		if s >= u.bytes && s%u.bytes == 0 {
			return fmt.Sprintf("%d %s", s/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%d B", int64(s))
}

// The same expressions stand in schema.json.
var (
	durationForm = regexp.MustCompile(`^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$`)
	moneyForm    = regexp.MustCompile(`^([0-9]{1,5})(\.[0-9]{1,2})? USD$`)
	sizeForm     = regexp.MustCompile(`^([0-9]{1,9}) ?(B|KB|MB|GB|KiB|MiB|GiB)$`)
	groupForm    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	hostForm     = regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9](:[0-9]{1,5})?$`)
)

func parseDuration(s string) (time.Duration, error) {
	if s == "" || !durationForm.MatchString(s) {
		return 0, fmt.Errorf("%s is no duration", quote(s))
	}
	return time.ParseDuration(s)
}

func parseMoney(s string) (Money, error) {
	m := moneyForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%s is no amount of money", quote(s))
	}
	whole, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, err
	}
	cents := strings.TrimPrefix(m[2], ".")
	part, err := strconv.ParseInt((cents + "00")[:2], 10, 64)
	if err != nil {
		return 0, err
	}
	return Money(whole)*usd + Money(part)*usd/100, nil
}

func parseSize(s string) (Size, error) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%s is no size", quote(s))
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, err
	}
	for _, u := range units {
		if u.name == m[2] {
			return Size(n) * u.bytes, nil
		}
	}
	return 0, fmt.Errorf("%s has no known unit", quote(s))
}

// checkNetwork says what is wrong with a name of a network group or host, and what to write.
func checkNetwork(s string) (message, hint string) {
	host, port, hasPort := strings.Cut(s, ":")
	switch _, err := netip.ParseAddr(strings.Trim(host, "[]")); {
	case strings.Contains(s, "://") || strings.Contains(s, "/"):
		return quote(s) + " is a URL or a path", "write the host alone, such as proxy.example.com"
	case s == "*":
		return "everything cannot be opened at once", "name the hosts, or a group such as go"
	case err == nil || strings.Count(s, ":") > 1:
		return quote(s) + " is an address", "write the host's name: an address says nothing about who answers"
	case s == "localhost" || strings.HasSuffix(host, ".localhost"):
		return quote(s) + " is the sandbox itself", "it can always reach itself; remove the entry"
	case groupForm.MatchString(s):
		if !slices.Contains(egress.Groups(), s) {
			return "there is no network group " + quote(s), "a group (" + strings.Join(egress.Groups(), ", ") + ") or a host's name with its dots"
		}
		return "", ""
	case !hostForm.MatchString(s):
		return quote(s) + " is neither a group nor a host name", "lower case, such as go, proxy.example.com, *.example.com or example.com:8443"
	}
	if n, err := strconv.Atoi(port); hasPort && (err != nil || n < 1 || n > 65535) {
		return quote(s) + " has no port between 1 and 65535", ""
	}
	if err := egress.Check(s); err != nil {
		return quote(s) + " cannot be opened: " + err.Error(), ""
	}
	return "", ""
}

// checkRelative says what is wrong with a path below the root of the repository.
func checkRelative(p string) string {
	switch {
	case p == "":
		return "is empty"
	case strings.ContainsAny(p, "\x00\n\r"):
		return "has a control character"
	case strings.HasPrefix(p, "/"):
		return "begins with /: it is counted from the root of the repository"
	case strings.Contains(p, `\`):
		return `has a \: separate by /`
	case p != path.Clean(p):
		return fmt.Sprintf("is not in its plain form %q", path.Clean(p))
	case p == ".." || strings.HasPrefix(p, "../"):
		return "leads out of the repository"
	}
	return ""
}

// checkGlob says what is wrong with a glob.
func checkGlob(g string) string {
	if m := checkRelative(strings.TrimPrefix(g, "!")); m != "" {
		return m
	}
	if strings.HasPrefix(g, "!") {
		return "begins with !: there are no exceptions, name what is meant"
	}
	for _, segment := range strings.Split(g, "/") {
		if segment != "**" && strings.Contains(segment, "**") {
			return "has ** beside other letters: it stands for any number of directories, alone between two /"
		}
	}
	if err := sandbox.CheckGlob(g); err != nil {
		return err.Error()
	}
	return ""
}
