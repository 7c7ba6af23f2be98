package match

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/host"
	"sluice/rules/scope"
)

func TestParseHost(t *testing.T) {
	for in, want := range map[string]string{
		"example.com": "example.com", "API.Example.COM": "api.example.com", "example.com:8080": "example.com",
		"example.com.": "example.com", "example.com.:443": "example.com", "localhost": "localhost",
		"a_b.internal":        "a_b.internal",
		"b\u00fccher.example": "xn--bcher-kva.example", "B\u00dcCHER.example:80": "xn--bcher-kva.example",
		"XN--BCHER-KVA.example": "xn--bcher-kva.example", "\u4f8b\u3048.\u30c6\u30b9\u30c8": "xn--r8jz45g.xn--zckzah",
		"a\u3002b": "a.b", "10.0.0.1:80": "10.0.0.1", "[2001:DB8::1]:443": "2001:db8::1", "[::1]": "::1", "::1": "::1",
		strings.Repeat("a", 63) + ".b": strings.Repeat("a", 63) + ".b", "example.com:": "example.com",
	} {
		if got, err := host.Parse(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", ".", "a..b", ".a", "a..", "https://a.b",
		"a.b/c", "a b", "a.b:x", "a:123456", "-a.b", "a-.b", "a*b", "*.a.b", "a,b",
		"[::1", "[a.b]", "[::1]80", "[fe80::1%eth0]", "1::2::3", "xn--a-\u00e4.b", "xn--\x00.b", "a\x00", "\xff", "a\u202eb",
		strings.Repeat("a", 64) + ".b", strings.Repeat("a.", 127) + "b", strings.Repeat("\u00fc", MaxText),
	} {
		if got, err := host.Parse(in); err == nil {
			t.Errorf("%q: got %q, want an error", in, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = host.Parse("api.example.com:8080") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestHost_OfARule(t *testing.T) {
	for in, want := range map[string]string{
		"API.Example.com": "api.example.com", "*.Example.com": "*.example.com",
		"*.b\u00fccher.example": "*.xn--bcher-kva.example",
		"*.com":                 "*.com", "[::1]": "::1", " a.com ": "a.com",
	} {
		r := rule(1, func(r *rules.Rule) { r.Host = &in })
		r.Normalize()
		if err := rules.Validate(&r); err != nil || *r.Host != want {
			t.Errorf("%q: got %q, %v, want %q", in, *r.Host, err, want)
		}
	}
	for _, in := range []string{
		"a.com:80", "*.a.com:80", "a.*", "*a.com", "*.*.com", "*.", "*.10.0.0.1", "*.[::1]", "*.::1", "a b", "https://a.com",
		"[a.com]", "a/b", "*.0.1",
	} {
		r := rule(1, func(r *rules.Rule) { r.Host = &in })
		r.Normalize()
		var ve *field.ValidationError
		if err := rules.Validate(&r); !errors.As(err, &ve) || len(ve.Fields) != 1 || ve.Fields[0].Field != "host" {
			t.Errorf("%q: got %v", in, err)
		}
	}
	every := rule(1, func(r *rules.Rule) { r.Host = ptr("*") })
	if every.Normalize(); every.Host != nil {
		t.Errorf("* is %q, want every host", *every.Host)
	}
}

func TestHost_MatchesTheNameOrWhatIsBelow(t *testing.T) {
	s := compile(t,
		rule(1, func(r *rules.Rule) { r.Scope, r.Host = scope.Global, ptr("example.com") }),
		rule(2, func(r *rules.Rule) { r.Scope, r.Host = scope.Global, ptr("*.example.com") }),
		rule(3, func(r *rules.Rule) { r.Scope, r.Host, r.Route = scope.Global, ptr("*.com"), ptr("/v1/*") }),
		rule(4, func(r *rules.Rule) { r.Scope = scope.Global }),
		rule(5, func(r *rules.Rule) { r.Scope = "host" }))
	for host, want := range map[string]string{
		"": "4", "example.com": "1 3 4 5", "api.example.com": "2 3 4 5", "a.b.example.com": "2 3 4 5",
		"badexample.com": "3 4 5",
		"com":            "4 5", "example.org": "4 5",
	} {
		d := Descriptor{Host: host, Route: "/v1/a"}
		var got []string
		for _, m := range s.Match(&d, 1, noon, nil) {
			got = append(got, strings.TrimPrefix(m.Rule.Rule.Name, "rule-"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %s", host, got, want)
		}
	}
	for _, c := range s.Explain(&Descriptor{Host: "example.com"}, 1, noon) {
		want := map[int64]Reason{2: ReasonHost, 3: ReasonRoute}[c.Rule.Rule.ID]
		if want != "" && c.Reason != want {
			t.Errorf("explained: %s, want %s: %s", c.Reason, want, c.Sentence)
		}
	}
}

// Rules of hosts are found by the host, however many there are.
func TestHost_RulesOfOtherHostsAreNotVisited(t *testing.T) {
	var rs []rules.Rule
	for i := range int64(1000) {
		rs = append(rs, rule(i+1, func(r *rules.Rule) { r.Host = ptr(r.Name + ".example.com") }))
	}
	s := compile(t, rs...)
	if found := s.index.collect("/a", "GET", "rule-7.example.com", nil); len(found) != 1 || found[0].Rule.ID != 7 {
		t.Errorf("found %d rules", len(found))
	}
	if found := s.index.collect("/a", "GET", "", nil); len(found) != 0 {
		t.Errorf("found %d rules without a host", len(found))
	}
}

// BenchmarkMatchHosts: a check under one rule of its route, beside rules of other hosts that have no route.
func BenchmarkMatchHosts(b *testing.B) {
	for _, n := range []int64{0, 10, 10_000} {
		b.Run(fmt.Sprintf("others=%d", n), func(b *testing.B) {
			rs := []rules.Rule{rule(1, func(r *rules.Rule) { r.Route = ptr("/v1/charges") })}
			for i := range n {
				rs = append(rs, rule(i+2, func(r *rules.Rule) { r.Host = ptr(r.Name + ".example.com") }))
			}
			s := compile(b, rs...)
			d := Descriptor{Method: "POST", Route: "/v1/charges", Host: "api.example.com", User: "42"}
			var dst []Match
			b.ReportAllocs()
			for b.Loop() {
				dst = s.Match(&d, 1, noon, dst[:0])
			}
		})
	}
}
