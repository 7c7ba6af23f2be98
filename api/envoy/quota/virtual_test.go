package quota

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/rules"
)

// Two proxies on two nodes that want four times the limit get all of it from the second window on.
func TestVirtual_TwoProxiesUseAWindowFully(t *testing.T) {
	w := newWorld(t, 1, perUser(func(r *rules.Rule) { r.WindowMS, r.HotKeys = 20_000, rules.HotKeysLeased }), 2)
	w.addProxy(200)
	w.addProxy(200)
	w.run(10 * 20_000)
	w.wantNoneOver()
	first := epoch / w.window
	for i := int64(1); i < 10; i++ {
		if got := w.passed[first+i]; got < 1980 {
			t.Errorf("window %d used %d of 2000", i, got)
		}
	}
	t.Log(w, w.passed)
}

// Twenty proxies come, go and are cut off for an hour, and nodes are killed.
func TestVirtual_AnHourOfTwentyProxies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, perUser(func(r *rules.Rule) { r.Limit = 60_000 }), 3)
	for range 20 {
		w.addProxy(20 + 180*w.random.Float64())
	}
	for minute := range 60 {
		p := w.proxies[w.random.IntN(len(w.proxies))]
		switch w.random.IntN(4) {
		case 0:
			p.kill()
			w.after(w.random.Int64N(90*second), func() { p.down = false })
		case 1:
			p.cutOff()
		case 2:
			p.perSecond = 200 * w.random.Float64()
		case 3:
			n := w.nodes[minute%3]
			n.kill()
			w.after(20*second, func() { n.down = false })
		}
		w.run(60_000)
	}
	w.wantNoneOver()
	used, could := int64(0), int64(0)
	for i, passed := range w.passed {
		used, could = used+passed, could+min(w.limit.Count, w.asked[i])
	}
	t.Logf("used %.2f %%, %s", 100*float64(used)/float64(could), w)
	if used*100 < could*95 {
		t.Errorf("%d of %d units used", used, could)
	}
	if calls := w.store.calls.Load() + 3*w.exchange; w.requests < 50*calls {
		t.Errorf("%d requests needed %d operations of Redis", w.requests, calls)
	}
}

// Reports are held up for up to 9 s while proxies spend each lump just before its end.
func TestVirtual_NothingIsOverAfterReportsWereHeldUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, perUser(func(r *rules.Rule) { r.Limit, r.WindowMS = 240_000, 3_600_000 }), 2)
	for range 4 {
		w.addProxy(20).moody = true
	}
	for range 3000 {
		p := w.proxies[w.random.IntN(4)]
		p.stall(9 * second)
		w.run(w.random.Int64N(7 * second))
	}
	w.wantNoneOver()
	t.Log(w, w.passed)
}

// Nothing is ever over, whatever the algorithm, and whatever is lost, killed or cut off when.
func TestVirtual_NeverOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		algorithm := rapid.SampledFrom([]string{"fixed_window", "sliding_window_counter", "sliding_window_buckets",
			"token_bucket", "leaky_bucket", "gcra"}).Draw(rt, "algorithm")
		r := perUser(func(r *rules.Rule) {
			r.Algorithm, r.Limit = algorithm, rapid.Int64Range(1, 5000).Draw(rt, "limit")
			if algorithm == "sliding_window_buckets" {
				r.WindowMS, r.Buckets = 240_000, new(int64(4))
			}
		})
		w := newWorld(t, rapid.Uint64().Draw(rt, "seed"), r, rapid.IntRange(1, 3).Draw(rt, "nodes"))
		for range rapid.IntRange(1, 5).Draw(rt, "proxies") {
			p := w.addProxy(rapid.Float64Range(0, float64(r.Limit)/15).Draw(rt, "per second"))
			p.moody = rapid.Bool().Draw(rt, "moody")
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			p := w.proxies[rapid.IntRange(0, len(w.proxies)-1).Draw(rt, "proxy")]
			n := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(rt, "node")]
			switch rapid.IntRange(0, 6).Draw(rt, "step") {
			case 0:
				p.kill()
			case 1:
				p.cutOff()
			case 2:
				n.kill()
			case 3:
				n.down, p.down = false, false
			case 4:
				p.perSecond = rapid.Float64Range(0, float64(r.Limit)/15).Draw(rt, "per second")
			case 5:
				p.stall(rapid.Int64Range(0, 9*second).Draw(rt, "stall"))
			}
			w.run(rapid.Int64Range(0, 20_000).Draw(rt, "ms"))
		}
		w.run(30_000)
		if w.over > 0 {
			rt.Fatalf("%d units over", w.over)
		}
	})
}

// Where units become free all the time, little of them is lost.
func TestVirtual_UsesWhatBecomesFree(t *testing.T) {
	t.Parallel()
	for algorithm, least := range map[string]int64{"token_bucket": 95, "gcra": 95, "sliding_window_counter": 90} {
		w := newWorld(t, 1, perUser(func(r *rules.Rule) { r.Algorithm, r.Limit = algorithm, 6000 }), 2)
		for range 3 {
			w.addProxy(150)
		}
		w.run(10 * 60_000)
		w.wantNoneOver()
		total := int64(0)
		for _, passed := range w.passed {
			total += passed
		}
		t.Logf("%s: %d of %d, %s", algorithm, total, 60_000, w)
		if total*100 < 60_000*least {
			t.Errorf("%s: %d of %d used", algorithm, total, 60_000)
		}
	}
}
