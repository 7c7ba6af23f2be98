package facts

import (
	"net/netip"
	"slices"
	"strings"
)

// contains reports whether one of the networks contains the address.
func contains(networks []netip.Prefix, addr netip.Addr) bool {
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
			if !contains(r.trusted, addr) {
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
