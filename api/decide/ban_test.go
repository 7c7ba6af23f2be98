package decide

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/nearstore"
	"sluice/rules"
	"sluice/rules/match"
)

// Of the denials on several nodes exactly one begins the ban, the last of those that it needs. Until then no node
// answers from its deny cache, although the limit denies for an hour, and afterwards each does.
func TestBan_IsExactOverNodesWithDenyCaches(t *testing.T) {
	const nodes, denials, each = 3, 40, 60
	r := perUser("r", rules.FailOpen, 1)
	r.WindowMS, r.Ban = 3_600_000, &rules.Ban{After: denials, WithinMS: 60_000, ForMS: 7_200_000}
	onStores(t, []rules.Rule{r}, func(t *testing.T, f *fixture) {
		f.take()
		var near [nodes]*nearstore.Store
		var unbanned, began, wrong atomic.Int64
		var all sync.WaitGroup
		for n := range nodes {
			clock := func() time.Time { return time.UnixMilli(f.now.Load()) }
			s, err := nearstore.New(nearstore.Options{Store: f.store.Store, DenyCache: 100, HotRate: 1, Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			near[n] = s
			opt := f.opt
			opt.Store = s
			c, err := NewChecker(opt)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				all.Go(func() {
					for range each / 2 {
						q := Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{User: "42"}}
						var a Answer
						if err := c.Do(t.Context(), &q, &a); err != nil || a.Allowed() {
							wrong.Add(1)
							continue
						}
						switch d := &a.Limits[0]; {
						case d.Decision.BanBegan:
							began.Add(1)
						case d.Ban == 0:
							unbanned.Add(1)
						}
					}
				})
			}
		}
		all.Wait()
		if unbanned.Load() != denials-1 || began.Load() != 1 || wrong.Load() > 0 {
			t.Errorf("%d denials before the ban, %d bans, %d other answers", unbanned.Load(), began.Load(), wrong.Load())
		}
		if n := near[0].Stats().Answered + near[1].Stats().Answered + near[2].Stats().Answered; n == 0 {
			t.Error("no deny cache answers during the ban")
		}
		for _, s := range near {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
