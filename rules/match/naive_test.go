package match

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/rulestest"
)

// naiveMatch decides what Match decides by trying every rule, with regular
// expressions for routes. It shares only the encoding of single values.
func naiveMatch(rs []rules.Rule, d Descriptor, weight int64) (keys []string) {
	path := naiveNormalize(d.Route)
	rs = slices.Clone(rs)
	var apply []rules.Rule
	slices.SortFunc(rs, func(a, b rules.Rule) int { return int(a.ID - b.ID) })
	for _, r := range rs {
		if !r.IsActive || r.Route != nil && !naiveRoute(*r.Route).MatchString(path) ||
			r.Method != nil && !naiveMethod(*r.Method, strings.ToUpper(d.Method)) ||
			r.Host != nil && !naiveHost(*r.Host, d.Host) {
			continue
		}
		of := d
		if r.Method != nil {
			of.Method = *r.Method
		}
		facts, complete := naiveFacts(r.Scope, of, path)
		w := weight
		if r.WeightField != nil {
			v, ok := d.Fields[*r.WeightField]
			w, complete = v, complete && ok
		}
		if complete {
			keys = append(keys, fmt.Sprintf("%s|%d|%s w=%d", facts, r.ID, kindOf(r), w))
			apply = append(apply, r)
		}
	}
	for i := len(keys) - 1; i >= 0; i-- {
		if slices.ContainsFunc(apply, func(r rules.Rule) bool {
			return r.Mode != rules.ModeShadow && slices.Contains(r.Replaces, apply[i].Name)
		}) {
			keys = slices.Delete(keys, i, i+1)
		}
	}
	return keys
}

func naiveMethod(of, method string) bool {
	return slices.Contains(map[string][]string{"GET": {"GET", "HEAD"}}[of], method) || of == method
}

func naiveHost(of, host string) bool {
	if below, wild := strings.CutPrefix(of, "*."); wild {
		return regexp.MustCompile(`^.+\.` + regexp.QuoteMeta(below) + `$`).MatchString(host)
	}
	return of == host
}

func kindOf(r rules.Rule) string {
	a, _ := limiter.ParseAlgorithm(r.Algorithm)
	return a.Kind()
}

// naiveRoute turns a rule's route into an anchored expression. An absent path
// is empty, which none of them matches.
func naiveRoute(route string) *regexp.Regexp {
	switch route {
	case "/", "/*":
		return regexp.MustCompile(map[string]string{"/": `^/$`, "/*": `^/`}[route])
	}
	expr := regexp.QuoteMeta(route)
	expr = regexp.MustCompile(`\\\{[^/]*?\\\}`).ReplaceAllString(expr, `[^/]+`)
	if head, ok := strings.CutSuffix(expr, `/\*`); ok {
		expr = head + `(/.*)?`
	}
	return regexp.MustCompile(`(?s)^` + expr + `$`)
}

// naiveNormalize handles what genDescriptor makes: slashes, dots, a query.
func naiveNormalize(p string) string {
	if p == "" {
		return ""
	}
	p, _, _ = strings.Cut(p, "?")
	var segs []string
	for _, s := range strings.Split(p, "/") {
		switch s {
		case "", ".":
		case "..":
			segs = segs[:max(0, len(segs)-1)]
		default:
			segs = append(segs, s)
		}
	}
	return "/" + strings.Join(segs, "/")
}

func naiveFacts(scope string, d Descriptor, path string) (string, bool) {
	if scope == "global" {
		return "{global}", true
	}
	esc := func(v string) string { return string(limiter.AppendValue(nil, v)) }
	have := map[string]string{
		"user": esc(d.User), "tier": esc(d.Tier), "route": esc(path), "method": esc(strings.ToUpper(d.Method)),
		"host": esc(d.Host),
	}
	if d.APIKey != "" {
		have["apikey"] = string(limiter.AppendHashed(nil, d.APIKey))
	}
	if d.IP.Is4() {
		have["ip"] = d.IP.String()
	} else if d.IP.IsValid() {
		have["ip"] = netip.PrefixFrom(d.IP, 64).Masked().String()
	}
	for name, v := range d.Attributes {
		have["attr:"+name] = esc(v)
	}
	names := strings.Split(scope, "+")
	rank := func(n string) string {
		for i, p := range []string{"user", "apikey", "attr:", "ip", "host", "tier", "route", "method"} {
			if strings.HasPrefix(n, p) {
				return fmt.Sprint(i, n)
			}
		}
		return n
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	out := ""
	for i, n := range names {
		if have[n] == "" {
			return "", false
		}
		if i == 0 {
			out = "{" + n + ":" + have[n] + "}"
		} else {
			out += "+" + n + ":" + have[n]
		}
	}
	return out, true
}

func genRules() *rapid.Generator[[]rules.Rule] {
	return rapid.Custom(func(t *rapid.T) []rules.Rule {
		rs := make([]rules.Rule, rapid.IntRange(0, 30).Draw(t, "rules"))
		ids := rapid.Permutation(seq(len(rs))).Draw(t, "ids")
		for i := range rs {
			rs[i] = genRule(ids[i]).Draw(t, "rule")
		}
		for i := range rs {
			if rs[i].Descriptor != nil || rapid.IntRange(0, 2).Draw(t, "replaces") > 0 {
				continue
			}
			if rapid.IntRange(0, 4).Draw(t, "shadow") == 0 && rs[i].Candidate == nil {
				rs[i].Mode = rules.ModeShadow
			}
			for range rapid.IntRange(1, 3).Draw(t, "names") {
				name := rs[rapid.IntRange(0, len(rs)-1).Draw(t, "named")].Name
				if name != rs[i].Name && !slices.Contains(rs[i].Replaces, name) {
					rs[i].Replaces = append(rs[i].Replaces, name)
				}
			}
		}
		return rs
	})
}

func seq(n int) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = int64(i + 1)
	}
	return s
}

