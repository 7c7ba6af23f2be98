package match

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/rules"
	"sluice/rules/override"
)

// perIP is a rule of 5 a second for each address.
func perIP(scope string) rules.Rule { return rule(7, func(r *rules.Rule) { r.Scope = scope }) }

func TestNetworks_ExactThenSmallestNetworkThenWildcard(t *testing.T) {
	end := overrideNow.Add(time.Minute)
	s := withOverrides(t, perIP("ip"),
		rules.Override{Key: "10.0.0.0/8", Limit: ptr[int64](1)},
		rules.Override{Key: "10.1.0.0/16", Limit: ptr[int64](2)},
		rules.Override{Key: "10.1.2.3", Limit: ptr[int64](3)},
		rules.Override{Key: "ip:*", Limit: ptr[int64](4)},
		rules.Override{Key: "2001:db8::/32", Blocked: true},
		rules.Override{Key: "2001:db8:1::/64", Unlimited: true},
		rules.Override{Key: "10.1.0.0/20", Limit: ptr[int64](7), ExpiresAt: &end},
		rules.Override{Key: "2002::/16", Limit: ptr[int64](8)},
	)
	for _, c := range []struct {
		ip  string
		id  int64
		net string
	}{
		{"10.2.0.1", 1, "10.0.0.0/8"}, {"10.1.255.255", 2, "10.1.0.0/16"}, {"10.1.2.3", 3, ""},
		{"::ffff:10.1.2.3", 3, ""}, {"::ffff:10.2.0.1", 1, "10.0.0.0/8"},
		{"10.1.2.4", 7, "10.1.0.0/20"}, {"11.0.0.0", 4, ""}, {"9.255.255.255", 4, ""}, {"::1", 4, ""},
		{"2001:db8:ffff::1", 5, "2001:db8::/32"}, {"2001:db8:1:0:ffff::", 6, ""}, {"64:ff9b::10.2.0.1", 1, "10.0.0.0/8"},
		{"2002::", 8, "2002::/16"},
		{"fe80::1%eth0", 4, ""},
	} {
		d := Descriptor{IP: netip.MustParseAddr(c.ip)}
		got := s.Explain(&d, 1, overrideNow)[0]
		if got.Override.ID != c.id || got.Network != c.net {
			t.Errorf("%s: got override %+v of %s, want %d of %s", c.ip, got.Override, got.Network, c.id, c.net)
		}
		if b, err := s.FindBucket(s.At(0), c.ip, overrideNow); netip.MustParseAddr(c.ip).Zone() == "" &&
			(err != nil || b.Override != got.Override) {
			t.Errorf("%s: the page of the key shows %+v, %v", c.ip, b.Override, err)
		}
	}
	if m := matchOne(s, Descriptor{IP: netip.MustParseAddr("10.1.2.4")}, end); m == nil || m.Override.ID != 2 {
		t.Errorf("after the smaller network ended: got %+v", m)
	}
}

// An allow list: everything is blocked, but for some networks.
func TestNetworks_AllOfAFamily(t *testing.T) {
	s := withOverrides(t, perIP("ip"), rules.Override{Key: "0.0.0.0/0", Blocked: true},
		rules.Override{Key: "192.0.2.0/24", Unlimited: true}, rules.Override{Key: "::/0", Limit: ptr[int64](9)})
	for ip, want := range map[string]int64{"0.0.0.0": 1, "255.255.255.255": 1, "192.0.2.1": 2, "::": 3, "ffff::1": 3,
		"::ffff:0.0.0.1": 1} {
		d := Descriptor{IP: netip.MustParseAddr(ip)}
		if got := s.Explain(&d, 1, overrideNow)[0]; got.Override.ID != want {
			t.Errorf("%s: got override %+v, want %d", ip, got.Override, want)
		}
	}
}

