package exchange

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// replaceable is a store that can be replaced by an empty one.
type replaceable struct{ atomic.Pointer[memstore.Store] }

func (r *replaceable) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	return r.Load().Do(ctx, req, res)
}

func (r *replaceable) DoAll(ctx context.Context, calls []limiter.Call) { r.Load().DoAll(ctx, calls) }

func (r *replaceable) Changed(ctx context.Context) (int, error) { return r.Load().Changed(ctx) }

func (r *replaceable) Export(ctx context.Context, most int, lease time.Duration) ([]limiter.Exported, error) {
	return r.Load().Export(ctx, most, lease)
}

func (r *replaceable) Confirm(ctx context.Context, sums []limiter.Exported) error {
	return r.Load().Confirm(ctx, sums)
}

// A region whose store came back empty has neither its own units nor those of the others, who count both. The next
// change of a key elsewhere brings all units that count there.
func TestExchange_AStoreThatCameBackEmptyGetsAKeyWithItsNextChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		counters := &replaceable{}
		counters.Store(us.store)
		us.opt.Store, us.opt.Apply = counters, counters
		left := func(when string, inEU, inUS int64) {
			t.Helper()
			pass(time.Second)
			if e, u := eu.spend(t, ada, 0), us.spend(t, ada, 0); e != inEU || u != inUS {
				t.Errorf("%s: %d are left in eu and %d in us, want %d and %d", when, e, u, inEU, inUS)
			}
		}
		w.run(func() {
			eu.spend(t, ada, 30)
			us.spend(t, ada, 20)
			left("units of both have arrived", 50, 50)

			us.store = memstore.New(memstore.Options{Steady: true,
				Regions: limiter.Regions{Count: 2, Parts: limiter.WorthParts(2)}})
			_ = counters.Swap(us.store).Close()
			left("us came back empty", 50, 100)
			us.spend(t, ada, 5)
			left("us has spent again", 45, 95)
			eu.spend(t, ada, 1)
			left("eu has spent again", 44, 64)
		})
	})
}
