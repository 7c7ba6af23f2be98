package decide

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

var errNoTurn = &limiter.StoreError{Cause: limiter.CauseOverload, Err: errors.New("no turn")}

// turns is a store that has no turn for the buckets whose key holds a word of full. It records what it was asked.
type turns struct {
	limiter.Store
	full  []string
	asked []limiter.Request
	bound limiter.Bound
}

func (s *turns) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if b, ok := ctx.(limiter.Bounded); ok {
		s.bound = b.Bound()
	}
	s.asked = append(s.asked, limiter.Request{Op: req.Op, Impatient: req.Impatient})
	for i := range req.Asks {
		for _, word := range s.full {
			if strings.Contains(string(req.Asks[i].Key), word) {
				return errNoTurn
			}
		}
	}
	return s.Store.Do(ctx, req, res)
}

func (s *turns) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

// overloaded returns a fixture whose store has no turn for what full names, and what its observer counts.
func overloaded(t *testing.T, rs []rules.Rule, full ...string) (*fixture, *turns, map[string]int64) {
	t.Helper()
	store, got := &turns{full: full}, map[string]int64{}
	f := newFixture(t, rs, func(o *CheckerOptions) {
		store.Store = o.Store
		o.Store, o.Observe, o.Secrets = store, account{got: got}, oneSecret{}
	})
	return f, store, got
}

func says(overload, mode string, r rules.Rule) rules.Rule {
	if r.Mode = mode; overload != "" {
		r.Overload = &overload
	}
	return r
}

func TestOverload_NoFailModeDecides(t *testing.T) {
	for _, mode := range []string{"open", "closed", "local"} {
		for _, op := range []limiter.Op{limiter.OpTake, limiter.OpPeek} {
			rs := []rules.Rule{perUser("a", mode, 5), perUser("b", "open", 5), says("", "shadow", perUser("c", "open", 5))}
			f, _, got := overloaded(t, rs, "42")
			a := f.asks(op, Question{Weight: 2})
			if a.Verdict != Overloaded || a.Degraded != "" || a.Strictest != -1 || a.Impatient || len(a.Limits) != 3 {
				t.Errorf("%s, %s: got %+v", mode, op, a)
			}
			if ms, ok := a.RetryAfter(); ms != 1000 || !ok {
				t.Errorf("retry after %d, %v", ms, ok)
			}
			for i := range a.Limits {
				la := &a.Limits[i]
				if la.Known || la.Degraded != "" || !la.Overloaded || la.Decision.Allowed != la.Shadow ||
					la.Decision.Remaining != 0 {
					t.Errorf("%s: the limit of %s: %+v", mode, la.Rule, la)
				}
			}
			want := map[string]int64{"overload wait": 1, "decision peek  ": 1}
			if op == limiter.OpTake {
				want = map[string]int64{"overload wait": 1, "decision take overloaded wait": 1, "enforce overloaded wait": 4}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: observed (-want +got):\n%s", mode, op, diff)
			}
		}
	}
}

