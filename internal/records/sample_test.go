package records

import (
	"fmt"
	"net/netip"
	"testing"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/match"
)

// Addresses that rules count together are one entity: all of them are drawn or none, and among the facts they have the
// hash that the name of their bucket has.
func TestSample_AddressesThatAreCountedTogether(t *testing.T) {
	network := match.Options{IPv6Prefix: 56}.Network
	c := conceal{secret: func() []byte { return []byte("k") }, address: AddressHash, network: network}
	drawnAt := func(ip netip.Addr) float64 {
		q := decide.Question{Descriptor: match.Descriptor{IP: ip}}
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

// What is kept of denials until the end of a second is bounded: beyond it each has its event.
func TestFolds_AreBounded(t *testing.T) {
	f := newFolds()
	denial := func(key string) *decide.Decision {
		return &decide.Decision{Answer: &decide.Answer{Verdict: decide.Denied,
			Limits: []decide.LimitAnswer{{Key: limiter.Key(key), Weight: 1}}}}
	}
	large := func(b []byte) []byte { return append(b, make([]byte, maxFoldBytes/4)...) }
	held := func(key string, n int) (held int) {
		for range n {
			if is, _ := f.hold(denial(key), drawn{}, large); is {
				held++
			}
		}
		return held
	}
	for second := range 2 {
		for i := range 6 {
			want := 5
			if i >= 4 { // the space is full
				want = 0
			}
			if got := held(fmt.Sprint("bytes ", i), foldAbove+5); got != want {
				t.Errorf("second %d, bucket %d: %d denials wait, want %d", second, i, got, want)
			}
		}
		f.end(false, func([]byte) {})
	}
	for i := range maxFolds {
		held(fmt.Sprint("bucket ", i), 1)
	}
	if got := held("one more", foldAbove+5); got != 0 || len(f.of) != maxFolds {
		t.Errorf("%d denials of one bucket more wait, of %d buckets", got, len(f.of))
	}
	f.end(true, func([]byte) {})
	if got := held("after the end", foldAbove+5); got != 0 {
		t.Errorf("%d denials wait after the end", got)
	}
}
