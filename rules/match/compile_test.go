package match

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
)

func TestCompile_NoRulesIsLegal(t *testing.T) {
	s := compile(t)
	if s.Len() != 0 || s.Version() != 1 || len(s.Match(&Descriptor{User: "42", Route: "/x"}, 1, noon, nil)) != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestCompile_LeavesInactiveRulesOut(t *testing.T) {
	s := compile(t, rule(3, nil), rule(2, func(r *rules.Rule) { r.IsActive = false }), rule(1, nil))
	if s.Len() != 2 || s.Get(2) != nil || s.Get(3) == nil || s.At(0).Rule.ID != 1 || s.At(1) != s.Get(3) {
		t.Errorf("got %d rules", s.Len())
	}
}

func TestCompile_NamesTheRuleAtFault(t *testing.T) {
	for name, c := range map[string]struct {
		rules []rules.Rule
		opt   Options
		want  string
	}{
		"invalid": {[]rules.Rule{rule(4, func(r *rules.Rule) { r.WindowMS = 0 })}, Options{},
			`rule "rule-4" (id 4): invalid: window_ms`},
		"no id": {[]rules.Rule{rule(0, nil)}, Options{}, `rule "rule-0" (id 0): id must be 1 or greater`},
		"same id": {[]rules.Rule{rule(1, nil), rule(1, func(r *rules.Rule) { r.Name = "other" })}, Options{},
			`rules "rule-1" and "other" have the same id 1`},
		"same name": {[]rules.Rule{rule(1, nil), rule(2, func(r *rules.Rule) { r.Name = "rule-1" })}, Options{},
			`rules with ids 1 and 2 have the same name "rule-1"`},
		"ipv4 prefix": {nil, Options{IPv4Prefix: 33}, "ipv4 prefix must be between 1 and 32, not 33"},
		"ipv6 prefix": {nil, Options{IPv6Prefix: -1}, "ipv6 prefix must be between 1 and 128, not -1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(c.rules, 1, c.opt)
			if s != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want %s", s, err, c.want)
			}
		})
	}
}

func TestCompile_ErrorCarriesFieldsAndStopsAtTen(t *testing.T) {
	var rs []rules.Rule
	for i := range 50 {
		rs = append(rs, rule(int64(i+1), func(r *rules.Rule) { r.Scope = "x" }))
	}
	_, err := Compile(rs, 1, Options{})
	var ve *field.ValidationError
	if !errors.As(err, &ve) || ve.Fields[0].Field != "scope" {
		t.Errorf("got %v", err)
	}
	if n := strings.Count(err.Error(), "rule-"); n != maxCompileErrors {
		t.Errorf("got %d rules named, want %d", n, maxCompileErrors)
	}
}

func TestCompile_KeepsItsOwnCopy(t *testing.T) {
	rs := []rules.Rule{rule(1, func(r *rules.Rule) { r.Method = ptr("POST") })}
	s := compile(t, rs...)
	*rs[0].Method = "GET"
	rs[0].Limit = 99
	if c := s.Get(1); *c.Rule.Method != "POST" || c.Rule.Limit != 5 || c.Limit.Count != 5 {
		t.Errorf("got %+v", c.Rule)
	}
}

