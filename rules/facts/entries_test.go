package facts

import (
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/limiter"
	"sluice/rules/entries"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// envoy is the shop's profile with a domain.
func envoy() *profile.Profile {
	p := shop()
	p.Domain = "shop"
	p.Entries = map[string]string{"remote_address": "ip", "user": "user", "key": "api_key", "plan": "tier", "path": "path",
		":method": "method", ":authority": "host", "tenant": "attr:tenant", "bytes": "field:bytes", "uid": "user"}
	return p
}

// descriptors reads "user=b path=/a" as one descriptor per text.
func descriptors(texts ...string) (list [][]entries.Entry) {
	for _, text := range texts {
		var one []entries.Entry
		for _, pair := range strings.Fields(text) {
			key, value, _ := strings.Cut(pair, "=")
			one = append(one, entries.Entry{Key: key, Value: value})
		}
		list = append(list, one)
	}
	return list
}

func TestReadEntries(t *testing.T) {
	long := strings.Repeat("x", match.MaxText+1)
	ip := netip.MustParseAddr
	for name, c := range map[string]struct {
		edit func(*profile.Profile)
		in   []string
		want Facts
	}{
		"one descriptor": {
			in: []string{"remote_address=203.0.113.7 user=b key=k plan=free path=/users/17?x=1 :method=get " +
				":authority=Shop.example:8443 tenant=acme bytes=42 generic_key=slow"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{Method: "GET", Route: "/users/{id}", User: "b", APIKey: "k",
				Tier: "free", IP: ip("203.0.113.7"), Attributes: map[string]string{"host": "shop.example", "tenant": "acme"},
				Host:   "shop.example",
				Fields: map[string]int64{"bytes": 42}}},
		},
		"several describe one request, and the first counts": {
			in:   []string{"user=a", "path=/x//../files/a user=b", "user=c :method=PUT"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{Method: "PUT", Route: "/files/*", User: "a"}},
		},
		"of two keys of a fact the first entry counts": {
			in:   []string{"uid=7 user=b"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{User: "7"}},
		},
		"an empty value is none": {
			in:   []string{"user= user=b remote_address= bytes="},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{User: "b"}},
		},
		"a value that is no address or no number is none": {
			in:   []string{"user=b remote_address=nobody bytes=x", "bytes=-1", "bytes=1.5", "bytes=7 remote_address=::/129"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{User: "b", Fields: map[string]int64{"bytes": 7}}},
		},
		"an address with a zone": {
			in:   []string{"remote_address=fe80::1%eth0"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{IP: ip("fe80::1")}},
		},
		"addresses": {
			in:   []string{"remote_address=[2001:db8::7]:443"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{IP: ip("2001:db8::7")}},
		},
		"an address in IPv6 form": {
			in:   []string{"remote_address=::ffff:192.0.2.7"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{IP: ip("192.0.2.7")}},
		},
		"a masked address": {
			in:   []string{"remote_address=192.0.2.0/24"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{IP: ip("192.0.2.0")}},
		},
		"long, broken and forged texts are hashed": {
			in: []string{"user=" + long + " key=\xff plan=%hx"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{User: text(long), APIKey: text("\xff"),
				Tier: text("%hx")}},
		},
		"a number above the largest is the largest": {
			in:   []string{"bytes=99999999999999999999"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{Fields: map[string]int64{"bytes": limiter.MaxExact}}},
		},
		"a raw path": {
			edit: func(p *profile.Profile) { p.Path = profile.PathRaw },
			in:   []string{"path=/a//b"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{Route: "/a//b"}},
		},
		"a method that is not checked": {
			in:   []string{"user=b :method=options"},
			want: Facts{Weight: 1, Skip: true, Descriptor: match.Descriptor{User: "b", Method: "OPTIONS"}},
		},
		"missing facts": {
			edit: func(p *profile.Profile) {
				p.Missing = map[string]profile.MissingFact{"ip": {Value: "192.0.2.1"}, "user": {Value: "nobody"},
					"attr:tenant": {Value: "none"}, "field:bytes": {Value: "7"}, "tier": {Action: profile.MissingSkip}}
			},
			in: []string{"tenant=acme"},
			want: Facts{Weight: 1, Descriptor: match.Descriptor{IP: ip("192.0.2.1"), User: "nobody",
				Attributes: map[string]string{"tenant": "acme"}, Fields: map[string]int64{"bytes": 7}}},
		},
		"a missing fact that denies": {
			edit: func(p *profile.Profile) {
				p.Missing = map[string]profile.MissingFact{"api_key": {Action: profile.MissingDeny}}
			},
			in:   []string{"user=b"},
			want: Facts{Weight: 1, Denied: "api_key", Descriptor: match.Descriptor{User: "b"}},
		},
		"a missing address that denies": {
			edit: func(p *profile.Profile) {
				p.Missing = map[string]profile.MissingFact{"ip": {Action: profile.MissingDeny},
					"user": {Action: profile.MissingDeny}}
			},
			in:   []string{"tenant=a"},
			want: Facts{Weight: 1, Denied: "ip", Descriptor: match.Descriptor{Attributes: map[string]string{"tenant": "a"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := envoy()
			if c.edit != nil {
				c.edit(p)
			}
			r := reader(t, p)
			got := Facts{Skip: true, Denied: "x", Weight: 9, Descriptor: match.Descriptor{User: "old",
				Attributes: map[string]string{"old": "1"}, Fields: map[string]int64{"old": 1}}}
			r.ReadEntries(descriptors(c.in...), &got)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty(),
				cmpopts.IgnoreUnexported(match.Descriptor{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzReadEntries: whatever Envoy sends, the facts are ones that the engine takes.
func FuzzReadEntries(f *testing.F) {
	for _, s := range []string{"/users/17", "203.0.113.7", "::1/64", "\xff%ff", "%h", "99999999999999999999", "host:1",
		""} {
		f.Add(s, s, s)
	}
	r := reader(f, envoy())
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var list [][]entries.Entry
		for key := range envoy().Entries {
			list = append(list, []entries.Entry{{Key: key, Value: a}, {Key: b, Value: c}, {Key: key, Value: b}})
		}
		var out Facts
		r.ReadEntries(list, &out)
		d := &out.Descriptor
		for _, v := range []string{d.Method, d.Route, d.User, d.APIKey, d.Tier, d.Attributes["tenant"],
			d.Attributes["host"]} {
			if len(v) > match.MaxText || !utf8.ValidString(v) {
				t.Fatalf("got %q", v)
			}
		}
		if n := d.Fields["bytes"]; n < 0 || n > limiter.MaxExact || d.IP.Zone() != "" || d.IP.Is4In6() {
			t.Fatalf("got %+v", out)
		}
	})
}
