package host

import (
	"fmt"
	"net/netip"
)

// ParseNetwork parses a network such as 10.0.0.0/8; an address alone is a network of one. An IPv4
// address in IPv6 form is an IPv4 address.
func ParseNetwork(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil || p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("must be an address such as 192.0.2.7 or a network such as 10.0.0.0/8")
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("must be the address of a network; write %s", p.Masked())
	}
	return p, nil
}
