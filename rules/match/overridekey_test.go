package match

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/override"
	"sluice/rules/scope"
)

func TestOverrideKey_HasOneFormForEachBucket(t *testing.T) {
	long := strings.Repeat("x", 200)
	hash := string(limiter.AppendHashed(nil, "k1"))[:2+shownHash]
	shown := "sha256:" + hash[2:]
	for _, c := range []struct{ scope, in, text, match string }{
		{"user", "42", "user:42", "{user:42}"},
		{"user", "user:42", "user:42", "{user:42}"},
		{"user", "user:acme-*", "user:acme-*", "{user:acme-"},
		{"user", "*", "user:*", "{user:"},
		{"user", "joe+news@example.com", "user:joe+news@example.com", "{user:joe%2Bnews@example.com}"},
		{"user", "50%25", "user:50%25", "{user:50%25}"},
		{"user", "a%2A", "user:a%2A", "{user:a*}"},
		{"user", "a%2A*", "user:a%2A*", "{user:a*"},
		{"user", "jörg x", "user:jörg%20x", "{user:j%C3%B6rg%20x}"},
		{"user", "50%", "user:50%25", "{user:50%25}"},
		{"user", "a%b", "user:a%25b", "{user:a%25b}"},
		{"user", "50%zz*", "user:50%25zz*", "{user:50%25zz"},
		{"user", "%hx", "user:%25hx", "{user:%25hx}"},
		{"user", "user:user%3A42", "user:user%3A42", "{user:user:42}"},
		{"user", "user%3A42", "user:user%3A42", "{user:user:42}"},
		{"user", "user:ip:1", "user:ip%3A1", "{user:ip:1}"},
		{"user", "user:sha256:" + strings.Repeat("a", hashLen), "user:sha256:aaaaaaaaaaaa", "{user:%haaaaaaaaaaaa}"},
		{"user", "a%0Ab", "user:a%0Ab", "{user:a%0Ab}"},
		{"user", "sha256%3Aabcdefghijkl", "user:sha256%3Aabcdefghijkl", "{user:sha256:abcdefghijkl}"},
		{"user", long, "user:sha256:" + string(limiter.AppendHashed(nil, long))[2:14], "{user:" +
			string(limiter.AppendHashed(nil, long))[:14] + "}"},
		{"apikey", "k1", "apikey:" + shown, "{apikey:" + hash + "}"},
		{"apikey", "apikey:" + shown, "apikey:" + shown, "{apikey:" + hash + "}"},
		{"apikey", shown, "apikey:" + shown, "{apikey:" + hash + "}"},
		{"attr:tenant", "attr:tenant:acme", "attr:tenant:acme", "{attr:tenant:acme}"},
		{"ip", "203.0.113.7", "ip:203.0.113.7", "{ip:203.0.113.7}"},
		{"ip", "ip:::ffff:203.0.113.7", "ip:203.0.113.7", "{ip:203.0.113.7}"},
		{"ip", "ip:64:ff9b::cb00:7107", "ip:203.0.113.7", "{ip:203.0.113.7}"},
		{"ip", "203.0.113.7/32", "ip:203.0.113.7", "{ip:203.0.113.7}"},
		{"ip", "10.0.0.0/8", "ip:10.0.0.0/8", "{ip:10.0.0.0/8}"},
		{"ip", "ip:10.0.0.0%2F8", "ip:10.0.0.0/8", "{ip:10.0.0.0/8}"},
		{"ip", "0.0.0.0/0", "ip:0.0.0.0/0", "{ip:0.0.0.0/0}"},
		{"ip", "::/0", "ip:::/0", "{ip:::/0}"},
		{"ip", "2001:DB8:0::/32", "ip:2001:db8::/32", "{ip:2001:db8::/32}"},
		{"ip", "64:ff9b::cb00:7107/128", "ip:203.0.113.7", "{ip:203.0.113.7}"},
		{"ip", "64:ff9b::/32", "ip:64:ff9b::/32", "{ip:64:ff9b::/32}"},
		{"ip", "64:ff9b::a00:0/104", "ip:10.0.0.0/8", "{ip:10.0.0.0/8}"},
		{"user+ip", "user:42+ip:10.0.0.0/8", "user:42+ip:10.0.0.0/8", "{user:42}+ip:10.0.0.0/8"},
		{"ip+route", "ip:10.0.0.0/8+route:/v1", "ip:10.0.0.0/8+route:/v1", "{ip:10.0.0.0/8}+route:/v1"},
		{"ip", "2001:db8::1", "ip:2001:db8::/64", "{ip:2001:db8::/64}"},
		{"ip", "ip:2001:db8::/64", "ip:2001:db8::/64", "{ip:2001:db8::/64}"},
		{"method", "get", "method:GET", "{method:GET}"},
		{"host", "API.Example.com:8080", "host:api.example.com", "{host:api.example.com}"},
		{"host", "host:bücher.example", "host:xn--bcher-kva.example", "{host:xn--bcher-kva.example}"},
		{"host", "host:[2001:db8::1]", "host:2001:db8::1", "{host:2001:db8::1}"},
		{"host", "host:API.*", "host:api.*", "{host:api."},
		{"host+user", "user:42+host:a.com", "user:42+host:a.com", "{user:42}+host:a.com"},
		{"route", "/v1//a/", "route:/v1/a", "{route:/v1/a}"},
		{"route", "/v1/*", "route:/v1/*", "{route:/v1/"},
		{"ip+user", "user:42+ip:203.0.113.7", "user:42+ip:203.0.113.7", "{user:42}+ip:203.0.113.7"},
		{"user+ip", "user:a%2Bip:1+ip:2001:db8::1", "user:a%2Bip:1+ip:2001:db8::/64", "{user:a%2Bip:1}+ip:2001:db8::/64"},
		{"user+ip", "user:a+b+ip:1.2.3.4", "user:a%2Bb+ip:1.2.3.4", "{user:a%2Bb}+ip:1.2.3.4"},
		{"user+ip", "user:42+ip:*", "user:42+ip:*", "{user:42}+ip:"},
		{"user+ip", "user:4*", "user:4*", "{user:4"},
		{"user+apikey", "user:42+apikey:k1", "user:42+apikey:" + shown, "{user:42}+apikey:" + hash},
	} {
		got, err := ParseOverrideKey(c.scope, Options{}, c.in)
		if err != nil {
			t.Errorf("%s %q: %v", c.scope, c.in, err)
			continue
		}
		if got.Text != c.text || got.Match != c.match || got.Prefix != strings.HasSuffix(c.text, "*") {
			t.Errorf("%s %q: got %+v, want %s and %s", c.scope, c.in, got, c.text, c.match)
		}
		if again, err := ParseOverrideKey(c.scope, Options{}, got.Text); err != nil || again != got {
			t.Errorf("%s %q read back: %+v, %v", c.scope, got.Text, again, err)
		}
	}
}

