package region

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
	"sluice/rules"
	"sluice/rules/match"
)

// three is one of three regions. Keys that begin with far have their home in another one.
type three struct{ cut bool }

func (r *three) CutOff() bool { return r.cut }

func (r *three) Part(_ limiter.Key, l limiter.Limit) (limiter.Limit, bool) { return l.Part(0, 3), true }

func (r *three) Share(_ int64, _ limiter.Key, l limiter.Limit, _ int64) (limiter.Limit, int64) {
	l.Count = 4
	return l, 99
}

func (r *three) HighWater(int64, limiter.Limit) *limiter.HighWater {
	return &limiter.HighWater{Name: "mark"}
}
func (r *three) ShareInterval() time.Duration { return time.Minute }
func (r *three) Timeout() time.Duration       { return 2 * time.Second }
func (r *three) Regions() int                 { return 3 }

func (r *three) Home(key limiter.Key) string {
	if strings.HasPrefix(string(key), "far") {
		return "us"
	}
	return ""
}

// behind is the store behind, which notes what it was asked and does not reach other regions.
type behind struct {
	limiter.Store
	asked []limiter.Request
}

func (b *behind) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	b.asked = append(b.asked, *req)
	for i := range req.Asks {
		if strings.HasPrefix(string(req.Asks[i].Key), "far") {
			return &limiter.StoreError{Cause: limiter.CauseHome, Err: errors.New("no answer")}
		}
	}
	return b.Store.Do(ctx, req, res)
}

func (b *behind) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = b.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

// newStore returns a store with rules that span regions: 1 is global, 2 local_then_global, and soft by half.
func newStore(t *testing.T, cutOff string) (*Store, *behind, *three) {
	t.Helper()
	rule := func(id int64, span string) rules.Rule {
		return rules.Rule{ID: id, Version: 1, Name: span, Scope: "user", Limit: 9, WindowMS: 60_000,
			Algorithm: "fixed_window", IsActive: true, Mode: "enforce", FailMode: rules.FailOpen, Span: span}
	}
	global, shares := rule(1, rules.SpanGlobal), rule(2, rules.SpanShares)
	global.Throttle, shares.Throttle, shares.SoftPercent, global.CutOff = "hard", "soft", new(int64(50)), &cutOff
	set, err := match.Compile([]rules.Rule{global, shares}, 1, match.Options{Regions: 3})
	if err != nil {
		t.Fatal(err)
	}
	memory := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = memory.Close() })
	b, r, sets := &behind{Store: memory}, &three{}, &match.Current{}
	sets.Store(set)
	return NewStore(StoreOptions{Self: "eu", Store: b, Sets: sets, Regions: r, Timeout: time.Second}), b, r
}

var nine = limiter.Limit{Algorithm: limiter.FixedWindow, Count: 9, Window: 60_000}

// do makes one take in two ways, which must not differ.
func do(t *testing.T, s *Store, b *behind, op limiter.Op, asks ...limiter.Ask) (limiter.Call, limiter.Request) {
	t.Helper()
	b.asked = nil
	req := limiter.Request{Op: op, Partly: len(asks), Asks: asks}
	calls := []limiter.Call{{Request: req}}
	s.DoAll(t.Context(), calls)
	var res limiter.Result
	err := s.Do(t.Context(), &req, &res)
	if (err == nil) != (calls[0].Err == nil) || len(res.Parts) != len(calls[0].Result.Parts) ||
		(res.Rest == nil) != (calls[0].Result.Rest == nil) {
		t.Errorf("Do: %+v, %v; DoAll: %+v", res, err, calls[0])
	}
	return calls[0], b.asked[0]
}

// A limit that spans regions is enforced whole while all are heard of, and then by what cut_off says.
func TestPart_OfAGlobalLimitIsByCutOff(t *testing.T) {
	for cutOff, want := range map[string]int64{rules.CutOffShare: 3, rules.CutOffAlone: 9, rules.CutOffClosed: 0} {
		s, b, r := newStore(t, cutOff)
		ask := limiter.Ask{Key: "k", Limit: nine, Weight: 1, SpanOf: 1, Spans: true, Guard: limiter.GuardOpen}
		call, asked := do(t, s, b, limiter.OpPeek, ask)
		if call.Result.Part(0) != nil || asked.Asks[0] != ask {
			t.Errorf("%s: with all regions: %+v, asked %+v", cutOff, call.Result, asked.Asks[0])
		}
		r.cut = true
		call, asked = do(t, s, b, limiter.OpPeek, ask)
		p := call.Result.Part(0)
		if asked.Asks[0].Limit.Count != want || p == nil || !p.CutOff || p.Shut != (want == 0) ||
			call.Request.Asks[0] != ask {
			t.Errorf("%s: asked %+v, part %+v", cutOff, asked.Asks[0], p)
		}
		if guard := asked.Asks[0].Guard; (guard == limiter.GuardShare) != (want == 3) || guard == limiter.GuardOpen {
			t.Errorf("%s: guard %v", cutOff, guard)
		}
	}
}