func TestNetworks_OfSums(t *testing.T) {
	s := withOverrides(t, perIP("apikey+ip+route"),
		rules.Override{Key: "apikey:k1+ip:10.0.0.0/8+route:/v1", Limit: ptr[int64](1)},
		rules.Override{Key: "apikey:k1+ip:10.1.0.0/16+route:/v1", Limit: ptr[int64](2)},
		rules.Override{Key: "apikey:k2+ip:10.0.0.0/8+route:/v1", Limit: ptr[int64](3)},
		rules.Override{Key: "apikey:k1+ip:10.1.2.3+route:*", Limit: ptr[int64](4)},
	)
	for _, c := range []struct {
		key, ip, route string
		id             int64
	}{
		{"k1", "10.9.9.9", "/v1", 1}, {"k1", "10.1.2.3", "/v1", 2}, {"k2", "10.1.2.3", "/v1", 3},
		{"k1", "10.1.2.3", "/v2", 4}, {"k1", "10.1.2.4", "/v2", 0}, {"k3", "10.1.2.3", "/v1", 0},
	} {
		d := Descriptor{APIKey: c.key, IP: netip.MustParseAddr(c.ip), Route: c.route}
		m := matchOne(s, d, overrideNow)
		if m == nil || m.Override.ID != c.id {
			t.Errorf("%+v: got %+v", c, m)
			continue
		}
		for _, name := range []string{m.Display(), BucketName(m.Key)} { // the hash cut short, and whole
			if b, err := s.FindBucket(s.At(0), name, overrideNow); err != nil ||
				b.Override != m.Override && (c.id != 4 || name == BucketName(m.Key)) {
				t.Errorf("%s: the page of the key shows %+v, %v, want %+v", name, b.Override, err, m.Override)
			}
		}
	}
}

// What is stored for other settings, or for another scope, has no effect, and what fits again counts.
func TestNetworks_FollowTheSizeByWhichAddressesAreCounted(t *testing.T) {
	r := perIP("ip")
	e := override.New().Edit()
	for i, key := range []string{"{ip:10.0.0.0/8}", "{ip:10.1.2.0/24}", "{ip:10.1.2.128/25}", "{ip:10.1.2.130}"} {
		e.Add(override.Row{RuleID: 7, ID: int64(i + 1), Match: key, Limit: 1, Burst: -1})
	}
	o := e.Done(1, nowMS)
	for bits, want := range map[int]override.Applied{
		32: {ID: 4}, 28: {ID: 3, Network: 26}, 25: {ID: 3}, 24: {ID: 2}, 23: {ID: 1, Network: 9}, 8: {ID: 1}, 7: {},
	} {
		s, err := Compile([]rules.Rule{r}, 1, Options{IPv4Prefix: bits})
		if err != nil {
			t.Fatal(err)
		}
		m := matchOne(s.WithOverrides(o), Descriptor{IP: netip.MustParseAddr("10.1.2.130")}, overrideNow)
		if m == nil || m.Override != want {
			t.Errorf("counted by /%d: got %+v, want %+v", bits, m.Override, want)
		}
	}
	r.Scope = "tier+ip"
	d := Descriptor{Tier: "a", IP: netip.MustParseAddr("10.1.2.130")}
	m := matchOne(compile(t, r).WithOverrides(o), d, overrideNow)
	if m == nil || m.Override.ID != 0 {
		t.Errorf("of another scope: got %+v", m)
	}
}

// The addresses beside the NAT64 addresses, whose first address is one of them, are counted as IPv6.
func TestNetworks_TheNetworkAroundNAT64IsOneBucket(t *testing.T) {
	s := withOverrides(t, perIP("ip"), rules.Override{Key: "ip:64:ff9b::/64", Blocked: true})
	for ip, want := range map[string]int64{"64:ff9b::1:a05:505": 1, "0.0.0.0": 0, "64:ff9b::a05:505": 0} {
		m := matchOne(s, Descriptor{IP: netip.MustParseAddr(ip)}, overrideNow)
		if m == nil || m.Override.ID != want {
			t.Errorf("%s: got %+v, want override %d", ip, m, want)
		}
	}
	if b, err := s.FindBucket(s.At(0), "ip:64:ff9b::/64", overrideNow); err != nil || b.Override.ID != 1 ||
		b.Name != "ip:64:ff9b::/64" {
		t.Errorf("the page of the key shows %+v, %v", b, err)
	}
	_, err := ParseOverrideKey("ip", Options{}, "64:ff9b::/80")
	if err == nil || !strings.HasSuffix(err.Error(), "; write 64:ff9b::/64") {
		t.Errorf("got %v", err)
	}
}

