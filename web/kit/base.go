package kit

import (
	"net/netip"
	"slices"
	"strings"
)

// Base is the address of the console. Without a public URL it is a guess: the Host of the request with the scheme of
// its connection. Only a trusted proxy may say that the browser's connection is encrypted.
func (v *Visit) Base() string {
	if v.kit.PublicURL != "" {
		return v.kit.PublicURL
	}
	r, scheme := v.Request(), "http"
	if r.TLS != nil || v.kit.trusts(r.RemoteAddr) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// trusts reports whether a connection comes from a trusted proxy.
func (k *Kit) trusts(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(k.TrustedProxies,
		func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}
