package egress

import (
	"net"
	"net/netip"
)

// closed are the networks to which nothing goes, after the IANA registries of special-purpose addresses (RFC 6890 and its
// updates) and what clouds use for their metadata.
var closed = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this host"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's network"}, // 100.100.100.200: metadata at Alibaba
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service"}, // Azure: a public address that is none
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, where metadata services are"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private network"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments"}, // 192.0.0.192: metadata at Oracle
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private network"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a network for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved or broadcast"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fc00::/7"), "a private network"}, // fd00:ec2::254 and fd20:ce::254: metadata at AWS and Google
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("2001::/23"), "protocol assignments, Teredo among them"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4, which leads to an IPv4 address"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the last 32 bits are an IPv4 address
	compatible    = netip.MustParsePrefix("::/96")        // RFC 4291, deprecated; some systems still send these to the IPv4 address
)

// guard says which addresses may be dialled.
type guard struct {
	allowed []netip.Prefix // by the operator, whatever they are
	own     map[netip.Addr]bool
}

// newGuard remembers the addresses of this machine: what listens on a public one of them often takes the loopback for its friend.
func newGuard(allowed []netip.Prefix) (*guard, error) {
	g := &guard{allowed: allowed, own: map[netip.Addr]bool{}}
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			g.own[p.Addr().Unmap().WithZone("")] = true
		}
	}
	return g, err
}

// refuses says what is wrong with an address; empty: it may be dialled.
func (g *guard) refuses(a netip.Addr) string {
	if a.Zone() != "" {
		return "an address of one interface"
	}
	a = a.Unmap()
	for _, p := range g.allowed {
		if p.Contains(a) {
			return ""
		}
	}
	if g.own[a] {
		return "an address of this machine"
	}
	for _, c := range closed {
		if c.prefix.Contains(a) {
			return c.what
		}
	}
	switch {
	case a.Is4() || globalUnicast.Contains(a):
		return ""
	case nat64.Contains(a):
		return g.refuses(lastIPv4(a))
	case compatible.Contains(a):
		return "an IPv4 address in an IPv6 one"
	}
	return "no public address"
}

func lastIPv4(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