// What a limit denies because its region is cut off, and not because it is used up, bans no key.
func TestPart_ThatIsShutCountsTowardsNoBan(t *testing.T) {
	s, b, r := newStore(t, rules.CutOffClosed)
	asks := []limiter.Ask{{Key: "{k}|1|fw", Limit: nine, Weight: 1, SpanOf: 1, Spans: true},
		{Key: limiter.BanKey("{k}|1|fw"), Limit: limiter.BanLimit(3, 60_000, 60_000, 1, 60_000)}}
	r.cut = true
	for range 5 {
		if call, _ := do(t, s, b, limiter.OpTake, asks...); call.Err != nil || call.Result.Allowed {
			t.Fatalf("in the cut: %+v", call)
		}
	}
	r.cut = false
	call, _ := do(t, s, b, limiter.OpTake, asks...)
	if call.Err != nil || !call.Result.Allowed || call.Result.Limits[1].Remaining != 3 {
		t.Errorf("after the cut: %v, %+v", call.Err, call.Result)
	}
}

// The spare units of a soft limit are those of the part. What the part will never admit can be admitted later.
func TestPart_OfADividedLimitHasItsOwnSpareUnits(t *testing.T) {
	s, b, _ := newStore(t, rules.CutOffShare)
	ask := limiter.Ask{Key: "k", Limit: nine.Widen(4), Spare: 4, Weight: 8, SpanOf: 2}
	call, asked := do(t, s, b, limiter.OpTake, ask)
	p, got := call.Result.Part(0), &asked.Asks[0]
	if got.Limit.Count != 6 || got.Spare != 2 || got.NotAfter != 99 || got.HighWater == nil || got.SpanOf != 0 ||
		p.Limit.Count != 4 || p.Whole != 9 {
		t.Errorf("asked %+v, part %+v", got, p)
	}
	if d := call.Result.Limits[0]; d.Allowed || d.RetryAfter != time.Minute.Milliseconds() {
		t.Errorf("8 units of a part of 6, of 9 in all: %+v", d)
	}
	if _, asked = do(t, s, b, limiter.OpRefund, ask); asked.Asks[0].NotAfter != 0 {
		t.Errorf("a refund is bound to %d", asked.Asks[0].NotAfter)
	}
}

// Without the home of one limit the others are decided, unless another one had no turn.
func TestRest_IsDecidedWithoutTheHome(t *testing.T) {
	s, b, _ := newStore(t, rules.CutOffShare)
	far, near := limiter.Ask{Key: "far", Limit: nine, Weight: 1}, limiter.Ask{Key: "near", Limit: nine, Weight: 1}
	call, _ := do(t, s, b, limiter.OpTake, far, near)
	rest := call.Result.Rest
	if limiter.CauseOf(call.Err) != limiter.CauseHome || rest == nil || rest.Request.ID == "" ||
		rest.Request.Op != limiter.OpTake || !rest.Result.Allowed || rest.Result.Limits[1].Remaining != 8 {
		t.Fatalf("%v, %+v", call.Err, rest)
	}
	if p := call.Result.Part(0); p == nil || !p.Elsewhere || p.Holders != 3 || call.Result.Part(1) != nil {
		t.Errorf("parts %+v", call.Result.Parts)
	}
	far.Closed = true
	if call, _ = do(t, s, b, limiter.OpTake, far, near); call.Result.Rest.Request.Op != limiter.OpPeek {
		t.Error("units were taken of a request that is denied")
	}
	if call, _ = do(t, s, b, limiter.OpRefund, far, near); call.Result.Rest != nil {
		t.Errorf("a refund went on: %+v", call.Result.Rest)
	}
	if got := s.TimeFor([]limiter.Ask{near, far}); got != 2*time.Second || s.TimeFor([]limiter.Ask{near}) != 0 {
		t.Errorf("time for a request that goes to another region: %v", got)
	}
}

func TestStore_Conforms(t *testing.T) {
	h := storetest.Harness{New: func(t *testing.T, clock func() int64) limiter.Store {
		s := memstore.New(memstore.Options{Clock: clock})
		t.Cleanup(func() { _ = s.Close() })
		return NewStore(StoreOptions{Self: "eu", Store: s, Sets: &match.Current{}, Regions: &three{}, Timeout: time.Second})
	}}
	for name, part := range map[string]func(*testing.T, storetest.Harness){
		"Vectors": storetest.Vectors, "Looks": storetest.Looks, "Records": storetest.Records, "Errors": storetest.Errors,
	} {
		t.Run(name, func(t *testing.T) { part(t, h) })
	}
}
