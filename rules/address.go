package rules

import (
	"fmt"
	"net/netip"
)

// nat64 holds the addresses behind which a translator shows IPv4 clients to IPv6 servers (RFC 6052). The last 32 bits
// are the IPv4 address.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// NormalAddr returns the address by which a client is counted and compared: the IPv4 address inside an IPv4-mapped or a
// NAT64 address, else the address itself, without its zone. The zero Addr stays zero.
func NormalAddr(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if !nat64.Contains(ip) {
		return ip
	}
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// ParseClientNetwork is ParseNetwork for networks that are compared with normal addresses. It refuses a network of
// NAT64 addresses, which would contain none.
func ParseClientNetwork(s string) (netip.Prefix, error) {
	p, err := ParseNetwork(s)
	switch {
	case err != nil:
		return p, err
	case p.IsSingleIP():
		ip := NormalAddr(p.Addr())
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	case nat64.Contains(p.Addr()) && p.Bits() >= nat64.Bits():
		return netip.Prefix{}, fmt.Errorf("must be the IPv4 network inside; write %s",
			netip.PrefixFrom(NormalAddr(p.Addr()), p.Bits()-nat64.Bits()))
	}
	return p, nil
}

// addressUnder returns an address of a network of ParseClientNetwork that is its own normal address.
func addressUnder(p netip.Prefix) netip.Addr {
	if !nat64.Contains(p.Addr()) {
		return p.Addr()
	}
	b := p.Addr().As16()
	b[nat64.Bits()/8-1] |= 1 // beside the NAT64 addresses, and in p, which is larger than them
	return netip.AddrFrom16(b)
}
