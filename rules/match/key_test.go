package match

import (
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"sluice/limiter"
	"sluice/rules"
)

// keyOf compiles one rule of a scope and gives its match.
func keyOf(t testing.TB, scope string, opt Options, d Descriptor) Match {
	t.Helper()
	s, err := Compile([]rules.Rule{rule(7, func(r *rules.Rule) { r.Scope = scope })}, 1, opt)
	if err != nil {
		t.Fatal(err)
	}
	ms := s.Match(&d, 1, noon, nil)
	if len(ms) != 1 {
		t.Fatalf("scope %s, descriptor %+v: got %d matches, want 1", scope, d, len(ms))
	}
	return ms[0]
}

func TestKey_NamesEntityFirstThenOtherFacts(t *testing.T) {
	d := Descriptor{
		Method: "POST", Route: "/v1/charges", IP: netip.MustParseAddr("203.0.113.7"), User: "42", APIKey: "k1",
		Tier: "free", Attributes: map[string]string{"tenant": "acme", "region": "eu"},
	}
	for scope, want := range map[string]struct{ key, display string }{
		"global":                  {"{global}|7|sc", "global"},
		"user":                    {"{user:42}|7|sc", "user:42"},
		"ip+user":                 {"{user:42}+ip:203.0.113.7|7|sc", "user:42+ip:203.0.113.7"},
		"user+ip":                 {"{user:42}+ip:203.0.113.7|7|sc", "user:42+ip:203.0.113.7"},
		"ip+tier":                 {"{ip:203.0.113.7}+tier:free|7|sc", "ip:203.0.113.7+tier:free"},
		"method+route":            {"{route:/v1/charges}+method:POST|7|sc", "route:/v1/charges+method:POST"},
		"attr:tenant+attr:region": {"{attr:region:eu}+attr:tenant:acme|7|sc", "attr:region:eu+attr:tenant:acme"},
		"apikey": {
			"{apikey:%hP9_sa9rrr_s2E5awDf4LG-IwvXgmBSZgPTCr8RWmdLQ}|7|sc", "apikey:sha256:P9_sa9rrr_s2",
		},
	} {
		m := keyOf(t, scope, Options{}, d)
		if want.display == "apikey:sha256:P9_sa9rrr_s2" {
			want.key = "{apikey:" + string(limiter.AppendHashed(nil, "k1")) + "}|7|sc"
			want.display = "apikey:sha256:" + want.key[len("{apikey:%h"):][:12]
		}
		if string(m.Key) != want.key || m.Display() != want.display {
			t.Errorf("%s: got %s (%s), want %s (%s)", scope, m.Key, m.Display(), want.key, want.display)
		}
	}
}

func TestKey_FoldsAddressesToTheirNetwork(t *testing.T) {
	for _, c := range []struct {
		ip   string
		opt  Options
		want string
	}{
		{"203.0.113.7", Options{}, "ip:203.0.113.7"},
		{"::ffff:203.0.113.7", Options{}, "ip:203.0.113.7"},
		{"64:ff9b::203.0.113.7", Options{}, "ip:203.0.113.7"},
		{"64:ff9b::203.0.113.7", Options{IPv4Prefix: 24}, "ip:203.0.113.0/24"},
		{"203.0.113.7", Options{IPv4Prefix: 24}, "ip:203.0.113.0/24"},
		{"2001:db8::1", Options{}, "ip:2001:db8::/64"},
		{"2001:db8:0:0:ffff::9%eth0", Options{}, "ip:2001:db8::/64"},
		{"2001:db8::1", Options{IPv6Prefix: 128}, "ip:2001:db8::1"},
		{"2001:db8::1%eth0", Options{IPv6Prefix: 128}, "ip:2001:db8::1"},
		{"2001:db8:1:ff00::1", Options{IPv6Prefix: 56}, "ip:2001:db8:1:ff00::/56"},
	} {
		m := keyOf(t, "ip", c.opt, Descriptor{IP: netip.MustParseAddr(c.ip)})
		if m.Display() != c.want || string(m.Key) != "{"+c.want+"}|7|sc" {
			t.Errorf("%s %+v: got %s (%s), want %s", c.ip, c.opt, m.Key, m.Display(), c.want)
		}
	}
}

func TestKey_HashesWhatLooksLikeACredential(t *testing.T) {
	const token = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	for scope, d := range map[string]Descriptor{
		"user":          {User: token},
		"tier":          {Tier: token},
		"attr:t":        {Attributes: map[string]string{"t": token}},
		"route":         {Route: "/reset/" + token},
		"apikey":        {APIKey: "anything"},
		"user+attr:t":   {User: "Bearer abc", Attributes: map[string]string{"t": token}},
		"method+apikey": {Method: "GET", APIKey: token},
	} {
		m := keyOf(t, scope, Options{}, d)
		for _, secret := range []string{"sk_live", "anything", "Bearer"} {
			if strings.Contains(string(m.Key)+m.Display(), secret) {
				t.Errorf("%s: %s (%s) shows a credential", scope, m.Key, m.Display())
			}
		}
		if !strings.Contains(m.Display(), "sha256:") {
			t.Errorf("%s: display %s does not say that it is hashed", scope, m.Display())
		}
	}
}

