package decide

import (
	"testing"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// A limit that is shut while a region is cut off denies with status 503, also when the same region is the home of
// another limit of the check.
func TestEdges_ALimitThatIsShutIsUnavailableWithoutAHomeToo(t *testing.T) {
	for _, mode := range []string{rules.FailOpen, rules.FailLocal} {
		far, near := perUser("far", mode, 9), perUser("near", rules.FailOpen, 4)
		far.ID, near.ID, far.Version, near.Version, near.WindowMS = 1, 2, 1, 1, 60_000
		far.Span, near.Span, near.CutOff = rules.SpanGlobalExact, rules.SpanGlobal, new(rules.CutOffClosed)
		f := newFixture(t, nil, func(opt *CheckerOptions) {
			set, err := match.Compile([]rules.Rule{far, near}, 1, match.Options{Regions: 3})
			if err != nil {
				t.Fatal(err)
			}
			opt.Sets = &match.Current{}
			opt.Sets.Store(set)
			opt.Store = farAway{Store: opt.Store}
			spanRegions(opt, farPlanet{planet: &planet{cut: true, regions: 3}})
		})
		a := f.asks(limiter.OpTake, Question{Weight: 1, Descriptor: match.Descriptor{User: "ada"}})
		retry, _ := a.RetryAfter()
		if a.Verdict != Unavailable || retry < 0 {
			t.Errorf("%s: %s, retry after %d, degraded %q, limits %+v", mode, a.Verdict, retry, a.Degraded, a.Limits)
		}
	}
}

// A region asks the others for as much as it is asked for: an elastic limit that is tried twice counts once.
func TestEdges_AnElasticLimitThatIsDividedIsAskedForOnce(t *testing.T) {
	percent := int64(50)
	pool := rules.NewPool()
	pool.Name, pool.Limit, pool.WindowMS = "shop", 1000, 60_000
	r := perUser("everywhere", rules.FailOpen, 9)
	r.ID, r.Version, r.WindowMS, r.Span = 1, 1, 60_000, rules.SpanShares
	r.Throttle, r.ElasticPercent, r.Pool = rules.ThrottleElastic, &percent, &pool.Name
	p := &planet{regions: 3, share: 4}
	f := newFixture(t, nil, func(opt *CheckerOptions) {
		set, err := match.CompileSource(rules.Source{Rules: []rules.Rule{r}, Pools: []rules.Pool{pool}, Version: 1},
			match.Options{Regions: 3})
		if err != nil {
			t.Fatal(err)
		}
		opt.Sets = &match.Current{}
		opt.Sets.Store(set)
		spanRegions(opt, p)
	})
	if got := f.admitted(10, "ada"); got != 6 || p.asked != 10 {
		t.Errorf("%d admitted, want 6 of a part of 4 with half more; %d units asked for, want 10", got, p.asked)
	}
}
