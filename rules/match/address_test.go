package match

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/override"
)

func TestNormalAddr(t *testing.T) {
	for in, want := range map[string]string{
		"203.0.113.7": "203.0.113.7", "::ffff:203.0.113.7": "203.0.113.7", "64:ff9b::cb00:7107": "203.0.113.7",
		"64:ff9b::203.0.113.7%eth0": "203.0.113.7", "64:ff9b::1:cb00:7107": "64:ff9b::1:cb00:7107",
		"64:ff9b:1::cb00:7107": "64:ff9b:1::cb00:7107", "fe80::1%eth0": "fe80::1", "2001:db8::1": "2001:db8::1",
	} {
		if got := (Options{}).NormalAddr(netip.MustParseAddr(in)); got != netip.MustParseAddr(want) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got := (Options{}).NormalAddr(netip.Addr{}); got.IsValid() {
		t.Errorf("no address became %s", got)
	}
}

// under returns the settings with prefixes of NAT64.
func under(t *testing.T, prefixes ...string) Options {
	t.Helper()
	list, err := ParseNAT64(prefixes)
	if err != nil {
		t.Fatal(err)
	}
	return Options{NAT64: list}
}

// The first column is the prefix and the second the address in figure 1 of RFC 6052 section 2.4.
func TestNormalAddr_FindsTheAddressWhereRFC6052PutsIt(t *testing.T) {
	for _, row := range [][2]string{
		{"2001:db8::/32", "2001:db8:c000:221::"},
		{"2001:db8:100::/40", "2001:db8:1c0:2:21::"},
		{"2001:db8:122::/48", "2001:db8:122:c000:2:2100::"},
		{"2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"},
		{"2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"},
		{"2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"},
	} {
		o, ip := under(t, row[0]), netip.MustParseAddr(row[1])
		if got := o.NormalAddr(ip); got != netip.MustParseAddr("192.0.2.33") {
			t.Errorf("%s: got %s", row[0], got)
		}
		if got := o.NormalAddr(netip.MustParseAddr("64:ff9b::192.0.2.33")); got.Is4() {
			t.Errorf("%s: the well-known prefix is not set, and gives %s", row[0], got)
		}
		if got := under(t, NoNAT64).NormalAddr(ip); got != ip {
			t.Errorf("%s: without a prefix: got %s", row[0], got)
		}
		b := ip.As16()
		if b[8] = 1; o.NormalAddr(netip.AddrFrom16(b)).Is4() {
			t.Errorf("%s: the reserved bits are not zero", row[0])
		}
	}
}

func TestParseNAT64(t *testing.T) {
	for in, want := range map[string]string{
		"": "64:ff9b::/96", " ": "64:ff9b::/96", "none": "none", "64:ff9b::/96": "64:ff9b::/96",
		"2001:db8:1::/96, 64:ff9b::/96": "64:ff9b::/96,2001:db8:1::/96", "64:FF9B:1::/48": "64:ff9b:1::/48",
	} {
		got, err := ParseNAT64(strings.Split(in, ","))
		if words := (Options{NAT64: got}).NAT64Words(); err != nil || words != want {
			t.Errorf("%q: got %s, %v, want %s", in, words, err, want)
		}
	}
	for in, want := range map[string]string{
		"64:ff9b::/95": "of 32, 40, 48, 56, 64 or 96 bits", "64:ff9b::": "not \"64:ff9b::\"", "10.0.0.0/32": "IPv6 prefixes",
		"::ffff:0:0/96": "IPv6 prefixes", "::ffff:10.0.0.0/96": "IPv6 prefixes", "none,64:ff9b::/96": "not \"none\"",
		"64:ff9b::1/96": "write 64:ff9b::/96", "2001:db8:0:0:100::/96": "bits 64 to 71",
		"2001:db8::/32,2001:db8:1::/96": "do not overlap", "64:ff9b::/96,64:ff9b::/96": "do not overlap",
	} {
		if got, err := ParseNAT64(strings.Split(in, ",")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want %s", in, got, err, want)
		}
	}
}

func TestNormalNetwork(t *testing.T) {
	o := under(t, "64:ff9b::/96", "2001:db8::/32", "2001:db9:122:344::/64", "2001:dba:100::/40")
	for in, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "2001:aaaa::/32": "2001:aaaa::/32", "64:ff9b::/32": "64:ff9b::/32", "::/0": "::/0",
		"64:ff9b::192.0.2.7/128": "192.0.2.7/32", "64:ff9b::a00:0/104": "10.0.0.0/8", "64:ff9b::/96": "0.0.0.0/0",
		"2001:db8::/32": "0.0.0.0/0", "2001:db8:a00::/40": "10.0.0.0/8", "2001:db8:c000:200::/56": "192.0.2.0/24",
		"2001:db8:c000:221::/64": "192.0.2.33/32", "2001:db8:c000:221:0:1::/96": "192.0.2.33/32",
		"2001:db8:c000:221:100::/72": "2001:db8:c000:221:100::/72", "2001:db9:122:344::/64": "0.0.0.0/0",
		"2001:db9:122:344:a::/80": "10.0.0.0/8", "2001:db9:122:344::/72": "0.0.0.0/0",
		"2001:dba:10a::/48": "10.0.0.0/8", "2001:dba:1c0:2::/72": "192.0.2.0/24", "2001:dba:1c0:2:21::/80": "192.0.2.33/32",
	} {
		if got := o.normalNetwork(netip.MustParsePrefix(in)); got != netip.MustParsePrefix(want) {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// A network has the addresses that it has in the other form, and the address under it is its own normal address.
func TestNormalNetwork_HasTheSameAddresses(t *testing.T) {
	o := under(t, "64:ff9b::/96", "2001:db8::/32", "2001:db9:100::/40", "2001:dba:122::/48", "2001:dbb:122:300::/56",
		"2001:dbc:122:344::/64")
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom(o.NAT64).Draw(t, "prefix")
		b := prefix.Addr().As16()
		for i := prefix.Bits() / 8; i < len(b); i++ {
			if i != reserved {
				b[i] = rapid.SampledFrom([]byte{0, 1, 0x80, 0xff}).Draw(t, "byte")
			}
		}
		ip := netip.AddrFrom16(b)
		network := netip.PrefixFrom(ip, rapid.IntRange(prefix.Bits(), 128).Draw(t, "bits")).Masked()
		bit := rapid.IntRange(prefix.Bits(), 127).Draw(t, "bit")
		b[bit/8] ^= 0x80 >> (bit % 8)
		other := netip.AddrFrom16(b)
		got, in := o.normalNetwork(network), o.NormalAddr(other)
		if in.Is4() && network.Contains(other) != got.Contains(in) && in != o.NormalAddr(ip) {
			t.Fatalf("%s is %s; %s is %s", network, got, other, in)
		}
		wider := netip.PrefixFrom(ip, rapid.IntRange(0, prefix.Bits()-1).Draw(t, "fewer")).Masked()
		if at := o.addressUnder(wider); !wider.Contains(at) || o.NormalAddr(at) != at {
			t.Fatalf("%s: got %s", wider, at)
		}
	})
}

func TestNAT64_DecidesKeysConditionsAndOverrides(t *testing.T) {
	const inside, outside = "2001:db8:122:344:a:102:300::", "2001:db8:122:345::1" // 10.1.2.3 behind 2001:db8:122:344::/64
	conditional := perIP("ip")
	conditional.ID, conditional.Name = 8, "office"
	conditional.When = new(`cidr(ip, "10.1.0.0/16") && cidr(ip, "2001:db8:122:344:a::/80") && ip == "10.1.2.3"`)
	for name, opt := range map[string]Options{"set": under(t, "2001:db8:122:344::/64"), "not set": {}} {
		s, err := Compile([]rules.Rule{perIP("ip"), conditional}, 1, opt)
		if err != nil {
			t.Fatal(err)
		}
		e := override.New().Edit()
		for i, text := range []string{"10.1.0.0/16", "2001:db8:122:344:a:200::/88"} {
			key, err := ParseOverrideKey("ip", opt, text)
			if err != nil && name == "set" {
				t.Fatal(err)
			}
			e.Add(override.Row{RuleID: 7, ID: int64(i + 1), Match: key.Match, Limit: 1, Burst: -1})
		}
		s = s.WithOverrides(e.Done(1, nowMS))
		want, matches, applied := limiter.Key("{ip:2001:db8:122:344::/64}|7|sc"), 1, int64(0)
		if name == "set" {
			want, matches, applied = "{ip:10.1.2.3}|7|sc", 2, 1
		}
		got := s.Match(&Descriptor{IP: netip.MustParseAddr(inside)}, 1, overrideNow, nil)
		if len(got) != matches || got[0].Key != want || got[0].Override.ID != applied {
			t.Errorf("%s: got %d matches, %+v", name, len(got), got[0])
		}
		if got := s.Match(&Descriptor{IP: netip.MustParseAddr(outside)}, 1, overrideNow, nil); len(got) != 1 ||
			got[0].Key != "{ip:2001:db8:122:345::/64}|7|sc" {
			t.Errorf("%s: another address has %+v", name, got)
		}
		if around := opt.NetworksAround(inside); (len(around) == 33) != (name == "set") {
			t.Errorf("%s: %d networks around", name, len(around))
		}
	}
}