func TestExplain_NamesTheNetwork(t *testing.T) {
	s := withOverrides(t, perIP("ip"), rules.Override{Key: "10.0.0.0/8", Limit: ptr[int64](9)},
		rules.Override{Key: "192.0.2.0/24", Unlimited: true}, rules.Override{Key: "2001:db8::/32", Blocked: true})
	for ip, want := range map[string]string{
		"10.0.0.1":    "The rule applies. Override 1 of the network 10.0.0.0/8 sets its limit to 9.",
		"192.0.2.1":   "Override 2 of the network 192.0.2.0/24 makes the key unlimited.",
		"2001:db8::1": "The rule applies. Override 3 of the network 2001:db8::/32 blocks the key.",
		"203.0.113.7": "The rule applies.",
	} {
		d := Descriptor{IP: netip.MustParseAddr(ip)}
		if got := s.Explain(&d, 1, overrideNow)[0]; got.Sentence != want {
			t.Errorf("%s: got %q, want %q", ip, got.Sentence, want)
		}
	}
}

func TestMatch_NetworksAllocateNothing(t *testing.T) {
	s := blockList(t, 1000)
	d := Descriptor{IP: netip.MustParseAddr("2001:db8::1")}
	dst := make([]Match, 0, 4)
	if n := testing.AllocsPerRun(100, func() { dst = s.Match(&d, 1, overrideNow, dst[:0]) }); n > 1 {
		t.Errorf("%v allocations, want the key only", n)
	}
}

func TestNetworksAround_NamesEveryNetworkThatHasTheAddress(t *testing.T) {
	for text, want := range map[string]int{"10.1.2.3": 33, "ip:10.1.2.3": 33, " 2001:db8::1 ": 129, "::ffff:10.1.2.3": 33,
		"64:ff9b::10.1.2.3": 33, "10.0.0.0/8": 0, "10.1": 0, "": 0, "user:42": 0} {
		got := (Options{}).NetworksAround(text)
		if len(got) != want {
			t.Errorf("%q: got %d, want %d", text, len(got), want)
		}
		if want == 33 && !slices.Contains(got, "{ip:10.1.2.3}") {
			t.Errorf("%q: the override for exactly the address is missing", text)
		}
		if want == 33 && (!slices.Contains(got, "{ip:10.0.0.0/8}") || !slices.Contains(got, "{ip:0.0.0.0/0}")) {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// blockList compiles a rule for each address with n blocked networks of many lengths.
func blockList(tb testing.TB, n int) *Set {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fixed sequence is wanted
	e := override.New().Edit()
	for i := range n {
		ip := netip.AddrFrom4([4]byte{byte(1 + random.IntN(223)), byte(random.IntN(256)), byte(random.IntN(256)), 0})
		p := netip.PrefixFrom(ip, 12+random.IntN(13)).Masked()
		e.Add(override.Row{RuleID: 7, ID: int64(i + 1), Match: "{ip:" + p.String() + "}", Blocked: true, Limit: -1,
			Burst: -1})
	}
	return compile(tb, perIP("ip")).WithOverrides(e.Done(1, nowMS))
}

func BenchmarkMatchNetworks(b *testing.B) {
	ips := make([]netip.Addr, 1<<14)
	for i := range ips {
		ips[i] = netip.AddrFrom4([4]byte{byte(rand.IntN(256)), byte(rand.IntN(256)), 1, 2}) //nolint:gosec // any will do
	}
	for _, c := range []struct {
		name string
		set  *Set
	}{{"none", compile(b, perIP("ip"))}, {"10000", blockList(b, 10_000)}, {"100000", blockList(b, 100_000)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]Match, 0, 4)
			i := 0
			for b.Loop() {
				d := Descriptor{IP: ips[i&(1<<14-1)]}
				dst = c.set.Match(&d, 1, overrideNow, dst[:0])
				i++
			}
		})
	}
}
