package alerts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// Allowed are the hosts and networks that webhooks may reach besides public addresses over https.
type Allowed struct {
	hosts    []string
	networks []netip.Prefix
}

// ParseAllowed reads names of hosts, addresses and networks.
func ParseAllowed(list []string) (Allowed, error) {
	var a Allowed
	for _, entry := range list {
		if p, err := netip.ParsePrefix(entry); err == nil {
			if p.Addr().Is4In6() && p.Bits() >= 96 {
				p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
			}
			a.networks = append(a.networks, p.Masked())
			continue
		}
		if addr, err := netip.ParseAddr(entry); err == nil && addr.Zone() == "" {
			a.networks = append(a.networks, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		host := CanonicalHost(entry)
		if !validHost(host) {
			return Allowed{}, fmt.Errorf("must be a list of hosts, addresses and networks, as in "+
				"hooks.corp.example,10.1.0.0/16, not %q", entry)
		}
		a.hosts = append(a.hosts, host)
	}
	return a, nil
}

// Host reports whether a host is listed.
func (a *Allowed) Host(host string) bool { return slices.Contains(a.hosts, CanonicalHost(host)) }

// Addr reports whether an address lies in a listed network. IPv4 in IPv6 counts as IPv4.
func (a *Allowed) Addr(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(a.networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// CanonicalHost is the name of a host as it is looked up and compared: in ASCII and lower case, without the last dot.
func CanonicalHost(host string) string {
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// validHost reports whether a canonical host is a name. Names whose last label is a number are none: many programs take
// them for an IPv4 address, as in 127.1, 2130706433 or 0x7f.0.0.1.
func validHost(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" ||
			strings.HasPrefix(label, "-") {
			return false
		}
	}
	last := labels[len(labels)-1]
	if hex, is := strings.CutPrefix(last, "0x"); is && strings.Trim(hex, "0123456789abcdef") == "" {
		return false
	}
	return strings.Trim(last, "0123456789") != ""
}