func TestKey_StaysBounded(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	m := keyOf(t, "user+tier+route+method+attr:"+strings.Repeat("a", 64), Options{}, Descriptor{
		User: long, Tier: long, Route: "/" + long, Method: long, Attributes: map[string]string{strings.Repeat("a", 64): long},
	})
	if len(m.Key) > 800 {
		t.Errorf("key has %d bytes", len(m.Key))
	}
}

func TestDirectKey_HashesCredentialsOnly(t *testing.T) {
	l := limiter.Limit{Algorithm: limiter.GCRA, Count: 1, Window: 1000}
	if got := DirectKey("user:42:GET:/v1/charges", l); got != "{key:user:42:GET:/v1/charges}|w1000|ga" {
		t.Errorf("got %s", got)
	}
	got := DirectKey("user:sk_live_4eC39HqLyjWDarjtT1zdp7dc", l)
	if strings.Contains(string(got), "sk_live") || got.Tag() == "" || DirectKey("other:sk_live_1", l) == got {
		t.Errorf("got %s", got)
	}
}

func TestDisplayKey_IsOneNotation(t *testing.T) {
	for user, want := range map[string]string{
		"a+b@example.org": "user:a+b@example.org",
		"José":            "user:José",
		"{x}|y%z":         "user:{x}|y%25z",
		"a*":              "user:a%2A",
		"*":               "user:%2A",
		"50%41":           "user:50%2541",
		"a b":             "user:a%20b",
		"a+ip:1.2.3.4":    "user:a%2Bip:1.2.3.4",
		"user:42":         "user:user%3A42",
		"attr:t:x":        "user:attr%3At:x",
		"key:42":          "user:key:42",
		"a\nb\x00":        "user:a%0Ab%00",
		"\u202eevil":      "user:%E2%80%AEevil",
		"\xff\xfe":        "user:%FF%FE",
	} {
		if m := keyOf(t, "user", Options{}, Descriptor{User: user}); m.Display() != want {
			t.Errorf("%q: got %q, want %q", user, m.Display(), want)
		}
	}
}

func FuzzDisplayKey(f *testing.F) {
	for _, s := range []string{"{user:42}|7|sc", "{user:%", "%h", "{a:%ff%C3", "%hxx}", "|", "{}}{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		limitKey := limiter.Key(limiter.AppendValue([]byte("{user:"), key))
		got := DisplayKey(limitKey)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q shows as %q", key, got)
		}
		DisplayKey(limiter.Key(key)) // whatever it is, it must not panic
	})
}

// FuzzKeyInjective: two tuples of values share a key only if they are the same
// tuple, and the braces enclose the entity and nothing else.
func FuzzKeyInjective(f *testing.F) {
	f.Add("a", "b", "c", "a", "b", "c")
	f.Add("a+tier:b", "c", "d", "a", "b+attr:t:c", "d")
	f.Add("a}", "{b", "|7|sc", "a", "b", "|")
	f.Add("%h", "%25h", "%", "%2", "5h", "%")
	f.Add(strings.Repeat("x", 97), "y", "z", strings.Repeat("x", 98), "y", "z")
	f.Add("sk_live_1", "b", "c", "sk_live_2", "b", "c")
	s := compile(f, rule(7, func(r *rules.Rule) { r.Scope = "user+tier+attr:t" }))
	f.Fuzz(func(t *testing.T, u1, t1, a1, u2, t2, a2 string) {
		if u1 == "" || t1 == "" || a1 == "" || u2 == "" || t2 == "" || a2 == "" {
			return
		}
		one := s.Match(&Descriptor{User: u1, Tier: t1, Attributes: map[string]string{"t": a1}}, 1, noon, nil)[0].Key
		two := s.Match(&Descriptor{User: u2, Tier: t2, Attributes: map[string]string{"t": a2}}, 1, noon, nil)[0].Key
		if same := u1 == u2 && t1 == t2 && a1 == a2; same != (one == two) {
			t.Fatalf("same values: %v, but keys %s and %s", same, one, two)
		}
		if strings.Count(string(one), "{") != 1 || strings.Count(string(one), "}") != 1 ||
			!strings.HasPrefix(string(one), "{user:") {
			t.Fatalf("key %s has forged braces", one)
		}
		if strings.Count(string(one), "|") != 2 || strings.Count(string(one), "+") != 2 {
			t.Fatalf("key %s has forged separators", one)
		}
	})
}