func genDescriptor() *rapid.Generator[Descriptor] {
	maybe := func(words ...string) *rapid.Generator[string] {
		return rapid.SampledFrom(append(words, "", words[0]))
	}
	return rapid.Custom(func(t *rapid.T) Descriptor {
		d := Descriptor{
			Method: maybe("GET", "POST", "post", "PURGE", "HEAD").Draw(t, "method"),
			User:   maybe("42", "a|b", "{x}", "é+%").Draw(t, "user"),
			APIKey: maybe("sk_live_1", "k").Draw(t, "api key"),
			Tier:   maybe("free", "pro").Draw(t, "tier"),
			Host:   maybe("a.com", "b.a.com", "c.b.a.com", "ba.com", "com", "10.0.0.1", "::1").Draw(t, "host"),
			IP: rapid.SampledFrom([]netip.Addr{
				{}, netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8::1:2"),
				netip.MustParseAddr("2001:db8:0:1::1"),
			}).Draw(t, "ip"),
		}
		for range rapid.IntRange(0, 5).Draw(t, "depth") {
			d.Route += rapid.SampledFrom([]string{"/", "/", "/", "/", "//"}).Draw(t, "slash") +
				rapid.OneOf(rulestest.Segment(), rulestest.Segment(),
					rapid.SampledFrom([]string{".", "..", "x.y", "", "{id}", "*", "z?q=/a"})).Draw(t, "segment")
		}
		if rapid.Bool().Draw(t, "attributes") {
			d.Attributes = map[string]string{"t": maybe("acme", "b:c").Draw(t, "t"), "u": maybe("x").Draw(t, "u")}
		}
		if rapid.Bool().Draw(t, "fields") {
			d.Fields = map[string]int64{"bytes": rapid.Int64Range(0, 9).Draw(t, "bytes")}
		}
		return d
	})
}

func matchKeys(s *Set, d *Descriptor, weight int64) (keys []string) {
	for _, m := range s.Match(d, weight, noon, nil) {
		keys = append(keys, fmt.Sprintf("%s w=%d", m.Key, m.Weight))
	}
	return keys
}

// checkAgainstNaive is the property behind both the test and the fuzz target.
func checkAgainstNaive(t *rapid.T) {
	rs := genRules().Draw(t, "rules")
	s, err := Compile(rs, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		d := genDescriptor().Draw(t, "descriptor")
		got, want := matchKeys(s, &d, 3), naiveMatch(rs, d, 3)
		if !slices.Equal(got, want) {
			t.Fatalf("descriptor %+v\n got %q\nwant %q", d, got, want)
		}
		checkExplain(t, s, &d, len(want))
	}
}

// checkExplain: Explain agrees with Match and accounts for every rule.
func checkExplain(t *rapid.T, s *Set, d *Descriptor, matched int) {
	all := s.Explain(d, 3, noon)
	if len(all) != s.Len() {
		t.Fatalf("explain considered %d of %d rules", len(all), s.Len())
	}
	for i, c := range all {
		if c.Matched != (i < matched) || c.Matched != (c.Reason == ReasonMatched) || c.Matched != (c.Key != "") ||
			c.Sentence == "" {
			t.Fatalf("explain: %d of %d matched, but entry %d is %+v", matched, len(all), i, c)
		}
	}
}

func TestMatch_FindsWhatABruteForceLoopFinds(t *testing.T) { rapid.Check(t, checkAgainstNaive) }

// FuzzMatch lets the fuzzer choose rules and descriptors.
func FuzzMatch(f *testing.F) {
	for i := range 8 { // any bytes are a choice, if there are enough of them
		seed := make([]byte, 16<<10)
		source := rand.NewChaCha8([32]byte{byte(i)})
		if _, err := source.Read(seed); err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(rapid.MakeFuzz(checkAgainstNaive))
}
