package facts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ParseNetwork reads an address or a network of addresses.
func ParseNetwork(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		if addr := p.Addr(); addr.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(addr.Unmap(), p.Bits()-96)
		}
		return p.Masked(), nil
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is not an address or a network", s)
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// Contains reports whether one of the networks contains the address.
func Contains(networks []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// clientIP returns the right-most address of the header that is not trusted. The addresses to the
// left of it are what an unknown sender wrote. An entry that is no address ends the search, because
// nobody who is trusted wrote what is left of it. If the search finds only trusted addresses, the
// client is the left-most of them; if it finds none, the fact is missing.
func (r *Reader) clientIP(req *Request) netip.Addr {
	if r.ipHeader == "" {
		return req.Peer.Unmap().WithZone("")
	}
	var found netip.Addr
	for _, values := range slices.Backward(req.Header[r.ipHeader]) {
		for more := true; more; {
			entry := values
			if i := strings.LastIndexByte(values, ','); i >= 0 {
				values, entry = values[:i], values[i+1:]
			} else {
				more = false
			}
			addr, ok := parseEntry(strings.TrimSpace(entry))
			if !ok {
				return found
			}
			found = addr
			if !Contains(r.trusted, addr) {
				return found
			}
		}
	}
	return found
}

// parseEntry reads an address as proxies write it: with or without a port, IPv6 with or without
// brackets.
func parseEntry(s string) (netip.Addr, bool) {
	inner, bracketed := strings.CutPrefix(s, "[")
	if bracketed && strings.HasSuffix(inner, "]") {
		s = inner[:len(inner)-1]
	} else if bracketed || strings.Count(s, ":") == 1 {
		withPort, err := netip.ParseAddrPort(s)
		return withPort.Addr().Unmap().WithZone(""), err == nil
	}
	addr, err := netip.ParseAddr(s)
	return addr.Unmap().WithZone(""), err == nil
}

// normalHost returns a host in lower case, without port, brackets and final dot.
func normalHost(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host, _, _ = strings.Cut(inner, "]")
	} else if name, port, ok := strings.Cut(host, ":"); ok && !strings.Contains(port, ":") {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
