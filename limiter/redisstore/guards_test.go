package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

// region is one region in two stores, which must agree.
type region struct {
	stores  [2]limiter.Exporter // memory and Redis
	key     limiter.Key
	told    [2][]limiter.Exported
	peer    limiter.Sums // what another region has spent
	family  []limiter.Algorithm
	traffic *traffic
}

// Both stores hold back the same takes, with any guard, whatever else happens to the bucket, and export the same sums.
func TestModel_TheScriptHoldsBackWhatMemoryHoldsBack(t *testing.T) {
	clock := storetest.NewClock(0)
	three := limiter.Regions{Count: 3, Wait: 250}
	s := open(t, client(t, testenv.SharedRedis(t).URL()),
		redisstore.Options{Clock: clock.Now, Prefix: "guards:", Regions: three})
	memory := memstore.New(memstore.Options{Clock: clock.Now, Regions: three})
	t.Cleanup(func() { _ = memory.Close() })
	held := 0
	rapid.Check(t, func(t *rapid.T) {
		r := &region{stores: [2]limiter.Exporter{memory, s}, traffic: newTraffic(t)}
		r.traffic.now = max(r.traffic.now, 1_760_000_000_000)
		r.family = rapid.SampledFrom(families[:6]).Draw(t, "spanning family")
		r.key = limiter.Key(fmt.Sprintf("{%s}|g|%s", r.traffic.entity, r.family[0].Kind()))
		limit := r.limit(t)
		r.peer.Born = 1
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			if rapid.IntRange(0, 14).Draw(t, "edit") == 0 && limit.Buckets == 0 {
				limit = r.limit(t)
			}
			r.traffic.limits = []limiter.Limit{limit}
			r.traffic.step(t)
			clock.Set(r.traffic.now)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1:
				r.export(t)
			case 2:
				r.confirm(t)
			case 3:
				r.apply(t, limit)
			default:
				if r.request(t, limit) {
					held++
				}
			}
		}
		r.export(t)
	})
	if held == 0 {
		t.Error("nothing was held back")
	}
}

// limit draws a limit that can span regions. In windows of a few ms numbers of different limits are alike, and the
// sub-windows of 1001 ms begin between two ms.
func (r *region) limit(t *rapid.T) limiter.Limit {
	for {
		l := r.traffic.limit(t, r.family)
		if l.Algorithm.Traits().Spans() && l.Window >= 1000 && (l.Buckets == 0 || l.Window > 1001) {
			return l
		}
	}
}

// request runs one request in both stores and reports whether it was held back.
func (r *region) request(t *rapid.T, limit limiter.Limit) (held bool) {
	req := limiter.Request{Op: rapid.SampledFrom([]limiter.Op{
		limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpTake, limiter.OpPeek, limiter.OpCharge, limiter.OpRefund,
		limiter.OpSettle, limiter.OpReset,
	}).Draw(t, "op")}
	if req.Op == limiter.OpSettle || rapid.IntRange(0, 3).Draw(t, "named") == 0 {
		req.ID = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id")
	}
	req.Asks = []limiter.Ask{{Key: r.key, Limit: limit, Weight: r.traffic.weight(t, limit), Spans: true,
		Guard: limiter.GuardMode(rapid.IntRange(0, 2).Draw(t, "guard")), Look: rapid.IntRange(0, 5).Draw(t, "look") == 0}}
	if req.Op == limiter.OpTake && rapid.IntRange(0, 2).Draw(t, "with others") == 0 {
		other := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 3, Window: 1000}
		req.Asks = append(req.Asks, limiter.Ask{Key: limiter.BanKey(r.key), Limit: limiter.BanLimit(2, 1000, 100, 1, 100)},
			limiter.Ask{Key: r.key + "o", Limit: other, Weight: 1})
	}
	if req.Check() != nil {
		return false
	}
	var res [2]limiter.Result
	for i, s := range r.stores {
		if err := s.Do(context.Background(), &req, &res[i]); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(res[0], res[1]); diff != "" {
		t.Fatalf("%s %q %+v at %d (-memory +Redis):\n%s", req.Op, req.ID, req.Asks, r.traffic.now, diff)
	}
	return res[0].Limits[0].Held
}

// export compares what both stores tell, but for the guard, and for which of the last takes they have the limit. Each
// may also tell of a bucket in which nothing has changed.
func (r *region) export(t *rapid.T) {
	var told [2][]limiter.Exported
	for i, s := range r.stores {
		out, err := s.Export(context.Background(), 1000, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out {
			e.Sums.Guard, e.Sums.Count, e.Sums.Burst = limiter.Guard{}, 0, 0
			if len(e.Sums.Windows) == 0 {
				e.Sums.Windows, e.Sums.Shape = nil, 0
			}
			if e.Key == r.key {
				told[i] = append(told[i], e)
			}
		}
	}
	for i := range told {
		if len(told[i]) == 0 && len(told[1-i]) > 0 {
			var last limiter.Sums
			if n := len(r.told[i]); n > 0 {
				last = r.told[i][n-1].Sums
			}
			if got := told[1-i][0].Sums; got.Born != last.Born || got.Taken != last.Taken || got.Denied != last.Denied {
				t.Fatalf("exported at %d: only store %d has %+v after %+v", r.traffic.now, 1-i, told[1-i], last)
			}
			return
		}
	}
	leases := cmpopts.IgnoreFields(limiter.Exported{}, "Lease")
	if diff := cmp.Diff(told[0], told[1], leases, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("exported at %d (-memory +Redis):\n%s", r.traffic.now, diff)
	}
	for i := range told {
		r.told[i] = append(r.told[i], told[i]...)
	}
}

// confirm sets a guard by one of the exports.
func (r *region) confirm(t *rapid.T) {
	if len(r.told[0]) == 0 {
		return
	}
	at := rapid.IntRange(0, len(r.told[0])-1).Draw(t, "export")
	guard := limiter.Guard{Share: rapid.Int64Range(0, limiter.FullShare).Draw(t, "share")}
	guard.Lead = rapid.Bool().Draw(t, "lead")
	for i, s := range r.stores {
		e := r.told[i][at]
		e.Guard = guard
		if err := s.Confirm(context.Background(), []limiter.Exported{e}); err != nil {
			t.Fatal(err)
		}
	}
}

// apply lets another region spend something.
func (r *region) apply(t *rapid.T, limit limiter.Limit) {
	var state limiter.State
	r.peer.Spend(limit, &state, r.traffic.now, rapid.Int64Range(1, 4).Draw(t, "elsewhere"))
	r.peer.Denied += rapid.Int64Range(0, 1).Draw(t, "denied elsewhere")
	sums := r.peer
	req := limiter.Request{Op: limiter.OpApply, ID: "peer", Sums: &sums,
		Asks: []limiter.Ask{{Key: r.key, Limit: limit, Spans: true}}}
	if err := req.Check(); err != nil {
		t.Fatal(err)
	}
	var res [2]limiter.Result
	for i, s := range r.stores {
		if err := s.Do(context.Background(), &req, &res[i]); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(res[0], res[1]); diff != "" {
		t.Fatalf("apply %+v of %+v at %d (-memory +Redis):\n%s", sums, limit, r.traffic.now, diff)
	}
}