func TestOverrideKey_RefusesWhatIsNotOneBucket(t *testing.T) {
	for _, c := range []struct{ scope, in, why string }{
		{"global", "x", "one bucket for all requests"},
		{"user", "", "required"},
		{"user", "user:", "has no value"},
		{"user", "ip:203.0.113.7", "form user:<value>"},
		{"user", "a*b", "only at its end"},
		{"user", "a**", "only at its end"},
		{"user", " 42", "blanks"},
		{"user", "a\nb", "printable"},
		{"user", "a\xff", "printable"},
		{"user", "a\u202eb", "printable"},
		{"user", strings.Repeat("x", rules.MaxOverrideKey+1), "longer"},
		{"user", strings.Repeat("x", override.MaxWildcard) + "*", "longer"},
		{"user", "sk_live_*", "credential"},
		{"apikey", "sk_*", "API key"},
		{"ip", "203.0.113.*", "wildcard inside an IP"},
		{"ip", "203.0.113.7/24", "write 203.0.113.0/24"},
		{"ip", "2001:db8::1/64", "write 2001:db8::/64"},
		{"ip", "2001:db8::/65", "cannot match, because addresses are counted by /64 networks; write 2001:db8::/64"},
		{"ip", "2001:db8::1/128", "write 2001:db8::/64"},
		{"ip", "::ffff:10.0.0.0/104", "a network such as"},
		{"ip", "10.0.0.0/33", "a network such as"},
		{"ip", "10.0.0.0/08", "a network such as"},
		{"ip", "10.0.0.0/-1", "a network such as"},
		{"ip", "10.0.0.0/", "a network such as"},
		{"ip", "10.0.0/8", "a network such as"},
		{"ip", "10.0.0.0/255.0.0.0", "a network such as"},
		{"ip", "fe80::%25eth0/64", "a network such as"},
		{"ip", "10.0.0.0-10.0.0.9", "a network such as"},
		{"ip", "10.0.0.0/8*", "wildcard inside an IP"},
		{"ip+route", "ip:10.0.0.0/8+route:/v1*", "both a network and a wildcard"},
		{"ip", "fe80::1%25eth0", "IP address"},
		{"ip", "nobody", "IP address"},
		{"ip", "ip:sha256:abcdefghijkl", "IP address"},
		{"user+ip", "user:42+ip:sha256:abcdefghijkl", "IP address"},
		{"route", "v1", "begins with /"},
		{"route", "v1*", "begins with /"},
		{"user+ip", "42", "form user:<value>+ip:<value>"},
		{"user+ip", "user:42", "form"},
		{"user+ip", "ip:1.2.3.4+user:42", "form"},
		{"user+ip", "user:42+*", "+ip:*"},
		{"user+ip", "user:a+ip:1+ip:1.2.3.4", "is ambiguous"},
		{"nonsense", "42", "global"},
	} {
		got, err := ParseOverrideKey(c.scope, Options{}, c.in)
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s %q: got %+v, %v, want a refusal with %q", c.scope, c.in, got, err, c.why)
		}
	}
}