func TestOverload_OfALimitThatIsApartChangesNothing(t *testing.T) {
	trial := perUser("rate", "open", 5)
	trial.Candidate = &rules.Candidate{Algorithm: "token_bucket", Limit: new(int64(1))}
	rs := []rules.Rule{trial, says("", "shadow", perUser("shadow", "closed", 5))}
	f, _, got := overloaded(t, rs, "|2|", "|1.c|")
	a := f.take()
	if !a.Allowed() || a.Degraded != "" || len(a.Limits) != 3 {
		t.Fatalf("got %+v", a)
	}
	for i, undecided := range []bool{false, true, true} {
		la := &a.Limits[i]
		if la.Overloaded != undecided || la.Known == undecided || la.Degraded != "" || !la.Decision.Allowed {
			t.Errorf("the limit of %s: %+v", la.Rule, la)
		}
	}
	want := map[string]int64{"decision take admitted store": 1, "enforce admitted store": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func TestOverload_DenyWins(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules []string // overload, mode
		want  bool
	}{
		{"the default", []string{" enforce"}, false},
		{"the rule waits", []string{"wait enforce"}, false},
		{"the rule denies", []string{"deny enforce"}, true},
		{"one of several", []string{"wait enforce", "deny enforce"}, true},
		{"a shadow rule does not count", []string{"wait enforce", "deny shadow"}, false},
		{"but alone", []string{"deny shadow"}, true},
	} {
		var rs []rules.Rule
		for i, r := range tt.rules {
			overload, mode, _ := strings.Cut(r, " ")
			rs = append(rs, says(overload, mode, perUser(string(rune('a'+i)), "open", 9)))
		}
		f, store, _ := overloaded(t, rs)
		for _, op := range []limiter.Op{limiter.OpTake, limiter.OpPeek, limiter.OpCharge, limiter.OpRefund, limiter.OpReset} {
			store.asked = nil
			f.asks(op, Question{Weight: 1})
			for _, req := range store.asked {
				if want := tt.want && (op == limiter.OpTake || op == limiter.OpPeek); req.Impatient != want {
					t.Errorf("%s: %s is impatient: %v", tt.name, op, req.Impatient)
				}
			}
		}
		limit := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 9, Window: 1000}
		store.asked = nil
		f.asks(limiter.OpTake, Question{IsDirect: true, Direct: Direct{Key: "k", Limit: limit}, Weight: 1})
		if store.asked[0].Impatient {
			t.Errorf("%s: a direct limit is impatient: %v", tt.name, store.asked[0].Impatient)
		}
	}
	f, _, got := overloaded(t, []rules.Rule{says("deny", "enforce", perUser("a", "open", 9))}, "42")
	if a := f.take(); a.Verdict != Overloaded || !a.Impatient || got["overload deny"] != 1 ||
		got["decision take overloaded deny"] != 1 {
		t.Errorf("got %+v, observed %v", a, got)
	}
}

func TestOverload_ADeferredRequestIsNotReleased(t *testing.T) {
	f, store, _ := overloaded(t, []rules.Rule{says("deny", "enforce", perUser("a", "open", 9))}, "42")
	q := Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{User: "42"}, strict: true}
	var a Answer
	if err := f.Do(t.Context(), &q, &a); !errors.Is(err, errNoTurn) || store.asked[0].Impatient {
		t.Errorf("got %v, asked %+v", err, store.asked)
	}
}

func TestOverload_OtherOperationsFail(t *testing.T) {
	slots := perUser("slots", "local", 5)
	slots.Algorithm, slots.WindowMS = "concurrency", 60_000
	f, store, got := overloaded(t, []rules.Rule{says("deny", "enforce", perUser("rate", "local", 5)),
		says("deny", "enforce", slots)})
	var a Answer
	q := Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{User: "42"}}
	if err := f.Reserve(t.Context(), &q, 60_000, &a); err != nil {
		t.Fatal(err)
	}
	reservation, lease := a.Reservation, a.Lease
	store.full = []string{"42"}
	clear(got)
	failed := int64(0)
	fails := func(what string, err error) {
		t.Helper()
		failed++
		if !errors.Is(err, errNoTurn) || got["overload wait"] != failed {
			t.Errorf("%s: got %v, observed %v", what, err, got)
		}
	}
	for _, op := range []limiter.Op{limiter.OpCharge, limiter.OpRefund, limiter.OpReset, limiter.OpRelease,
		limiter.OpRenew} {
		q := Question{Op: op, Weight: 1, RequestID: "r", Descriptor: match.Descriptor{User: "42"}}
		fails(op.String(), f.Do(t.Context(), &q, &a))
	}
	fails("a lease", f.Lease(t.Context(), limiter.OpRenew, lease, Origin{}, &a))
	fails("settle", f.SettleReservation(t.Context(), &Settlement{Reservation: reservation, Weight: 2}, &a))
	for what := range got {
		if what != "overload wait" {
			t.Errorf("observed %s", what)
		}
	}
}

