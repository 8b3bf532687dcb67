// Package egress is the only way out of a sandbox: a forward proxy that lets a command reach the hosts that a policy names, by
// name, on the ports that it names, and nothing else.
//
// A name is brought into one form, matched, resolved once, and the address that was checked is the one that is dialled. A
// tunnel has to carry TLS for the very name that was asked for, or HTTP with it in the Host header. Each decision, allowed or
// not, is told to Options.Record.
//
// What it does not do: look into TLS. Whoever is behind an allowed name can answer for other names too, by the Host header inside or
// a second ClientHello after a HelloRetryRequest: a host of a content delivery network is as open as that network lets its customers
// be. It holds no credential and adds none. It must not know what a run is for.
package egress

import (
	"context"
	"net/netip"
	"time"
)

// Host is a name in canonical form and a port.
type Host struct {
	Name string
	Port uint16
}

// Decision is what became of one request: of a tunnel, or of a plain HTTP request.
type Decision struct {
	Run      string        `json:"run"` // the proxy's, never the client's word
	Time     time.Time     `json:"time"`
	Host     string        `json:"host"` // canonical, or as it was asked for, quoted, if it is no name at all
	Port     uint16        `json:"port,omitempty"`
	Method   string        `json:"method"`
	Allowed  bool          `json:"allowed"`
	Rule     string        `json:"rule,omitempty"`   // the line of the policy that names the host
	Reason   Reason        `json:"reason,omitempty"` // of a refusal, or why an allowed one came to nothing
	Detail   string        `json:"detail,omitempty"` // for people
	Addr     string        `json:"addr,omitempty"`   // that was dialled
	Up       int64         `json:"bytes_up"`         // from the sandbox
	Down     int64         `json:"bytes_down"`       // to it
	Duration time.Duration `json:"duration_ns"`      // until the end of the tunnel or the answer
}

// Reason is why something was refused, or failed.
type Reason string

// The reasons. The last two are no refusals: the host was allowed and could not be reached, or a limit ended the tunnel.
const (
	NotListed   Reason = "not on the list"     // no rule for this host and port
	BadName     Reason = "bad name"            // no host name: an address in any spelling, a stray byte
	BadAddress  Reason = "address not allowed" // it resolves to this machine, a private network, or a metadata service
	BadRequest  Reason = "bad request"         // framing that two readers could read in two ways, a method that is not served
	WrongName   Reason = "another name inside" // the ClientHello or the Host header names another host
	NotTLS      Reason = "no TLS"              // neither TLS nor HTTP, or not TLS where it has to be
	HiddenName  Reason = "encrypted name"      // ECH: the name that can be seen proves nothing
	TooMany     Reason = "too many at once"    // Limits.Connections
	TooMuch     Reason = "too many bytes"      // Limits.Bytes
	Unreachable Reason = "unreachable"
	Ended       Reason = "ended by a limit"
)

// Limits of one proxy, which serves one command. Zero is the default.
type Limits struct {
	Connections int           // at once; 256
	Bytes       int64         // both ways, of all tunnels and requests together; 16 GiB. Seen once a second: passed by what a second carries.
	Idle        time.Duration // of a tunnel in which nothing moves; 15 min, as a model may think for a while
	Total       time.Duration // of a tunnel; 6 h
	Handshake   time.Duration // for a request's head, and for a ClientHello; 15 s
	Dial        time.Duration // to resolve and connect; 15 s
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	if l.Connections <= 0 {
		l.Connections = 256
	}
	if l.Bytes <= 0 {
		l.Bytes = 16 << 30
	}
	set(&l.Idle, 15*time.Minute)
	set(&l.Total, 6*time.Hour)
	set(&l.Handshake, 15*time.Second)
	set(&l.Dial, 15*time.Second)
	return l
}

// Resolver looks up the addresses of a name. It is asked once for each request.
type Resolver func(ctx context.Context, name string) ([]netip.Addr, error)
