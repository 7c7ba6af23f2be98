package decide

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/region"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// planet is what a test says of the other regions.
type planet struct {
	nowhere
	cut     bool
	regions int64
	rank    int64 // of this one
	share   int64 // of a limit that is divided
	asked   int64 // units
}

func (p *planet) CutOff() bool { return p.cut }

func (p *planet) Part(_ limiter.Key, l limiter.Limit) (limiter.Limit, bool) {
	return l.Part(p.rank, p.regions), false
}

// Share gives the region a third, or what the test says.
func (p *planet) Share(_ int64, _ limiter.Key, l limiter.Limit, units int64) (limiter.Limit, int64) {
	p.asked += units
	l.Count = p.share
	return l, 0
}

func (p *planet) HighWater(rule int64, l limiter.Limit) *limiter.HighWater {
	return &limiter.HighWater{Name: fmt.Sprintf("%d:%d", rule, l.Count)}
}

func (p *planet) ShareInterval() time.Duration { return time.Minute }

// nowhere is where no bucket has a home.
type nowhere struct{}

func (nowhere) Home(limiter.Key) string { return "" }
func (nowhere) Timeout() time.Duration  { return time.Second }
func (nowhere) Regions() int            { return 3 }

// spanRegions puts the store that knows the other regions in front of the one of a Checker.
func spanRegions(opt *CheckerOptions, regions region.Regions) {
	s := region.NewStore(region.StoreOptions{Self: "eu", Store: opt.Store, Sets: opt.Sets, Regions: regions,
		Timeout: time.Second})
	opt.Store, opt.Regions = s, s
}

// inRegions returns a fixture with one rule that spans three regions.
func inRegions(t *testing.T, cutOff string) (*fixture, *planet) {
	t.Helper()
	r := perUser("everywhere", rules.FailOpen, 9)
	r.WindowMS, r.Span, r.CutOff = 60_000, rules.SpanGlobal, &cutOff
	r.ID, r.Version = 1, 1
	p := &planet{regions: 3}
	f := newFixture(t, nil, func(opt *CheckerOptions) {
		set, err := match.Compile([]rules.Rule{r}, 1, match.Options{Regions: 3})
		if err != nil {
			t.Fatal(err)
		}
		opt.Sets = &match.Current{}
		opt.Sets.Store(set)
		spanRegions(opt, p)
	})
	return f, p
}

func TestCutOff_SaysWhatARegionMaySpend(t *testing.T) {
	for cutOff, want := range map[string]int{rules.CutOffShare: 3, rules.CutOffAlone: 9, rules.CutOffClosed: 0} {
		f, p := inRegions(t, cutOff)
		p.cut = true
		if got := f.admitted(12, "ada"); got != want {
			t.Errorf("%s: %d admitted, want %d", cutOff, got, want)
		}
		a := f.asks(limiter.OpTake, Question{Weight: 1, Descriptor: match.Descriptor{User: "ada"}})
		verdict := Denied
		if cutOff == rules.CutOffClosed {
			verdict = Unavailable
		}
		if a.Verdict != verdict || a.Degraded != DegradedRegion || a.Limits[0].Degraded != DegradedRegion {
			t.Errorf("%s: %s, degraded %q", cutOff, a.Verdict, a.Degraded)
		}
		p.cut = false
		a = f.asks(limiter.OpTake, Question{Weight: 1, Descriptor: match.Descriptor{User: "ada"}})
		if a.Allowed() != (want < 9) || a.Degraded != "" {
			t.Errorf("%s: after the heal allowed %v, degraded %q", cutOff, a.Allowed(), a.Degraded)
		}
	}
}

// What the page of a key shows of a limit that spans regions is what a check would get.
func TestBuckets_OfALimitThatSpansRegionsAreThoseOfACheck(t *testing.T) {
	f, p := inRegions(t, rules.CutOffShare)
	rule := f.Set().Get(1)
	var key limiter.Key
	for _, m := range f.Set().Match(&match.Descriptor{User: "ada"}, 1, f.opt.Now(), nil) {
		key = m.Key
	}
	look := func() limiter.Decision {
		var res limiter.Result
		asks := []limiter.Ask{{Key: key, Limit: rule.Limit, Weight: 1}}
		if err := f.Buckets(t.Context(), rule, limiter.OpPeek, asks, &res); err != nil {
			t.Fatal(err)
		}
		return res.Limits[0]
	}
	if d := look(); d.Limit != 9 || !d.Allowed {
		t.Errorf("while all are heard: %+v", d)
	}
	p.cut = true
	if got := f.admitted(9, "ada"); got != 3 {
		t.Fatalf("%d admitted in a cut, want 3", got)
	}
	if d := look(); d.Limit != 3 || d.Allowed || d.Remaining != 0 {
		t.Errorf("in a cut: %+v, want a third, all of it spent", d)
	}
}