func TestMatch_AppliesExactParamAndTailTogetherInOrderOfID(t *testing.T) {
	routes := []string{"/v1/*", "/v1/charges", "/v1/{x}", "/*", "/v1/charges/*", "/v1", "/v1/{x}/y"}
	rs := []rules.Rule{rule(100, func(r *rules.Rule) { r.Scope = "global" })}
	for i, route := range routes {
		rs = append(rs, rule(int64(len(routes)-i), func(r *rules.Rule) { r.Scope, r.Route = "global", &route }))
	}
	s := compile(t, rs...)
	for path, want := range map[string]string{
		"":                     "[everywhere]",
		"/":                    "[/* everywhere]",
		"/v1":                  "[/v1 /* /v1/* everywhere]",
		"/v1/charges":          "[/v1/charges/* /* /v1/{x} /v1/charges /v1/* everywhere]",
		"/v1/charges/":         "[/v1/charges/* /* /v1/{x} /v1/charges /v1/* everywhere]",
		"/v1/charges/y":        "[/v1/{x}/y /v1/charges/* /* /v1/* everywhere]",
		"/v2/../v1/z/y?a=/v1/": "[/v1/{x}/y /* /v1/* everywhere]",
		"/v2":                  "[/* everywhere]",
	} {
		var got []string
		for _, m := range s.Match(&Descriptor{Route: path}, 1, noon, nil) {
			if m.Rule.Rule.Route == nil {
				got = append(got, "everywhere")
			} else {
				got = append(got, *m.Rule.Rule.Route)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: got %v, want %s", path, got, want)
		}
	}
}

func TestMatch_WeighsByTheFieldTheRuleNames(t *testing.T) {
	s := compile(t, rule(1, func(r *rules.Rule) { r.WeightField = ptr("bytes") }), rule(2, nil))
	d := Descriptor{User: "42", Fields: map[string]int64{"bytes": 1234}}
	if ms := s.Match(&d, 3, noon, nil); len(ms) != 2 || ms[0].Weight != 1234 || ms[1].Weight != 3 {
		t.Errorf("got %+v", ms)
	}
	d.Fields = nil
	if ms := s.Match(&d, 3, noon, nil); len(ms) != 1 || ms[0].Rule.Rule.ID != 2 {
		t.Errorf("without the field: got %+v", ms)
	}
	d.Fields = map[string]int64{"bytes": -5}
	if ms := s.Match(&d, 3, noon, nil); ms[0].Weight != 0 {
		t.Errorf("a negative field weighs %d", ms[0].Weight)
	}
}

func TestMatch_AllocatesOnlyTheKeys(t *testing.T) {
	s := benchSet(t, 1000, 100)
	d := Descriptor{Method: "POST", Route: "/v1/resource-7/items", User: "42", IP: netip.MustParseAddr("2001:db8::7")}
	dst := s.Match(&d, 1, noon, nil)
	if n := testing.AllocsPerRun(100, func() { dst = s.Match(&d, 1, noon, dst[:0]) }); int(n) > len(dst) {
		t.Errorf("got %v allocations for %d matches", n, len(dst))
	}
}

func TestCurrent_HoldsNoneBeforeTheFirstStore(t *testing.T) {
	var c Current
	if c.Load() != nil {
		t.Error("got a set")
	}
	s := compile(t)
	c.Store(s)
	if c.Load() != s {
		t.Error("got another set")
	}
}

// BenchmarkCompile reports the memory that a compiled set holds as well.
func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			rs := make([]rules.Rule, n)
			for i := range rs {
				rs[i] = rule(int64(i+1), func(r *rules.Rule) { r.Route = ptr(fmt.Sprintf("/v1/r%d/{id}/*", i)) })
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var s *Set
			for b.Loop() {
				var err error
				if s, err = Compile(rs, 1, Options{}); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(rs)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(s.Len()), "B/rule")
		})
	}
}

func TestBan_DefaultsAndCompiledLimit(t *testing.T) {
	for _, tt := range []struct{ ban, want rules.Ban }{
		{rules.Ban{After: 20, WithinMS: 60_000, ForMS: 600_000},
			rules.Ban{After: 20, WithinMS: 60_000, ForMS: 600_000, Grow: 1, MostMS: 64 * 600_000}},
		{rules.Ban{After: 1, WithinMS: 1, ForMS: limiter.MaxWindow / 2, Grow: 3},
			rules.Ban{After: 1, WithinMS: 1, ForMS: limiter.MaxWindow / 2, Grow: 3, MostMS: limiter.MaxWindow}},
		{rules.Ban{After: 1, WithinMS: 1, ForMS: 2, Grow: 10, MostMS: 3},
			rules.Ban{After: 1, WithinMS: 1, ForMS: 2, Grow: 10, MostMS: 3}},
	} {
		s, err := Compile([]rules.Rule{rule(1, func(r *rules.Rule) { r.Ban = &tt.ban })}, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := tt.want
		if c := s.At(0); *c.Rule.Ban != w || *c.Ban != limiter.BanLimit(w.After, w.WithinMS, w.ForMS, w.Grow, w.MostMS) {
			t.Errorf("got %+v, %+v, want %+v", *c.Rule.Ban, *c.Ban, w)
		}
	}
	s, err := Compile([]rules.Rule{rule(1, func(*rules.Rule) {})}, 1, Options{})
	if err != nil || s.At(0).Ban != nil {
		t.Errorf("got %v, a ban without one", err)
	}
}

func TestCompileSource_PoolsAndTheirShares(t *testing.T) {
	shop := rules.NewPool()
	shop.Name, shop.Limit, shop.WindowMS = "shop", 10, 1000
	pooled := rule(1, func(r *rules.Rule) { r.Pool, r.Priority = ptr("shop"), ptr("low") })
	s, err := CompileSource(rules.Source{Rules: []rules.Rule{pooled}, Pools: []rules.Pool{shop}, Version: 3}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Pool("shop")
	if c := s.At(0); c.Pool != p || c.Priority != "low" || p.Key != "{pool:shop}||pw" || s.Version() != 3 ||
		len(s.Pools()) != 1 {
		t.Errorf("got %+v, %+v", c, p)
	}
	for priority, want := range map[string]int64{"critical": 10, "normal": 8, "low": 5} {
		if got := p.Share(priority); got.Count != want || got.Window != 1000 || got.Validate() != nil {
			t.Errorf("%s: got %+v", priority, got)
		}
	}
	if _, err := CompileSource(rules.Source{Rules: []rules.Rule{pooled}}, Options{}); err == nil ||
		!strings.Contains(err.Error(), `rule "rule-1" (id 1): invalid: pool does not exist`) {
		t.Errorf("without the pool: %v", err)
	}
	if _, err := CompileSource(rules.Source{Pools: []rules.Pool{shop, shop}}, Options{}); err == nil {
		t.Error("one name twice")
	}
}
