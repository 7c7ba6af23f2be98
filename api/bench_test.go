package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
)

const benchBody = `{"method":"POST","route":"/v1/charges","ip":"203.0.113.7","user":"42","tier":"free","weight":1}`

func BenchmarkDecodeCheck(b *testing.B) {
	var q decide.Question
	body := []byte(benchBody)
	b.ReportAllocs()
	for b.Loop() {
		if err := decodeCheck(body, limiter.OpTake, &q); err != nil {
			b.Fatal(err)
		}
	}
}

func benchFixture(b *testing.B) *fixture {
	wide := perUser("wide", 1_000_000_000)
	narrow := perUser("narrow", 1_000_000_000)
	return newFixture(b, []rules.Rule{wide, narrow}, func(o *decide.CheckerOptions, _ *Deps) {
		o.Store, o.Observe = o.Store.(*faultStore).Store, nil
	})
}

func BenchmarkCheckerTwoRules(b *testing.B) {
	f := benchFixture(b)
	q := decide.Question{Op: limiter.OpTake,
		Descriptor: match.Descriptor{Method: "POST", Route: "/v1/charges", User: "42"}, Weight: 1}
	var a decide.Answer
	b.ReportAllocs()
	for b.Loop() {
		if err := f.checker.Do(b.Context(), &q, &a); err != nil || !a.Allowed() {
			b.Fatal(err, a)
		}
	}
}

const listedLimit = 999_999_999

// listed is a checker of one rule by address with n overrides of networks and n of single addresses, which
// set its limit to listedLimit.
func listed(tb testing.TB, n int) *fixture {
	r := perUser("by-address", 1_000_000_000)
	r.Scope = "ip"
	f := newFixture(tb, []rules.Rule{r}, func(o *decide.CheckerOptions, _ *Deps) {
		o.Store, o.Observe = o.Store.(*faultStore).Store, nil
	})
	e := override.New().Edit()
	for i := range n {
		for _, address := range []string{"10.%d.%d.0/24", "10.%d.%d.7"} {
			key := fmt.Sprintf("{ip:"+address+"}", i>>8, i&255)
			e.Add(override.Row{RuleID: 1, ID: int64(2*i + 1), Match: key, Limit: listedLimit, Burst: -1})
		}
	}
	f.sets.Store(f.sets.Load().WithOverrides(e.Done(1, f.now.Load())))
	return f
}

func (f *fixture) checkFrom(tb testing.TB, ip netip.Addr, a *decide.Answer) {
	q := decide.Question{Op: limiter.OpTake,
		Descriptor: match.Descriptor{Method: "POST", Route: "/v1/charges", IP: ip}, Weight: 1}
	if err := f.checker.Do(tb.Context(), &q, a); err != nil || !a.Allowed() {
		tb.Fatal(err, a)
	}
}

// BenchmarkCheckerLists is a check of an address that a network has, by the length of the rule's lists.
func BenchmarkCheckerLists(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := listed(b, n)
			var a decide.Answer
			b.ReportAllocs()
			for b.Loop() {
				f.checkFrom(b, netip.MustParseAddr("10.1.2.3"), &a)
			}
		})
	}
}

func BenchmarkEncodeAnswer(b *testing.B) {
	f := benchFixture(b)
	q := decide.Question{Op: limiter.OpTake, Descriptor: match.Descriptor{User: "42"}, Weight: 1}
	var a decide.Answer
	if err := f.checker.Do(b.Context(), &q, &a); err != nil {
		b.Fatal(err)
	}
	var out []byte
	var enc encoder
	b.ReportAllocs()
	for b.Loop() {
		out = enc.append(out[:0], &a)
	}
}

// BenchmarkCheckHTTP is the whole handler, without a connection.
func BenchmarkCheckHTTP(b *testing.B) {
	f := benchFixture(b)
	body := strings.NewReader(benchBody)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/ratelimit/check", nil)
	r.Host, r.Header["Content-Type"], r.ContentLength = "localhost", []string{"application/json"}, int64(len(benchBody))
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(benchBody)
		r.Body = nopCloser{body}
		clear(w.header)
		f.echo.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
}

// BenchmarkBatchHTTP is the whole handler of a hundred checks by two rules,
// without a connection; times are of one check.
func BenchmarkBatchHTTP(b *testing.B) {
	const size = 100
	f := benchFixture(b)
	text := `{"checks":[` + strings.TrimSuffix(strings.Repeat(benchBody+",", size), ",") + `]}`
	body := strings.NewReader(text)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/ratelimit/check/batch", nil)
	r.Host, r.Header["Content-Type"], r.ContentLength = "localhost", []string{"application/json"}, int64(len(text))
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(text)
		r.Body = nopCloser{body}
		clear(w.header)
		f.echo.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/check")
}

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

// discard is a response that goes nowhere.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
