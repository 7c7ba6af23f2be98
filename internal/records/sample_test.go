package records

import (
	"net/netip"
	"testing"

	"sluice/api/decide"
	"sluice/rules"
)

// Addresses that rules count together are one entity: all of them are drawn or none, and among the facts they have the
// hash that the name of their bucket has.
func TestSample_AddressesThatAreCountedTogether(t *testing.T) {
	network := rules.Options{IPv6Prefix: 56}.Network
	c := conceal{secret: func() []byte { return []byte("k") }, address: AddressHash, network: network}
	drawnAt := func(ip netip.Addr) float64 {
		q := decide.Question{Descriptor: rules.Descriptor{IP: ip}}
		return float64(entity(&decide.Decision{Question: &q, Answer: &decide.Answer{}}, network))
	}
	for _, same := range [][3]string{{"2001:db8::1", "2001:db8:0:ff::2", "2001:db8::/56"},
		{"203.0.113.7", "64:ff9b::203.0.113.7", "203.0.113.7"}} {
		a, b := netip.MustParseAddr(same[0]), netip.MustParseAddr(same[1])
		if drawnAt(a) != drawnAt(b) {
			t.Errorf("%s and %s are drawn apart", a, b)
		}
		if got, other := c.factIP(a), c.factIP(b); got != other || got != c.hash(same[2]) {
			t.Errorf("the hashes of %s and %s are %s and %s, want that of %s", a, b, got, other, same[2])
		}
	}
	if drawnAt(netip.MustParseAddr("2001:db8::1")) == drawnAt(netip.MustParseAddr("2001:db8:0:100::1")) {
		t.Error("two networks are one entity")
	}
}
