package rules

import (
	"net/netip"
	"testing"
)

func TestNormalAddr(t *testing.T) {
	for in, want := range map[string]string{
		"203.0.113.7": "203.0.113.7", "::ffff:203.0.113.7": "203.0.113.7", "64:ff9b::cb00:7107": "203.0.113.7",
		"64:ff9b::203.0.113.7%eth0": "203.0.113.7", "64:ff9b::1:cb00:7107": "64:ff9b::1:cb00:7107",
		"64:ff9b:1::cb00:7107": "64:ff9b:1::cb00:7107", "fe80::1%eth0": "fe80::1", "2001:db8::1": "2001:db8::1",
	} {
		if got := NormalAddr(netip.MustParseAddr(in)); got != netip.MustParseAddr(want) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got := NormalAddr(netip.Addr{}); got.IsValid() {
		t.Errorf("no address became %s", got)
	}
}

func TestParseClientNetwork(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32",
		"64:ff9b::192.0.2.7": "192.0.2.7/32", "2001:db8::/32": "2001:db8::/32", "64:ff9b::/32": "64:ff9b::/32",
		"::/0": "::/0",
	} {
		if got, err := ParseClientNetwork(in); err != nil || got != netip.MustParsePrefix(want) {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"64:ff9b::a00:0/104": "must be the IPv4 network inside; write 10.0.0.0/8",
		"64:ff9b::/96":       "must be the IPv4 network inside; write 0.0.0.0/0",
		"10.0.0.1/8":         "must be the address of a network; write 10.0.0.0/8",
		"::ffff:0:0/96":      "must be an address such as 192.0.2.7 or a network such as 10.0.0.0/8",
		"ten":                "must be an address such as 192.0.2.7 or a network such as 10.0.0.0/8",
	} {
		if got, err := ParseClientNetwork(in); err == nil || err.Error() != want {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
	}
}
