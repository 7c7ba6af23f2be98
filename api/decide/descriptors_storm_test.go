package decide

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter/nearstore"
	"sluice/rules"
	"sluice/rules/override"
)

// twoNodes returns two Checkers with the same rules on one store, or on two clients of one Redis.
func twoNodes(t *testing.T, kind string, rs []rules.Rule) [2]*fixture {
	t.Helper()
	var nodes [2]*fixture
	prefix := ownPrefix()
	for i := range nodes {
		nodes[i] = patient(t, rs, nil)
		switch {
		case kind == "redis":
			nodes[i].store.Store = redisAt(t, testenv.SharedRedis(t).URL(), prefix, nodes[0].now.Load)
		case i > 0:
			nodes[i].store.Store = nodes[0].store.Store
		}
	}
	return nodes
}

// storm makes n calls on each of several goroutines, on two nodes in turn. It returns the number of
// calls that were allowed.
func storm(t *testing.T, nodes [2]*fixture, n int, q func(i int) *DescriptorQuestion) int64 {
	t.Helper()
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var a DescriptorAnswer
			for i := range n {
				if err := nodes[(g+i)%2].DoDescriptors(t.Context(), q(g*n+i), &a); err != nil {
					t.Error(err)
				}
				if a.Allowed() {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return allowed.Load()
}

func TestDescriptors_StormsAdmitExactlyTheLimit(t *testing.T) {
	rs := []rules.Rule{shop("all", "all", 150), shop("users", "user", 90), shop("gold", "gold", 40, quota),
		shop("silver", "silver", 50, quota), shop("tokens", "tokens", 100, charged),
		shop("slots", "slots", 4, leased(60_000))}
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			nodes := twoNodes(t, kind, rs)
			f := nodes[0]
			// Two users of 90 each share 150. A call of both buckets takes both or none.
			got := storm(t, nodes, 50, func(i int) *DescriptorQuestion {
				return &DescriptorQuestion{Domain: "shop", Descriptors: []AskedDescriptor{
					asked("all=1", 1, ""), asked([]string{"user=a", "user=b"}[i%2], 1, "")}}
			})
			if got != 150 {
				t.Errorf("%d calls were allowed, want 150", got)
			}
			a, b := f.call(asked("user=a", 0, "")), f.call(asked("user=b", 0, ""))
			if left := a.Statuses[0].Remaining + b.Statuses[0].Remaining; left != 30 {
				t.Errorf("%d remain for both users, want 30: a denied call spent units", left)
			}
			// A call passes while either quota has room, and its take is undone if neither has. Each
			// call that passes charges at least one of 90, and at most both.
			got = storm(t, nodes, 25, func(int) *DescriptorQuestion {
				return &DescriptorQuestion{Domain: "shop", Descriptors: []AskedDescriptor{
					asked("user=c", 0, ""), asked("gold=1", 1, ""), asked("silver=1", 1, "")}}
			})
			if got < 50 || got > 90 {
				t.Errorf("%d calls were allowed by quotas, want 50 to 90", got)
			}
			f.levels(t, "0 0", "gold=1", "silver=1")
			got = storm(t, nodes, 10, func(int) *DescriptorQuestion {
				return &DescriptorQuestion{Domain: "shop", Descriptors: []AskedDescriptor{
					asked("user=d", 1, ""), asked("gold=1", 1, ""), asked("silver=1", 1, "")}}
			})
			if got != 0 {
				t.Errorf("%d calls were allowed without a quota", got)
			}
			f.levels(t, "90", "user=d")
			// Every report is charged: 400 of 3 units against 100.
			storm(t, nodes, 50, func(int) *DescriptorQuestion {
				return &DescriptorQuestion{Domain: "shop", Descriptors: []AskedDescriptor{asked("tokens=a", 3, "e")}}
			})
			f.expect(t, "allowed: ok 1", asked("tokens=a", 1101, "n"))
			// Each lease that is taken is released: never above the limit, and none remains.
			var held, most atomic.Int64
			storm(t, nodes, 50, func(i int) *DescriptorQuestion {
				q := &DescriptorQuestion{Domain: "shop", Descriptors: []AskedDescriptor{asked("slots=a", 1, "")}}
				var a DescriptorAnswer
				if err := nodes[i%2].DoDescriptors(t.Context(), q, &a); err != nil {
					t.Error(err)
				}
				if !a.Allowed() {
					q.Look = true
					return q
				}
				if n := held.Add(1); n > most.Load() {
					most.Store(n)
				}
				held.Add(-1)
				q.Descriptors[0].Negative = true
				return q
			})
			if most.Load() > 4 {
				t.Errorf("%d leases at once, want at most 4", most.Load())
			}
			f.levels(t, "4", "slots=a")
		})
	}
}

