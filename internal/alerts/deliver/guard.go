package deliver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"sluice/internal/alerts"
	"sluice/rules/field"
	"sluice/rules/match"
)

// Guard says which addresses may be reached. Public addresses may, over https. Others may if the host is listed, or the
// address lies in a listed network; then also over http.
type Guard struct {
	allowed alerts.Allowed
	// reach knows the prefixes of NAT64. Networks without IPv4 reach all of it under them, and their resolvers make such
	// addresses up.
	reach match.Options
	// lookup finds the addresses of a host.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// NewGuard creates a Guard. nat64 are prefixes of NAT64 besides the well-known one.
func NewGuard(allowed alerts.Allowed, nat64 ...netip.Prefix) *Guard {
	reach := match.Options{NAT64: append(slices.Clip(nat64), match.WellKnownNAT64)}
	return &Guard{allowed: allowed, reach: reach, lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
}

// refused are the networks that are not public: this host, private, shared (CGNAT), link-local with the metadata
// service of clouds, reserved for protocols, documentation and benchmarks, multicast, and the IPv6 networks that embed
// an IPv4 address (local NAT64, 6to4, Teredo, IPv4-compatible). An address behind NAT64 counts as the IPv4 address in
// it.
var refused = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/3",
	"::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
	"3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, text := range list {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// errRefused means that an address must not be reached.
var errRefused = errors.New("the address is not allowed")

// allows reports whether an address of a host may be reached, in the clear or over TLS.
func (g *Guard) allows(host string, addr netip.Addr, open bool) bool {
	at := g.reach.NormalAddr(addr) // that a connection to addr reaches
	if g.allowed.Host(host) || g.allowed.Addr(at) {
		return true
	}
	contains := func(p netip.Prefix) bool { return p.Contains(at) }
	// An address that is still under a NAT64 prefix here embeds no valid IPv4 address, but a translator might still
	// find one in it.
	return !open && at.IsValid() && !slices.ContainsFunc(refused, contains) &&
		!slices.ContainsFunc(g.reach.NAT64, contains)
}

// Check refuses a URL that must not be reached now; the error is a *field.ValidationError about url. A host without
// addresses passes, because its name may be defined later. While name lookups fail, every URL passes.
func (g *Guard) Check(ctx context.Context, text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return nil //nolint:nilerr // the validation of webhooks says so
	}
	host, open := alerts.CanonicalHost(u.Hostname()), u.Scheme != "https"
	addrs, err := g.addresses(ctx, host)
	if err != nil {
		addrs = nil
	}
	for _, addr := range addrs {
		if g.allows(host, addr, open) {
			continue
		}
		if open && g.allows(host, addr, false) {
			return wrongURL("must begin with https://, unless SLUICE_WEBHOOK_ALLOW lists the host")
		}
		return wrongURL("leads to an address that is not public; SLUICE_WEBHOOK_ALLOW lists the hosts and networks that " +
			"are reachable besides")
	}
	if open && len(addrs) == 0 && !g.allowed.Host(host) {
		return wrongURL("must begin with https://, unless SLUICE_WEBHOOK_ALLOW lists the host")
	}
	return nil
}

func wrongURL(message string) error {
	return &field.ValidationError{Fields: []field.Problem{{Field: "url", Message: message}}}
}

// addresses returns the addresses of a host. The host may be an address itself.
func (g *Guard) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return g.lookup(ctx, host)
}

// maxAddresses is how many addresses of a host are tried.
const maxAddresses = 4

// dial connects to one of the addresses of a host that are allowed at this moment. It may run for up to sendTimeout,
// even if the caller has given up: net/http leaves such a dial running.
func (g *Guard) dial(ctx context.Context, network, address string, open bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := g.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	// The address is checked where the socket connects, so that nothing comes between the check and its use.
	d := net.Dialer{Control: func(_, target string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(target)
		if err != nil || !g.allows(host, at.Addr(), open) {
			return errRefused
		}
		return nil
	}}
	failed := error(&net.DNSError{Err: "no addresses", Name: host, IsNotFound: true})
	addrs = addrs[:min(len(addrs), maxAddresses)]
	for _, addr := range addrs {
		// An address that does not answer leaves time for the others.
		d.Timeout = sendTimeout / time.Duration(len(addrs))
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(addr.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, failed
}
