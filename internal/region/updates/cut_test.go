package updates

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/limiter"
)

// admitted lets every place take single units, so many at once, for so long that all have what they may have, and
// returns how many each got.
func (w *world) admitted(t *testing.T, l limiter.Limit, atOnce int) map[string]int64 {
	t.Helper()
	units := map[string]int64{}
	for range 20 {
		for name, p := range w.places {
			for range atOnce {
				a, together := limiter.Ask{Key: ada, Spans: true, Weight: 1, Limit: l}, false
				if p.CutOff() {
					if a.Limit, together = p.Part(ada, l); together {
						a.Guard = limiter.GuardShare
					}
				}
				var res limiter.Result
				req := limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{a}}
				if err := p.store.Do(t.Context(), &req, &res); err != nil {
					t.Fatal(err)
				}
				if res.Allowed {
					units[name]++
				}
			}
			pass(3 * interval) // so that the others have heard
		}
	}
	return units
}

// Regions that hear each other while a third one is lost have their parts together, and no more in a storm. Where only
// a link is cut, each has its own.
func TestExchange_RegionsThatHearEachOtherHaveTheirPartsTogether(t *testing.T) {
	asiaIsLost := func(from, to string) bool { return from == "asia" || to == "asia" }
	for name, c := range map[string]struct {
		closed       func(from, to string) bool
		euAndUS, all int64
		atOnce       int
	}{
		"a region is lost":          {asiaIsLost, 66, 99, 80},
		"nobody hears anybody":      {func(string, string) bool { return true }, 66, 99, 80},
		"the link from us to asia":  {func(from, to string) bool { return from == "us" && to == "asia" }, 99, 99, 10},
		"the link between us, asia": {func(from, to string) bool { return from != "eu" && to != "eu" }, 99, 99, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "eu", "us", "asia")
				w.run(func() {
					pass(time.Second)
					w.close(c.closed)
					pass(2 * time.Second)
					units := w.admitted(t, limiter.Limit{Algorithm: limiter.FixedWindow, Count: 99, Window: hour}, c.atOnce)
					if two := units["eu"] + units["us"]; two != c.euAndUS && c.euAndUS < 99 || two+units["asia"] != c.all {
						t.Errorf("%v, want %d of eu and us, and %d of all", units, c.euAndUS, c.all)
					}
				})
			})
		})
	}
}

// Whatever links are cut, what regions may spend that do not count each other's units is not more than the limit.
func TestExchange_PartsAddUpToTheLimitWhateverIsCut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // links
	for range 200 {
		names := []string{"asia", "eu", "sa", "us", "us-2"}[:2+r.IntN(4)]
		cuts := map[string]bool{}
		for i, a := range names {
			for _, b := range names[i+1:] {
				if r.IntN(3) == 0 {
					cuts[a+" "+b], cuts[b+" "+a] = true, r.IntN(4) > 0
				}
			}
		}
		l := limiter.Limit{Count: r.Int64N(20), Burst: r.Int64N(20)}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, names...)
			w.run(func() {
				w.close(func(from, to string) bool { return cuts[from+" "+to] })
				pass(12 * interval)
				var sum limiter.Limit
				counted := map[string]bool{}
				for _, name := range names {
					p := w.places[name]
					cut := p.cut.Load()
					if len(cut.from) == 0 {
						continue // it counts what all spend
					}
					part, together := p.Part(ada, l)
					if together { // with those that have the same part
						if counted[strings.Join(cut.from, " ")] {
							continue
						}
						counted[strings.Join(cut.from, " ")] = true
					}
					sum.Count, sum.Burst = sum.Count+part.Count, sum.Burst+part.Burst
				}
				if sum.Count > l.Count || sum.Burst > l.Burst {
					t.Errorf("%v and %v: parts of %v of %v", names, slices.Sorted(maps.Keys(cuts)), sum, l)
				}
			})
		})
	}
}