func TestOverload_EachCheckOfABatchByItself(t *testing.T) {
	f, _, _ := overloaded(t, []rules.Rule{perUser("a", "closed", 1)}, "full")
	var qs []Question
	for _, user := range []string{"42", "full", "42"} {
		qs = append(qs, Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{User: user}})
	}
	as := make([]Answer, len(qs))
	if err := f.DoAll(t.Context(), qs, as, nil); err != nil {
		t.Fatal(err)
	}
	if got := []Verdict{as[0].Verdict, as[1].Verdict, as[2].Verdict}; got[0] != Allowed || got[1] != Overloaded ||
		got[2] != Denied {
		t.Errorf("got %v", got)
	}
}

func TestOverload_OfDescriptors(t *testing.T) {
	rs := []rules.Rule{shop("taken", "taken", 5), shop("tokens", "tokens", 5, charged), shop("gold", "gold", 5, quota),
		shop("silver", "silver", 5, quota, failsTo("closed"))}
	for _, tt := range []struct {
		name  string
		full  []string
		asked []AskedDescriptor
		text  string
		want  map[string]int64
	}{
		{"a take", []string{"taken"}, []AskedDescriptor{asked("taken=a", 2, "")}, "overloaded: over 0",
			map[string]int64{"decision take overloaded wait": 1, "enforce overloaded wait": 2, "overload wait": 1}},
		{"a report, which undoes", []string{"tokens"}, []AskedDescriptor{asked("taken=a", 2, ""), asked("tokens=b", 3, "e")},
			"overloaded: ok 5, over 0",
			map[string]int64{"decision take overloaded wait": 1, "enforce overloaded wait": 5, "overload wait": 1}},
		{"a quota beside one with room", []string{"gold"},
			[]AskedDescriptor{asked("gold=a", 2, ""), asked("silver=a", 3, "")},
			"allowed: full 0, ok 2",
			map[string]int64{"decision take admitted store": 1, "enforce admitted store": 3, "enforce overloaded wait": 2}},
		{"all quotas", []string{"gold", "silver"}, []AskedDescriptor{asked("gold=a", 2, ""), asked("silver=a", 3, "")},
			"overloaded: over 0, over 0",
			map[string]int64{"decision take overloaded wait": 1, "enforce overloaded wait": 5, "overload wait": 1}},
		{"beside a denial", []string{"tokens"}, []AskedDescriptor{asked("taken=a", 6, ""), asked("tokens=b", 3, "e")},
			"denied: over 5, over 0",
			map[string]int64{"decision take denied limit": 1, "enforce denied limit": 6, "enforce overloaded wait": 3}},
		{"what is given back", []string{"taken"}, []AskedDescriptor{asked("taken=a", 2, "n")}, "allowed: ok 0",
			map[string]int64{"decision refund  ": 1, "overload wait": 1}},
	} {
		f, _, got := overloaded(t, rs, tt.full...)
		a := f.call(tt.asked...)
		if a.text() != tt.text || a.Degraded != "" || a.Verdict == Overloaded && a.Strictest != -1 {
			t.Errorf("%s: %s, want %s; %+v", tt.name, a.text(), tt.text, a.Answer)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: observed (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestWithin_HasTheTimesOfTheCaller: of what a caller waits, four fifths are for its turn, and what it said is the end.
func TestWithin_HasTheTimesOfTheCaller(t *testing.T) {
	const ms = time.Millisecond
	plain := context.Background()
	lasting := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(plain, d)
		t.Cleanup(cancel)
		return ctx
	}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		wait time.Duration // until the turn, at most; 4/5 of what the caller waits
		hard time.Duration // 0: none
	}{
		{"nothing said", plain, 80 * ms, 0},
		{"a header", WithPatience(plain, 500*ms), 400 * ms, 500 * ms},
		{"a short header", WithPatience(plain, 10*ms), 8 * ms, 10 * ms},
		{"a gateway's", WithGatewayPatience(plain, 50*ms), 40 * ms, 0},
		{"a gateway's client cuts nothing short", WithGatewayPatience(plain, 10*ms), 8 * ms, 0},
		{"a gateway's client outlasts nothing", WithGatewayPatience(plain, time.Second), 80 * ms, 0},
		{"a deadline", lasting(500 * ms), 400 * ms, 500 * ms},
		{"a short deadline", lasting(20 * ms), 16 * ms, 20 * ms},
		{"a long deadline", lasting(time.Minute), 800 * ms, time.Minute},
		{"a header and an earlier deadline", WithPatience(lasting(200*ms), 500*ms), 160 * ms, 200 * ms},
		{"a header and a later deadline", WithPatience(lasting(time.Minute), 500*ms), 400 * ms, 500 * ms},
	} {
		b := new(Checker).within(tt.ctx, 25*ms)
		got := b.Bound()
		b.release()
		until := got.Start.Add(DefaultPatience)
		if said, ok := tt.ctx.Value(patienceKey{}).(callerWait); ok {
			until = said.until
		}
		if at, ok := tt.ctx.Deadline(); ok && (at.Before(until) || tt.ctx.Value(patienceKey{}) == nil) {
			until = at
		}
		turn := min(max(until.Sub(got.Start), 0), MaxPatience) * 4 / 5
		if d := got.Turn.Sub(got.Start); d != turn || d > tt.wait {
			t.Errorf("%s: the turn is after %s, want %s", tt.name, d, turn)
		}
		deadline := got.Start.Add(25 * ms)
		if !got.Hard.IsZero() && got.Hard.Before(deadline) {
			deadline = got.Hard
		}
		if !got.Deadline.Equal(deadline) {
			t.Errorf("%s: the deadline is after %s", tt.name, got.Deadline.Sub(got.Start))
		}
		if end := got.Hard.Sub(got.Start); got.Hard.IsZero() != (tt.hard == 0) || tt.hard > 0 && end > tt.hard {
			t.Errorf("%s: the end is after %s, want %s", tt.name, end, tt.hard)
		}
	}
	gone, cancel := context.WithDeadline(plain, time.Now().Add(-time.Second))
	defer cancel()
	if b := new(Checker).within(gone, 25*ms).Bound(); b.Turn.Before(b.Start) {
		t.Errorf("the turn is before the start: %+v", b)
	}
}

// TestOverload_EveryOperationHasATurn: what always waits is told until when.
func TestOverload_EveryOperationHasATurn(t *testing.T) {
	slots := perUser("slots", "local", 5)
	slots.Algorithm, slots.WindowMS = "concurrency", 60_000
	f, store, _ := overloaded(t, []rules.Rule{says("deny", "enforce", perUser("rate", "local", 5)),
		says("deny", "enforce", slots)})
	var a Answer
	q := Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{User: "42"}}
	if err := f.Reserve(t.Context(), &q, 60_000, &a); err != nil {
		t.Fatal(err)
	}
	reservation, lease := a.Reservation, a.Lease
	for what, do := range map[string]func(context.Context) error{
		"charge": func(ctx context.Context) error {
			return f.Do(ctx, &Question{Op: limiter.OpCharge, Weight: 1, Descriptor: q.Descriptor}, &a)
		},
		"renew": func(ctx context.Context) error { return f.Lease(ctx, limiter.OpRenew, lease, Origin{}, &a) },
		"settle": func(ctx context.Context) error {
			return f.SettleReservation(ctx, &Settlement{Reservation: reservation, Weight: 2}, &a)
		},
	} {
		store.bound = limiter.Bound{}
		if err := do(WithPatience(t.Context(), time.Second)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if b := store.bound; b.Hard.IsZero() || b.Turn.Sub(b.Start) < 100*time.Millisecond {
			t.Errorf("%s: %+v", what, b)
		}
	}
}
