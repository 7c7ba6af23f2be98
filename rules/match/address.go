package match

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// WellKnownNAT64 is the prefix of RFC 6052 for addresses behind which a translator shows IPv4 clients to IPv6 servers.
var WellKnownNAT64 = netip.MustParsePrefix("64:ff9b::/96")

// NoNAT64 is the list of ParseNAT64 for no prefix at all.
const NoNAT64 = "none"

// ParseNAT64 parses the prefixes of Options.NAT64. An empty list is nil, the default, and NoNAT64 alone is empty. The
// error says what is allowed.
func ParseNAT64(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if s == NoNAT64 && len(list) == 1 {
			return []netip.Prefix{}, nil
		}
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil || !p.Addr().Is6() || p.Addr().Is4In6() || !slices.Contains([]int{32, 40, 48, 56, 64, 96}, p.Bits()):
			return nil, fmt.Errorf("must be none, or IPv6 prefixes of 32, 40, 48, 56, 64 or 96 bits such as %s, not %q",
				WellKnownNAT64, s)
		case p != p.Masked():
			return nil, fmt.Errorf("must be prefixes without further bits; write %s", p.Masked())
		case p.Addr().As16()[reserved] != 0:
			return nil, fmt.Errorf("must be prefixes whose bits 64 to 71 are zero (RFC 6052), not %s", s)
		case slices.ContainsFunc(out, p.Overlaps):
			return nil, fmt.Errorf("must be prefixes that do not overlap; %s does", s)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return out, nil
}

// NAT64Words lists prefixes as ParseNAT64 reads them, in one order.
func (o Options) NAT64Words() string {
	list := o.nat64()
	if len(list) == 0 {
		return NoNAT64
	}
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}

func (o Options) nat64() []netip.Prefix {
	if o.NAT64 == nil {
		return defaultNAT64
	}
	return o.NAT64
}

var defaultNAT64 = []netip.Prefix{WellKnownNAT64}

// reserved is the byte of an address that has the bits 64 to 71. They are zero in an address with an IPv4 address
// inside, which continues behind them (RFC 6052 section 2.2).
const reserved = 8

// around returns the prefix of NAT64 that a network of IPv6 addresses is under, false if none is.
func (o Options) around(p netip.Prefix) (netip.Prefix, bool) {
	if !p.Addr().Is6() || p.Bits() > 8*reserved && p.Addr().As16()[reserved] != 0 {
		return netip.Prefix{}, false
	}
	for _, n := range o.nat64() {
		if n.Bits() <= p.Bits() && n.Contains(p.Addr()) {
			return n, true
		}
	}
	return netip.Prefix{}, false
}

// embedded returns the 32 bits of an address behind a prefix of NAT64, without the reserved ones. The bits behind them
// have no meaning yet (RFC 6052 section 2.2).
func embedded(prefix netip.Prefix, ip netip.Addr) netip.Addr {
	b, at := ip.As16(), prefix.Bits()/8
	var inside [4]byte
	for i := range inside {
		if at == reserved {
			at++
		}
		inside[i] = b[at]
		at++
	}
	return netip.AddrFrom4(inside)
}

// NormalAddr returns the address by which a client is counted and compared: the IPv4 address inside an IPv4-mapped
// address or inside an address under a prefix of NAT64, and otherwise the address itself, without its zone. The zero
// Addr stays zero.
func (o Options) NormalAddr(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if !ip.Is6() {
		return ip
	}
	if prefix, under := o.around(netip.PrefixFrom(ip, ip.BitLen())); under {
		return embedded(prefix, ip)
	}
	return ip
}

// normalNetwork returns the network of the normal addresses of a network: of one under a prefix of NAT64 the IPv4
// network inside.
func (o Options) normalNetwork(p netip.Prefix) netip.Prefix {
	prefix, under := o.around(p)
	if !under {
		return p
	}
	bits := p.Bits() - prefix.Bits()
	if first := 8*reserved - prefix.Bits(); first >= 0 && bits > first { // it goes on behind the reserved bits
		bits = max(first, bits-8)
	}
	return netip.PrefixFrom(embedded(prefix, p.Addr()), min(bits, 32)).Masked()
}

// addressUnder returns an address of a normal network that is its own normal address.
func (o Options) addressUnder(p netip.Prefix) netip.Addr {
	ip := p.Addr()
	for bit := p.Bits(); bit < ip.BitLen() && o.NormalAddr(ip) != ip; bit++ {
		b := p.Addr().As16()
		b[bit/8] |= 0x80 >> (bit % 8)
		ip = netip.AddrFrom16(b)
	}
	return ip
}
