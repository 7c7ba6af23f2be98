//go:build !race

package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// The bounds are what a check costs today; docs/benchmarks.md says what the
// allocations are. Under the race detector pools give memory back at random.

func TestCheckerDo_AllocatesItsKeysAndItsDeadlineOnly(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("wide", 1_000_000_000), perUser("narrow", 1_000_000_000)},
		func(o *decide.CheckerOptions, _ *Deps) {
			o.Store, o.Observe = o.Store.(*faultStore).Store, nil
		})
	q := decide.Question{Op: limiter.OpTake,
		Descriptor: match.Descriptor{Method: "POST", Route: "/v1/charges", User: "42"}, Weight: 1}
	var a decide.Answer
	got := testing.AllocsPerRun(1000, func() {
		if err := f.checker.Do(t.Context(), &q, &a); err != nil || !a.Allowed() {
			t.Fatal(err, a)
		}
	})
	if got > 3 {
		t.Errorf("%v allocations a check by two rules, want at most 3", got)
	}
}

func TestCheckerDo_ListsAllocateNothing(t *testing.T) {
	alone, listed := listed(t, 0), listed(t, 10_000)
	for _, ip := range []string{"10.1.2.3", "10.1.2.7", "203.0.113.7"} { // in a network, by itself, in no list
		var a decide.Answer
		from := netip.MustParseAddr(ip)
		want := testing.AllocsPerRun(1000, func() { alone.checkFrom(t, from, &a) })
		got := testing.AllocsPerRun(1000, func() { listed.checkFrom(t, from, &a) })
		if inList := a.Limits[0].Limit.Count == listedLimit; inList != strings.HasPrefix(ip, "10.") || got > want {
			t.Errorf("%s: in a list: %v, %v allocations with 20,000 overrides, %v with none", ip, inList, got, want)
		}
	}
}

func TestAnswerEncode_AllocatesNothing(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 1_000_000_000)})
	q := decide.Question{Op: limiter.OpTake, Descriptor: match.Descriptor{User: "42"}, Weight: 1}
	var a decide.Answer
	if err := f.checker.Do(t.Context(), &q, &a); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 0, 4096)
	var enc encoder
	if got := testing.AllocsPerRun(1000, func() { out = enc.append(out[:0], &a) }); got > 0 {
		t.Errorf("%v allocations an answer", got)
	}
}

func TestCheckHTTP_AllocatesAtMostNineTimes(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("wide", 1_000_000_000), perUser("narrow", 1_000_000_000)},
		func(o *decide.CheckerOptions, _ *Deps) {
			o.Store, o.Observe = o.Store.(*faultStore).Store, nil
		})
	body := strings.NewReader(benchBody)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ratelimit/check", nil)
	r.Host, r.Header["Content-Type"], r.ContentLength = "localhost", []string{"application/json"}, int64(len(benchBody))
	w := &discard{header: http.Header{}}
	got := testing.AllocsPerRun(1000, func() {
		body.Reset(benchBody)
		r.Body = nopCloser{body}
		clear(w.header)
		f.echo.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			t.Fatal(w.status)
		}
	})
	if got > 9 {
		t.Errorf("%v allocations a check over HTTP, beside net/http's own; want at most 9", got)
	}
}

func TestBatchHTTP_AllocatesAtMostThreeTimesACheck(t *testing.T) {
	const size = 100
	f := newFixture(t, []rules.Rule{perUser("wide", 1_000_000_000), perUser("narrow", 1_000_000_000)},
		func(o *decide.CheckerOptions, _ *Deps) {
			o.Store, o.Observe = o.Store.(*faultStore).Store, nil
		})
	text := `{"checks":[` + strings.TrimSuffix(strings.Repeat(benchBody+",", size), ",") + `]}`
	body := strings.NewReader(text)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ratelimit/check/batch", nil)
	r.Host, r.Header["Content-Type"], r.ContentLength = "localhost", []string{"application/json"}, int64(len(text))
	w := &discard{header: http.Header{}}
	got := testing.AllocsPerRun(100, func() {
		body.Reset(text)
		r.Body = nopCloser{body}
		clear(w.header)
		f.echo.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			t.Fatal(w.status)
		}
	})
	if got > 3*size {
		t.Errorf("%v allocations a batch of %d, want at most 3 a check", got, size)
	}
}

// unrecorded is a tracer of requests none of which is sampled.
type unrecorded struct{}

func (unrecorded) Decide(ctx context.Context, _ int) (context.Context, decide.Span) { return ctx, nil }

func TestCheckerDo_TracesAllocateNothingUnlessRecorded(t *testing.T) {
	measure := func(trace decide.Tracer) float64 {
		f := newFixture(t, []rules.Rule{perUser("r", 1_000_000_000)}, func(o *decide.CheckerOptions, _ *Deps) {
			o.Store, o.Observe, o.Trace = o.Store.(*faultStore).Store, nil, trace
		})
		q := decide.Question{Op: limiter.OpTake, Descriptor: match.Descriptor{User: "42"}, Weight: 1}
		var a decide.Answer
		return testing.AllocsPerRun(1000, func() {
			if err := f.checker.Do(t.Context(), &q, &a); err != nil || !a.Allowed() {
				t.Fatal(err, a)
			}
		})
	}
	if off, on := measure(nil), measure(unrecorded{}); off != on || off > 2 {
		t.Errorf("%v allocations a check without traces, %v with traces that do not record it, want at most 2", off, on)
	}
}
