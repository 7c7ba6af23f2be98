package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// report is a PUT of a pool's load that must be taken.
func (f *fixture) report(pool, body string) {
	f.t.Helper()
	f.do(http.MethodPut, "/ratelimit/pools/"+pool+"/load", body).want(http.StatusNoContent)
}

func TestLoad_AFreshReportWinsOverCountedTraffic(t *testing.T) {
	onBothStores(t, shop(10), []rules.Rule{elastic(aMinute("elastic", 1), 10_000, "shop", "normal")},
		func(t *testing.T, f *fixture) {
			passes := func(want bool, when string) {
				t.Helper()
				if got := f.check(`{"user":"42"}`); got.Allowed != want || got.Elastic != want {
					t.Errorf("%s: %+v", when, got)
				}
			}
			f.check(`{"user":"42"}`)
			f.report("shop", `{"utilization":0.8,"ttl_ms":5000}`)
			passes(false, "as much in use as normal traffic may find")
			f.report("shop", `{"utilization":0.799999,"ttl_ms":5000}`)
			for range 20 { // twice the capacity as counted
				passes(true, "just below")
			}
			f.report("shop", `{"utilization":3,"ttl_ms":5000}`)
			passes(false, "overloaded")
			f.report("shop", `{"utilization":0,"ttl_ms":100}`)
			passes(true, "idle")
			f.now.Add(100)
			passes(false, "after the report's end the counted traffic decides")
		})
}

func TestLoad_APoolWithoutRoomIsNotAskedForIt(t *testing.T) {
	f := pooled(t, "memory", shop(10), []rules.Rule{elastic(aMinute("elastic", 1), 100, "shop", "critical")})
	f.report("shop", `{"utilization":1,"ttl_ms":5000}`)
	f.check(`{"user":"42"}`)
	f.check(`{"user":"42"}`)
	if n := len(f.store.asks); n != 2 {
		t.Errorf("%d calls of the store, want one a check", n)
	}
	if got := f.check(`{"user":"42"}`); *got.RetryAfterMS != 60_000 {
		t.Errorf("got %+v, want the wait for the limit itself", got)
	}
}

func TestLoad_RefusesWhatIsNotAReport(t *testing.T) {
	f := pooled(t, "memory", shop(10), nil)
	for _, c := range []struct {
		body   string
		status int
		fields []string
	}{
		{`{}`, 422, []string{"ttl_ms", "utilization"}},
		{`{"utilization":-0.1,"ttl_ms":99}`, 422, []string{"ttl_ms", "utilization"}},
		{`{"utilization":100.1,"ttl_ms":600001}`, 422, []string{"ttl_ms", "utilization"}},
		{`{"utilization":"1","ttl_ms":"500"}`, 422, []string{"ttl_ms", "utilization"}},
		{`{"utilization":1e400,"ttl_ms":500.5}`, 422, []string{"ttl_ms", "utilization"}},
		{`{"utilization":null,"ttl_ms":true}`, 422, []string{"ttl_ms", "utilization"}},
		{`{"utilization":1,"ttl_ms":500,"pool":"x"}`, 400, nil},
		{`[]`, 400, nil},
	} {
		a := f.do(http.MethodPut, "/ratelimit/pools/shop/load", c.body).want(c.status)
		if c.fields != nil && !slices.Equal(a.fields(), c.fields) {
			t.Errorf("%s: %s", c.body, a.body)
		}
	}
	f.do(http.MethodPut, "/ratelimit/pools/other/load", `{"utilization":1,"ttl_ms":500}`).want(http.StatusNotFound)
	f.report("shop", `{"utilization":100,"ttl_ms":100}`)
	f.report("shop", `{"utilization":0,"ttl_ms":600000}`)
}

// refusing is a board that takes nothing.
type refusing struct{ err error }

func (b refusing) Put(context.Context, string, int64, time.Duration) error { return b.err }

func (b refusing) Get(context.Context, []string) ([]int64, []time.Duration, error) {
	return nil, nil, b.err
}

func TestLoad_ABoardThatIsAwayIsSaid(t *testing.T) {
	board := refusing{&limiter.StoreError{Cause: limiter.CauseConnection, Err: fmt.Errorf("refused")}}
	f := pooled(t, "memory", shop(10), nil,
		func(o *decide.CheckerOptions, _ *Deps) { o.Loads = decide.NewLoads(board, o.Now) })
	a := f.do(http.MethodPut, "/ratelimit/pools/shop/load",
		`{"utilization":1,"ttl_ms":500}`).want(http.StatusServiceUnavailable)
	if a.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %s", a.body)
	}
}

// frozen is a board that never answers.
type frozen struct {
	decide.LoadBoard
	within time.Duration // what it was given
}

func (b *frozen) Put(ctx context.Context, _ string, _ int64, _ time.Duration) error {
	if until, ok := ctx.Deadline(); ok {
		b.within = time.Until(until)
	}
	<-ctx.Done()
	return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: ctx.Err()}
}

func TestLoad_KeepsTheDeadlineOfTheStore(t *testing.T) {
	board := &frozen{}
	f := newFixture(t, nil, func(o *decide.CheckerOptions, _ *Deps) {
		o.Loads, o.Timeout = decide.NewLoads(board, o.Now), 20*time.Millisecond
	})
	f.pools = shop(10)
	f.reload()
	a := f.do(http.MethodPut, "/ratelimit/pools/shop/load",
		`{"utilization":1,"ttl_ms":500}`).want(http.StatusServiceUnavailable)
	if board.within <= 0 || board.within > 20*time.Millisecond {
		t.Errorf("the board was given %s, want up to 20 ms", board.within)
	}
	if body := a.body; strings.Contains(body, "request_id") || !strings.Contains(body, "send it again") ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("the answer says %s", body)
	}
}

func TestPools_OneShowsWhatItHolds(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/pools", `{"name":"shop","limit":100,"window_ms":60000}`).want(http.StatusCreated)
	f.do(http.MethodPost, "/ratelimit/rules",
		`{"name":"r","scope":"user","limit":5,"window_ms":60000,"pool":"shop"}`).want(http.StatusCreated)
	f.check(`{"user":"42","weight":3}`)
	read := func() (p poolAnswer) {
		t.Helper()
		f.do(http.MethodGet, "/ratelimit/pools/shop", "").want(http.StatusOK).decode(&p)
		return p
	}
	if p := read(); *p.Used != 3 || p.Capacity != 100 || p.Load != nil || p.Limit != 100 {
		t.Errorf("got %+v, %+v", p.Pool, p.PoolState)
	}
	f.report("shop", `{"utilization":1.25,"ttl_ms":5000}`)
	f.now.Add(500)
	if p := read(); p.Load == nil || p.Load.Utilization != 1.25 || p.Load.ExpiresInMS != 4500 {
		t.Errorf("got %+v", p.Load)
	}
	f.store.fail(errAway)
	if p := read(); p.Used != nil || p.Load == nil {
		t.Errorf("with the store away: %+v", p.PoolState)
	}
}