func TestOverrideKey_FollowsTheSizeOfNetworks(t *testing.T) {
	opt := Options{IPv4Prefix: 24, IPv6Prefix: 48}
	for _, text := range []string{"203.0.113.7/32", "203.0.113.0/25", "2001:db8:1::/49"} {
		if k, err := ParseOverrideKey("ip", opt, text); err == nil || !strings.Contains(err.Error(), "cannot match") {
			t.Errorf("%s: got %+v, %v", text, k, err)
		}
	}
	for in, want := range map[string]string{"203.0.113.7": "ip:203.0.113.0/24", "203.0.113.0/24": "ip:203.0.113.0/24",
		"2001:db8:1:2::3": "ip:2001:db8:1::/48", "203.0.0.0/16": "ip:203.0.0.0/16",
		"2001:db8::/47": "ip:2001:db8::/47"} {
		if got, err := ParseOverrideKey("ip", opt, in); err != nil || got.Text != want {
			t.Errorf("%s: got %+v, %v, want %s", in, got, err, want)
		}
	}
}

var overrideScopes = []string{"user", "user+ip", "apikey", "attr:tenant+user", "user+route+method", "apikey+ip",
	"tier+ip"}

// nasty draws values that try to look like something else.
func nasty() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-c+:%*{}|]{1,8}`),
		rapid.SampledFrom([]string{"a+ip:1", "42+ip:203.0.113.7", "sha256:abcdefghijkl", "%h", "{user:42}",
			"sk_live_1234567890", strings.Repeat("y", 120), "ü", "a b", "user:42", "1+route:/v1"}),
		rapid.StringN(1, 6, 40),
	)
}

func drawDescriptor(t *rapid.T, label string) Descriptor {
	ips := []string{"203.0.113.7", "203.0.113.8", "2001:db8::1", "2001:db8:0:1::1"}
	return Descriptor{
		User: nasty().Draw(t, label+" user"), APIKey: nasty().Draw(t, label+" key"), Tier: nasty().Draw(t, label+" tier"),
		Attributes: map[string]string{"tenant": nasty().Draw(t, label+" tenant")},
		Route:      "/" + rapid.SampledFrom([]string{"v1", "v1/a", "a+method:GET", "%2F"}).Draw(t, label+" route"),
		Method:     rapid.SampledFrom([]string{"GET", "post"}).Draw(t, label+" method"),
		IP:         netip.MustParseAddr(rapid.SampledFrom(ips).Draw(t, label+" ip")),
	}
}

// textOf writes a descriptor's key as a careful person would.
func textOf(k *keyer, c *Compiled) string {
	var parts []string
	for i := range c.facts {
		f := &c.facts[i]
		v := k.value(f)
		if f.Kind == scope.IP {
			v = k.d.IP.String()
		}
		var b strings.Builder
		for j := 0; j < len(v); j++ {
			if chars.IsAlnum(v[j]) || v[j] == '/' && f.Kind != scope.IP {
				b.WriteByte(v[j])
			} else if f.Kind == scope.IP {
				b.WriteByte(v[j])
			} else {
				b.Write(chars.AppendEscaped(nil, v[j]))
			}
		}
		parts = append(parts, f.Label+b.String())
	}
	return strings.Join(parts, "+")
}

// Whatever values hold, the key that is written for a descriptor is that
// descriptor's, is read back from its own display, and is another bucket's only
// if the two share that bucket.
func TestOverrideKey_IsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scope := rapid.SampledFrom(overrideScopes).Draw(t, "scope")
		s, err := Compile([]rules.Rule{rule(7, func(r *rules.Rule) { r.Scope = scope })}, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := s.At(0)
		a, b := drawDescriptor(t, "a"), drawDescriptor(t, "b")
		ka, kb := s.keyer(&a), s.keyer(&b)
		keyA, err := ParseOverrideKey(scope, Options{}, textOf(&ka, c))
		if err != nil {
			t.Fatalf("%q: %v", textOf(&ka, c), err)
		}
		facts := ka.appendKey(nil, c)
		if want := string(appendShort(nil, facts[:len(facts)-len(c.suffix)])); keyA.Match != want {
			t.Fatalf("%q: got %s, want %s", textOf(&ka, c), keyA.Match, want)
		}
		again, err := ParseOverrideKey(scope, Options{}, keyA.Text)
		if err != nil || again != keyA {
			t.Fatalf("%q read back: %+v, %v, want %+v", keyA.Text, again, err, keyA)
		}
		keyB, err := ParseOverrideKey(scope, Options{}, textOf(&kb, c))
		if err != nil {
			t.Fatal(err)
		}
		same := string(ka.appendKey(nil, c)) == string(kb.appendKey(nil, c))
		if (keyA == keyB) != same {
			t.Fatalf("%+v and %+v: one bucket %v", keyA, keyB, same)
		}
	})
}

func FuzzParseOverrideKey(f *testing.F) {
	for _, s := range []string{"42", "user:42+ip:203.0.113.7", "user:a%2Bip:1+ip:::1", "user:*", "%",
		"user:sha256:abcdefghijkl+ip:*", "10.0.0.0/8", "user:1+ip:2001:db8::/32", "ip:::ffff:0:0/96"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, scope := range []string{"user", "user+ip", "apikey+route", "attr:a", "ip"} {
			k, err := ParseOverrideKey(scope, Options{}, text)
			if err != nil {
				continue
			}
			again, err := ParseOverrideKey(scope, Options{}, k.Text)
			if err != nil || again != k {
				t.Fatalf("%s %q: %+v is read back as %+v, %v", scope, text, k, again, err)
			}
		}
	})
}
