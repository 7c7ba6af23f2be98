package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/limiter"
)

// Errors checks that malformed and canceled requests are refused and spend nothing,
// and that one bad call of a batch does not affect the others.
func Errors(t *testing.T, h Harness) {
	t.Run("MalformedIsErrInvalidAndSpendsNothing", func(t *testing.T) { malformed(t, h) })
	t.Run("EndedContextIsStoreErrorAndSpendsNothing", func(t *testing.T) { endedContext(t, h) })
	t.Run("BadCallOfABatchLeavesOthersAlone", func(t *testing.T) { badCall(t, h) })
	t.Run("ResultIsOverwrittenEntirely", func(t *testing.T) { overwritten(t, h) })
	t.Run("HugeChargesSaturateAndDeny", func(t *testing.T) { hugeCharges(t, h) })
	t.Run("AsManyLimitsAsMayBeAreTakenTogether", func(t *testing.T) { mostLimits(t, h) })
}

func malformed(t *testing.T, h Harness) {
	clock := NewClock(1_795_000_000_000)
	s := h.New(t, clock.Now)
	who := newEntity()
	good := who.asks(1, threeADay)[0]
	with := func(change func(*limiter.Ask)) []limiter.Ask {
		a := good
		change(&a)
		return []limiter.Ask{good, a}
	}
	many := make([]limiter.Ask, limiter.MaxLimits+1)
	for i := range many {
		many[i] = limiter.Ask{Key: who.key(i, threeADay.Algorithm), Limit: threeADay, Weight: 1}
	}
	lease := who.asks(1, twoAtOnce)
	spans := with(func(a *limiter.Ask) { a.Key, a.Spans = "{x}|1|fw", true })
	queue := who.asks(1, limiter.Limit{Algorithm: limiter.LeakyQueue, Count: 1, Window: 1000, Burst: 1})
	queue[0].Spans = true
	tests := map[string]limiter.Request{
		"no limits":            {},
		"too many limits":      {Asks: many},
		"key twice":            {Asks: []limiter.Ask{good, good}},
		"negative weight":      {Asks: with(func(a *limiter.Ask) { a.Key, a.Weight = "{x}|1|fw", -1 })},
		"huge weight":          {Asks: with(func(a *limiter.Ask) { a.Key, a.Weight = "{x}|1|fw", limiter.MaxExact+1 })},
		"long id":              {ID: strings.Repeat("x", 65), Asks: who.asks(1, threeADay)},
		"lease without id":     {Asks: lease},
		"renew without id":     {Op: limiter.OpRenew, Asks: lease},
		"charge of a lease":    {Op: limiter.OpCharge, ID: "a", Asks: lease},
		"release of a counter": {Op: limiter.OpRelease, ID: "a", Asks: who.asks(1, threeADay)},
		"settle without id":    {Op: limiter.OpSettle, Asks: who.asks(1, threeADay)},
		"kept too long":        {ID: "a", Keep: limiter.RecordKeepMax + 1, Asks: who.asks(1, threeADay)},
		"kept negatively":      {ID: "a", Keep: -1, Asks: who.asks(1, threeADay)},
		"unknown operation":    {Op: limiter.OpRestore + 1, ID: "a", Asks: who.asks(1, threeADay)},
		"close of any bucket":  {Op: limiter.OpClose, Asks: who.asks(0, threeADay)},
		"kept beyond a window": {Asks: who.asks(1, limiter.Limit{Algorithm: limiter.GCRA, Count: 1, Window: 1000, Burst: 1,
			Kept: limiter.KeptObeyed})},
		"queue of regions":    {Asks: queue},
		"apply to one region": {Op: limiter.OpApply, ID: "eu", Asks: []limiter.Ask{good}, Sums: &limiter.Sums{}},
		"apply of two limits": {Op: limiter.OpApply, ID: "eu", Asks: spans, Sums: &limiter.Sums{}},
		"apply of no sums":    {Op: limiter.OpApply, ID: "eu", Asks: spans[1:]},
		"apply of no region":  {Op: limiter.OpApply, Asks: spans[1:], Sums: &limiter.Sums{}},
		"restore of no sums":  {Op: limiter.OpRestore, Asks: spans[1:]},
		"apply of bad sums":   {Op: limiter.OpApply, ID: "eu", Asks: spans[1:], Sums: &limiter.Sums{Given: 1}},
	}
	for name, req := range tests {
		t.Run(name, func(t *testing.T) {
			var res limiter.Result
			if err := s.Do(context.Background(), &req, &res); !errors.Is(err, limiter.ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
		})
	}
	if got := do(t, s, limiter.OpPeek, "", good).Limits[0].Remaining; got != threeADay.Count {
		t.Errorf("remaining %d after malformed requests, want %d", got, threeADay.Count)
	}
}

// mostLimits takes from the largest number of buckets in one request. The last is
// the narrowest.
func mostLimits(t *testing.T, h Harness) {
	clock := NewClock(1_795_000_000_000)
	s := h.New(t, clock.Now)
	who := newEntity()
	asks := make([]limiter.Ask, limiter.MaxLimits)
	for i := range asks {
		asks[i] = limiter.Ask{Key: who.key(i, threeADay.Algorithm), Limit: threeADay, Weight: 1}
	}
	asks[len(asks)-1].Weight = 2
	for i, want := range []bool{true, false} {
		if res := do(t, s, limiter.OpTake, "", asks...); res.Allowed != want {
			t.Fatalf("take %d: allowed %v, want %v", i+1, res.Allowed, want)
		}
	}
	for i, d := range do(t, s, limiter.OpPeek, "", asks...).Limits {
		if want := threeADay.Count - asks[i].Weight; d.Remaining != want {
			t.Fatalf("limit %d has %d remaining, want %d: only the first take passed", i, d.Remaining, want)
		}
	}
}

func endedContext(t *testing.T, h Harness) {
	clock := NewClock(1_795_000_000_000)
	s := h.New(t, clock.Now)
	asks := newEntity().asks(1, threeADay)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancelLate := context.WithTimeout(context.Background(), -1)
	defer cancelLate()
	for want, ctx := range map[limiter.Cause]context.Context{limiter.CauseCanceled: canceled, limiter.CauseTimeout: late} {
		var res limiter.Result
		err := s.Do(ctx, &limiter.Request{Asks: asks}, &res)
		var se *limiter.StoreError
		if !errors.As(err, &se) || se.Cause != want || se.Unknown {
			t.Errorf("got %v, want a StoreError with cause %s, not applied", err, want)
		}
		calls := []limiter.Call{{Request: limiter.Request{Asks: asks}}}
		if s.DoAll(ctx, calls); calls[0].Err == nil {
			t.Errorf("%s: the call of a batch succeeded", want)
		}
	}
	if got := do(t, s, limiter.OpPeek, "", asks...).Limits[0].Remaining; got != threeADay.Count {
		t.Errorf("remaining %d after abandoned requests, want %d", got, threeADay.Count)
	}
}

func badCall(t *testing.T, h Harness) {
	clock := NewClock(1_795_000_000_000)
	s := h.New(t, clock.Now)
	asks := newEntity().asks(1, threeADay)
	calls := make([]limiter.Call, 5)
	for i := range calls {
		calls[i].Request.Asks = asks
	}
	calls[1].Request.Asks = nil
	s.DoAll(context.Background(), calls)
	if !errors.Is(calls[1].Err, limiter.ErrInvalid) {
		t.Errorf("call 1: got %v, want ErrInvalid", calls[1].Err)
	}
	var got []string
	for i, c := range calls {
		if i != 1 {
			got = append(got, fmt.Sprint(c.Err, c.Result.Allowed, c.Result.Limits[0].Remaining))
		}
	}
	want := []string{"<nil> true 2", "<nil> true 1", "<nil> true 0", "<nil> false 0"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func overwritten(t *testing.T, h Harness) {
	clock := NewClock(1_795_000_000_000)
	s := h.New(t, clock.Now)
	dirty := limiter.Result{Allowed: true, Replayed: true, At: 1, Limits: make([]limiter.Decision, 7)}
	for i := range dirty.Limits {
		dirty.Limits[i] = limiter.Decision{Allowed: true, Limit: 9, Remaining: 9, RetryAfter: 9, Reset: 9, Delay: 9,
			Refunded: 9}
	}
	req := &limiter.Request{Asks: newEntity().asks(4, threeADay)}
	if err := s.Do(context.Background(), req, &dirty); err != nil {
		t.Fatal(err)
	}
	if dirty.Allowed || dirty.Replayed || dirty.At != clock.Now() || len(dirty.Limits) != 1 {
		t.Fatalf("got %+v, want a denial at %d with one decision", dirty, clock.Now())
	}
	if want := (limiter.Decision{Limit: 3, Remaining: 3, RetryAfter: limiter.Never}); dirty.Limits[0] != want {
		t.Errorf("got %+v, want %+v", dirty.Limits[0], want)
	}
}

// hugeCharges charges the largest weight many times: the store must still answer,
// deny, and not overflow.
func hugeCharges(t *testing.T, h Harness) {
	clock := NewClock(1_795_000_000_000)
	s := h.New(t, clock.Now)
	limits := []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 10, Window: 1000},
		{Algorithm: limiter.SlidingWindowCounter, Count: 10, Window: 1000},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 10, Window: 1000, Buckets: 10},
		{Algorithm: limiter.SlidingWindowLog, Count: 10, Window: 1000},
		{Algorithm: limiter.TokenBucket, Count: 10, Window: 1000, Burst: 10},
		{Algorithm: limiter.GCRA, Count: 10, Window: 1000, Burst: 10},
	}
	who := newEntity()
	for range 5 {
		res := do(t, s, limiter.OpCharge, "", who.asks(limiter.MaxExact, limits...)...)
		for i, d := range res.Limits {
			if d.Allowed || d.Remaining != 0 || d.RetryAfter != limiter.Never || d.Reset <= 0 {
				t.Errorf("%s: got %+v, want a denial with nothing left", limits[i].Algorithm, d)
			}
		}
		clock.Advance(100)
	}
	if do(t, s, limiter.OpTake, "", who.asks(1, limits...)...).Allowed {
		t.Error("a take was allowed after huge charges")
	}
}