// A caller that vanishes holds its slots until they expire, whatever the others do.
func TestDescriptors_SlotsOfVanishedCallersHeal(t *testing.T) {
	onStores(t, []rules.Rule{shop("slots", "slots", 5, leased(30_000))}, func(t *testing.T, f *fixture) {
		take, give := asked("slots=a", 1, ""), asked("slots=a", 1, "n")
		for range 3 {
			f.call(take) // and vanish
			f.now.Add(1)
		}
		f.now.Add(10_000)
		for range 40 { // the others come and go
			f.expect(t, "allowed: ok 1", take)
			f.expect(t, "allowed: ok 2", give)
			f.now.Add(100)
		}
		// The oldest leases were released each time, so that the newest ones remain: no more than 5 are
		// ever held, and all are free one window after the last one began.
		f.expect(t, "allowed: ok 0", asked("slots=a", 2, ""))
		f.expect(t, "denied: over 0", take)
		f.now.Add(29_999)
		f.levels(t, "3", "slots=a")
		f.now.Add(1)
		f.levels(t, "5", "slots=a")
	})
}

// The cached denial of a rule's own limit does not answer for a limit that is sent, nor the other
// way round.
func TestDescriptors_ASentLimitIsNotDeniedByTheCache(t *testing.T) {
	f := patient(t, []rules.Rule{shop("users", "user", 2)}, nil)
	near, err := nearstore.New(nearstore.Options{Store: f.store.Store, DenyCache: 100, HotRate: 1,
		Now: func() time.Time { return time.UnixMilli(f.now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close(t.Context()) })
	f.store.Store = near
	own, sent := asked("user=a", 1, ""), withLimit(asked("user=a", 1, ""), 5)
	f.expect(t, "allowed: ok 0", asked("user=a", 2, ""))
	f.expect(t, "denied: over 0", own)
	f.expect(t, "denied: over 0", own)
	if near.Stats().Answered == 0 {
		t.Error("the denial is not cached")
	}
	f.expect(t, "allowed: ok 2", sent)
	f.expect(t, "denied: over 0", own)
	f.expect(t, "allowed: ok 1", sent)
	f.expect(t, "allowed: ok 0", sent)
	f.expect(t, "denied: over 0", sent)
	f.expect(t, "denied: over 0", own)
	f.expect(t, "allowed: ok 4", withLimit(asked("user=a", 1, ""), 10))
}

func TestDescriptors_OverridesOfAKeyApply(t *testing.T) {
	rs := []rules.Rule{shop("users", "user", 2), shop("gold", "gold", 2, quota), shop("silver", "silver", 2, quota)}
	f := patient(t, rs, nil)
	edit := override.New().Edit()
	for i, row := range []override.Row{
		{RuleID: 2, Match: "{shop:gold=banned}", Blocked: true, Limit: -1, Burst: -1},
		{Match: "{shop:user=free}", Unlimited: true, Limit: -1, Burst: -1},
		{Match: "{shop:user=banned}", Blocked: true, Limit: -1, Burst: -1},
		{Match: "{shop:user=vip}", Limit: 9, Burst: -1},
	} {
		row.RuleID, row.ID = max(1, row.RuleID), int64(i+1)
		edit.Add(row)
	}
	f.opt.Sets.Store(f.opt.Sets.Load().WithOverrides(edit.Done(1, f.now.Load())))
	f.expect(t, "allowed: unlimited, ok 8", asked("user=free", 5, ""), asked("user=vip", 1, ""))
	f.expect(t, "denied: over 0, ok 8", asked("user=banned", 1, ""), asked("user=vip", 1, ""))
	f.expect(t, "allowed: ok 4", withLimit(asked("user=free", 1, ""), 5))
	f.expect(t, "denied: over 0", withLimit(asked("user=banned", 1, ""), 5))
	// A block of a quota denies although another quota has room.
	f.expect(t, "denied: over 0, ok 2", asked("gold=banned", 1, ""), asked("silver=a", 1, ""))
	f.expect(t, "allowed: ok 1", asked("silver=a", 1, ""))
	f.store.fail(errAway)
	f.expect(t, "denied: over 0, ok 0", asked("user=banned", 1, ""), asked("user=vip", 1, ""))
}