// All regions that are cut off have the limit together, also one that is smaller than their number. What a region may
// not spend can be spent once it is no longer cut off.
func TestCutOff_PartsAddUpToTheLimit(t *testing.T) {
	admitted := 0
	for rank := range int64(11) {
		f, p := inRegions(t, rules.CutOffShare)
		p.cut, p.regions, p.rank = true, 11, rank
		admitted += f.admitted(3, "ada")
		a := f.asks(limiter.OpTake, Question{Weight: 2, Descriptor: match.Descriptor{User: "ada"}})
		if d := a.Limits[0].Decision; d.Allowed || d.RetryAfter != 60_000 {
			t.Errorf("region %d of 11: 2 units of a part of at most 1: %+v", rank, d)
		}
	}
	if admitted != 9 {
		t.Errorf("11 regions admitted %d, want 9", admitted)
	}
}

// A fail mode of the counter store counts before the cut.
func TestCutOff_AFailModeCountsBeforeIt(t *testing.T) {
	f, p := inRegions(t, rules.CutOffAlone)
	p.cut = true
	f.store.fail(&limiter.StoreError{Cause: limiter.CauseTimeout})
	if a := f.take(); !a.Allowed() || a.Degraded != rules.FailOpen {
		t.Errorf("allowed %v, degraded %q", a.Allowed(), a.Degraded)
	}
}

// A reservation settles the bucket that it has charged, also if that spans regions.
func TestReservation_OfALimitThatSpansRegions(t *testing.T) {
	f, _ := inRegions(t, rules.CutOffShare)
	w := &reservation{expires: 1, calls: []reservedCall{{id: "x", asks: []reservedAsk{{Ask: limiter.Ask{
		Key: "{user:42}|1|fw", Limit: f.Set().Get(1).Limit, Weight: 3, Spans: true}}}}}}
	secret := []byte("secret")
	got, err := openReservation(w.seal(secret), [][]byte{secret})
	if err != nil || !got.calls[0].asks[0].Spans {
		t.Errorf("read %+v, %v", got, err)
	}
}

// A limit that is divided admits the part of this region. What it will not admit by itself can be admitted when its
// part has grown.
func TestShares_AreTheLimitOfACheck(t *testing.T) {
	f, p := inRegions(t, rules.CutOffShare)
	r := f.Set().Get(1).Rule
	r.Span, r.CutOff = rules.SpanShares, nil
	set, err := match.Compile([]rules.Rule{r}, 2, match.Options{Regions: 3})
	if err != nil {
		t.Fatal(err)
	}
	f.opt.Sets.Store(set)
	p.share = 3
	if got := f.admitted(5, "ada"); got != 3 || p.asked != 5 {
		t.Errorf("%d admitted, want 3; %d units asked for, want 5", got, p.asked)
	}
	four := Question{Weight: 4, Descriptor: match.Descriptor{User: "bob"}}
	if a := f.asks(limiter.OpTake, four); a.Allowed() || a.Limits[0].Decision.RetryAfter != 60_000 ||
		a.Limits[0].Whole != 9 {
		t.Errorf("4 units of a part of 3: %+v", a.Limits[0])
	}
	four.Weight = 10
	if a := f.asks(limiter.OpTake, four); a.Limits[0].Decision.RetryAfter != limiter.Never {
		t.Errorf("10 units of a limit of 9: %+v", a.Limits[0])
	}
	p.share = 0
	if a := f.asks(limiter.OpTake, Question{Weight: 1, Descriptor: match.Descriptor{User: "eve"}}); a.Allowed() ||
		a.Limits[0].Decision.RetryAfter != 60_000 {
		t.Errorf("a part of nothing: %+v", a.Limits[0])
	}
	p.share = 9
	if got := f.admitted(12, "ada"); got != 6 {
		t.Errorf("with all of the limit %d more were admitted, want 6", got)
	}
}
