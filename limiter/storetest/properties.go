package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/limiter"
)

// Properties checks the store against the reference on random traffic: every
// algorithm, several limits together, every operation, rule edits and clock
// steps. rapid's flags apply: -rapid.checks=10000 searches for longer.
func Properties(t *testing.T, h Harness) {
	for _, a := range limiter.Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			compareWithReference(t, h, func(rt *rapid.T) []limiter.Limit { return []limiter.Limit{drawLimit(rt, a)} })
		})
	}
	t.Run("SeveralLimits", func(t *testing.T) {
		compareWithReference(t, h, func(rt *rapid.T) []limiter.Limit {
			out := make([]limiter.Limit, rapid.IntRange(2, 4).Draw(rt, "limits"))
			for i := range out {
				out[i] = drawLimit(rt, rapid.SampledFrom(limiter.Algorithms()).Draw(rt, "algorithm"))
			}
			return out
		})
	})
}

// traffic is one run of random requests against two stores.
type traffic struct {
	*rapid.T
	clock  *Clock
	who    entity
	limits []limiter.Limit
	ids    map[string]int64 // when an id was last used to spend
	wait   int64            // what the last denial asked for
	log    []string
}

// steps is the largest number of requests in one run.
const steps = 40

func compareWithReference(t *testing.T, h Harness, draw func(*rapid.T) []limiter.Limit) {
	clock := NewClock(clockMin)
	store := h.New(t, clock.Now)
	rapid.Check(t, func(rt *rapid.T) {
		clock.Set(genOrigin.Draw(rt, "origin"))
		reference := NewReference(clock.Now)
		tr := &traffic{T: rt, clock: clock, who: newEntity(), limits: draw(rt), ids: map[string]int64{}}
		for range rapid.IntRange(1, steps).Draw(rt, "steps") {
			tr.next(store, reference)
		}
	})
}

// next draws a clock step or an edit, and a request that both stores decide.
func (tr *traffic) next(store, reference limiter.Store) {
	i := rapid.IntRange(0, len(tr.limits)-1).Draw(tr.T, "limit")
	step(tr.clock, drawStep(tr.T, tr.limits[i], tr.wait, true))
	if rapid.IntRange(0, 9).Draw(tr.T, "edit") == 0 {
		tr.limits[i] = editLimit(tr.T, tr.limits[i])
	}
	req := tr.request()
	if req == nil {
		return
	}
	var got, want limiter.Result
	errGot := store.Do(context.Background(), req, &got)
	errWant := reference.Do(context.Background(), req, &want)
	tr.log = append(tr.log, fmt.Sprintf("%d ms: %s id=%q %+v\n    -> %+v %v", tr.clock.Now(), req.Op, req.ID, req.Asks,
		want, errWant))
	if errGot != nil || errWant != nil {
		tr.Fatalf("%s\nthe store says %v, the reference says %v", tr.story(), errGot, errWant)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tr.Fatalf("%s\nthe store differs from the reference in the last answer (-want +got):\n%s", tr.story(), diff)
	}
	tr.wait = want.Limits[limiter.Strictest(want.Limits)].RetryAfter
}

func (tr *traffic) story() string {
	out := ""
	for _, line := range tr.log {
		out += line + "\n"
	}
	return out
}

// pick draws the limits of a request, at least one.
func (tr *traffic) pick(keep func(limiter.Limit) bool) []int {
	var out []int
	for i, l := range tr.limits {
		if keep(l) {
			out = append(out, i)
		}
	}
	if len(out) > 1 && rapid.IntRange(0, 2).Draw(tr.T, "subset") == 0 {
		return out[:rapid.IntRange(1, len(out)-1).Draw(tr.T, "how many")]
	}
	return out
}

// request draws a request, nil if it does not apply to the limits.
func (tr *traffic) request() *limiter.Request {
	ops := []limiter.Op{
		limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake,
		limiter.OpPeek, limiter.OpCharge, limiter.OpRefund, limiter.OpRefund,
		limiter.OpSettle, limiter.OpSettle, limiter.OpReset, limiter.OpRelease, limiter.OpRenew,
	}
	req := &limiter.Request{
		Op: rapid.SampledFrom(ops).Draw(tr.T, "op"),
		ID: rapid.SampledFrom([]string{"", "", "", "a", "b", "c", "}{|%\x00ü"}).Draw(tr.T, "id"),
	}
	if req.ID != "" && req.Op <= limiter.OpRefund {
		req.Attempt = rapid.SampledFrom([]int64{0, 0, 1, 2, limiter.MaxExact}).Draw(tr.T, "attempt")
	}
	lease := func(l limiter.Limit) bool { return l.Algorithm.Traits().Slots }
	which := func(limiter.Limit) bool { return true }
	switch req.Op {
	case limiter.OpRelease, limiter.OpRenew:
		which = lease
	case limiter.OpCharge:
		which = func(l limiter.Limit) bool { return !lease(l) }
	}
	slots := false
	for _, i := range tr.pick(which) {
		l := tr.limits[i]
		slots = slots || lease(l)
		w := drawWeight(tr.T, l)
		if req.Op == limiter.OpRefund {
			w = max(1, w)
		}
		look := rapid.IntRange(0, 4).Draw(tr.T, "look") == 0
		req.Asks = append(req.Asks, limiter.Ask{Key: tr.who.key(i, l.Algorithm), Limit: l, Weight: w, Look: look})
	}
	if req.ID == "" && slots && req.Op != limiter.OpRelease {
		req.ID = rapid.SampledFrom([]string{"lease", "another", "zz"}).Draw(tr.T, "lease id")
	}
	if len(req.Asks) == 0 || (req.Op > limiter.OpRelease && req.ID == "") {
		return nil
	}
	return tr.remember(req)
}

// remember stores when an id was used, and drops a refund of one so old that a store
// may or may not have its record.
func (tr *traffic) remember(req *limiter.Request) *limiter.Request {
	if req.ID == "" {
		return req
	}
	switch req.Op {
	case limiter.OpTake, limiter.OpCharge:
		tr.ids[req.ID] = tr.clock.Now()
	case limiter.OpRefund, limiter.OpSettle:
		if at, ok := tr.ids[req.ID]; ok && tr.clock.Now()-at > limiter.ReplayWindow {
			return nil
		}
	}
	return req
}
