package decide

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// account keeps the sums of what an observer is told.
type account struct {
	NopObserver
	got map[string]int64
}

func (o account) ObserveDecision(d *Decision) {
	o.got[fmt.Sprint("decision ", d.Answer.Op, " ", d.Outcome, " ", d.By)]++
}

func (o account) ObserveUnits(u Units) {
	o.got[fmt.Sprint(u.Mode, " ", u.Outcome, " ", u.By)] += u.Count
}

func (o account) ObserveDoubt(d Doubt) { o.got[d.Mode+" doubt"] += d.Count }

func (o account) ObserveDegraded(d Degraded) { o.got["degraded "+d.FailMode+" "+string(d.Cause)]++ }

func (o account) ObserveOverload(impatient bool) { o.got["overload "+overloadOf(impatient)]++ }

func TestDescriptors_AccountAddsUp(t *testing.T) {
	lost := &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: context.DeadlineExceeded}
	rs := []rules.Rule{
		shop("open", "open", 5), shop("closed", "closed", 5, failsTo("closed")), shop("local", "local", 5, failsTo("local")),
		shop("tokens", "tokens", 5, charged), shop("trial", "trial", 5, shadowed), shop("gold", "gold", 5, quota),
		shop("charged", "charged", 5, charged, failsTo("closed")), shop("locally", "locally", 5, charged, failsTo("local")),
		shop("tight", "tight", 1, quota, failsTo("closed")),
	}
	tests := []struct {
		name  string
		err   *limiter.StoreError
		asked []AskedDescriptor
		text  string
		want  map[string]int64
	}{
		{"the store admits", nil, []AskedDescriptor{asked("open=a", 2, ""), asked("open=b", 3, "")}, "allowed: ok 3, ok 2",
			map[string]int64{"decision take admitted store": 1, "enforce admitted store": 5}},
		{"the limit denies all of them", nil, []AskedDescriptor{asked("open=a", 2, ""), asked("open=b", 6, "")},
			"denied: ok 5, over 5", map[string]int64{"decision take denied limit": 1, "enforce denied limit": 8}},
		{"a report is admitted", nil, []AskedDescriptor{asked("tokens=a", 7, "e")}, "denied: over 0",
			map[string]int64{"decision take denied limit": 1, "enforce admitted store": 7}},
		{"a report undoes", nil, []AskedDescriptor{asked("tokens=a", 7, "e"), asked("open=b", 2, "")},
			"denied: over 0, ok 5", map[string]int64{"decision take denied limit": 1, "enforce admitted store": 7,
				"enforce denied limit": 2}},
		{"what is given back", nil, []AskedDescriptor{asked("open=a", 7, "n")}, "allowed: ok 5",
			map[string]int64{"decision refund  ": 1}},
		{"a shadow rule counts apart", nil, []AskedDescriptor{asked("trial=a", 7, "")}, "allowed: ok 0",
			map[string]int64{"decision take  ": 1, "shadow denied limit": 7}},
		{"a quota without room", nil, []AskedDescriptor{asked("gold=a", 7, ""), asked("gold=b", 2, "")},
			"allowed: full 5, ok 3",
			map[string]int64{"decision take admitted store": 1, "enforce denied limit": 7, "enforce admitted store": 2}},
		{"quotas undo", nil, []AskedDescriptor{asked("gold=a", 7, ""), asked("open=b", 2, "")}, "denied: over 5, ok 5",
			map[string]int64{"decision take denied limit": 1, "enforce denied limit": 9}},
		{"quotas beside a denial", nil, []AskedDescriptor{asked("gold=a", 2, ""), asked("open=b", 7, "")},
			"denied: ok 5, over 5", map[string]int64{"decision take denied limit": 1, "enforce denied limit": 9}},
		{"a look", nil, []AskedDescriptor{asked("open=a", 0, "")}, "allowed: ok 5",
			map[string]int64{"decision take admitted store": 1}},
		{"nothing applies", nil, []AskedDescriptor{asked("nothing=a", 1, "")}, "allowed: none",
			map[string]int64{"decision take  ": 1}},

		{"open admits", lost, []AskedDescriptor{asked("open=a", 2, "")}, "allowed: ok 0",
			map[string]int64{"decision take admitted open": 1, "enforce admitted open": 2, "enforce doubt": 2,
				"degraded open timeout": 1}},
		{"closed denies", errAway, []AskedDescriptor{asked("open=a", 2, ""), asked("closed=a", 1, "")},
			"unavailable: ok 0, over 0", map[string]int64{"decision take denied closed": 1, "enforce denied closed": 3,
				"degraded open connection": 1, "degraded closed connection": 1}},
		{"local admits", errAway, []AskedDescriptor{asked("local=a", 2, ""), asked("local=a", 2, "")}, "allowed: ok 3, ok 1",
			map[string]int64{"decision take admitted local": 1, "enforce admitted local": 4, "degraded local connection": 1}},
		{"local denies", errAway, []AskedDescriptor{asked("local=b", 6, "")}, "denied: over 5",
			map[string]int64{"decision take denied local": 1, "enforce denied local": 6, "degraded local connection": 1}},
		{"a report, open", lost, []AskedDescriptor{asked("tokens=a", 7, "e")}, "allowed: ok 0",
			map[string]int64{"decision take admitted open": 1, "enforce admitted open": 7, "enforce doubt": 7,
				"degraded open timeout": 1}},
		{"a report, closed", errAway, []AskedDescriptor{asked("charged=a", 7, "e")}, "unavailable: over 0",
			map[string]int64{"decision take denied closed": 1, "enforce denied closed": 7, "degraded closed connection": 1}},
		{"a report, local", errAway, []AskedDescriptor{asked("locally=a", 7, "e")}, "denied: over 0",
			map[string]int64{"decision take denied local": 1, "enforce admitted local": 7, "degraded local connection": 1}},
		{"what is given back, away", errAway, []AskedDescriptor{asked("open=a", 7, "n")}, "allowed: ok 0",
			map[string]int64{"decision refund  ": 1, "degraded  connection": 1}},
		{"a shadow rule, away", errAway, []AskedDescriptor{asked("trial=a", 7, "")}, "allowed: ok 0",
			map[string]int64{"decision take  ": 1, "degraded  connection": 1}},
		{"a closed quota beside an open one", errAway, []AskedDescriptor{asked("tight=a", 1, ""), asked("gold=a", 2, "")},
			"allowed: full 0, ok 0", map[string]int64{"decision take admitted open": 1, "enforce denied closed": 1,
				"enforce admitted open": 2, "degraded open connection": 1, "degraded closed connection": 1}},
		{"a closed quota", errAway, []AskedDescriptor{asked("tight=a", 1, ""), asked("open=a", 2, "")},
			"unavailable: over 0, ok 0", map[string]int64{"decision take denied closed": 1, "enforce denied closed": 3,
				"degraded open connection": 1, "degraded closed connection": 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := account{got: map[string]int64{}}
			f := newFixture(t, append([]rules.Rule(nil), rs...), func(o *CheckerOptions) { o.Observe = got })
			f.store.fail(tt.err)
			f.expect(t, tt.text, tt.asked...)
			if diff := cmp.Diff(tt.want, got.got); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
		})
	}
}

// While the store is unavailable, a report spends this node's share, and is owed to the store.
func TestDescriptors_AReportIsOwedToTheStore(t *testing.T) {
	nodes := &nodes{n: 2}
	f, ledger := withLedger(t, nodes, shop("tokens", "tokens", 1000, charged, failsTo("local")))
	f.expect(t, "allowed: ok 900", asked("tokens=a", 100, "e"))
	f.store.fail(errAway)
	f.expect(t, "allowed: ok 100", asked("tokens=a", 300, "e")) // of the share of 500, 100 of which are spent
	f.expect(t, "denied: over 0", asked("tokens=a", 300, "e"))
	f.store.fail(nil)
	for again := reconcileOnce(t, ledger, f.opt.Store, nil); len(again) > 0; {
		again = reconcileOnce(t, ledger, f.opt.Store, again)
	}
	f.levels(t, "300", "tokens=a")
}

// While the store is unavailable, a negative addend releases a lease of this node. Otherwise the share would be used up
// until the leases end.
func TestDescriptors_ReleasesInAnOutageAreLocal(t *testing.T) {
	f, _ := withLedger(t, &nodes{n: 2}, shop("running", "running", 4, leased(60_000), failsTo("local")))
	take, release := asked("running=a", 1, ""), asked("running=a", 1, "n")
	f.expect(t, "allowed: ok 3", take)
	f.store.fail(errAway)
	for range 10 { // within the share of 2, 1 of which was taken before
		f.expect(t, "allowed: ok 0", take)
		f.expect(t, "denied: over 0", take)
		f.expect(t, "allowed: ok 1", release)
	}
	f.expect(t, "allowed: ok 2", release)
	f.expect(t, "allowed: ok 1", take)
	f.store.fail(nil)
	f.expect(t, "allowed: ok 2", take) // beside the one from before the outage
}

// The same for a request by facts.
func TestChecker_ReleasesInAnOutageAreLocal(t *testing.T) {
	f, _ := withLedger(t, &nodes{n: 1}, rules.Rule{Name: "running", Scope: "user", Limit: 1, WindowMS: 60_000,
		Algorithm: "concurrency", IsActive: true, Throttle: "hard", Mode: "enforce", FailMode: "local"})
	f.store.fail(errAway)
	for range 3 {
		var a Answer
		q := Question{Op: limiter.OpTake, Descriptor: match.Descriptor{User: "a"}, Weight: 1}
		if err := f.Do(t.Context(), &q, &a); err != nil || !a.Allowed() {
			t.Fatalf("a take: %v, %+v", err, a)
		}
		q.Op = limiter.OpRelease
		if err := f.Do(t.Context(), &q, &a); err == nil {
			t.Fatal("a release without the store is no error")
		}
	}
}

func TestDescriptors_WithoutASetIsErrNoSet(t *testing.T) {
	f := newFixture(t, nil, func(o *CheckerOptions) { o.Sets = new(match.Current) })
	var a DescriptorAnswer
	q := DescriptorQuestion{Domain: "shop", Descriptors: []AskedDescriptor{asked("user=a", 1, "")}}
	if err := f.DoDescriptors(t.Context(), &q, &a); err != ErrNoSet { //nolint:errorlint // it is not wrapped
		t.Errorf("got %v", err)
	}
}

// errOf fails the operations that are named.
type errOf struct {
	limiter.Store
	ops map[limiter.Op]error
}

func (s errOf) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if err := s.ops[req.Op]; err != nil {
		return err
	}
	return s.Store.Do(ctx, req, res)
}

func (s errOf) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

// leaves is a store whose caller leaves when a report is charged.
type leaves struct {
	limiter.Store
	leave context.CancelFunc
}

func (s leaves) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if ctx.Err() != nil {
		return errAway
	}
	if req.Op == limiter.OpCharge {
		defer s.leave()
	}
	return s.Store.Do(ctx, req, res)
}

// The caller of a denied call may leave before its takes are undone. They are undone all the same.
func TestDescriptors_TakesAreUndoneAfterTheCallerLeft(t *testing.T) {
	f := newFixture(t, []rules.Rule{shop("calls", "calls", 5), shop("tokens", "tokens", 1, charged)},
		func(*CheckerOptions) {})
	store := f.store.Store
	ctx, leave := context.WithCancel(t.Context())
	f.store.Store = leaves{store, leave}
	q := &DescriptorQuestion{Domain: "shop",
		Descriptors: []AskedDescriptor{asked("calls=a", 2, ""), asked("tokens=a", 3, "e")}}
	var a DescriptorAnswer
	if err := f.DoDescriptors(ctx, q, &a); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == nil {
		t.Fatal("the caller did not leave")
	}
	f.store.Store = store
	f.levels(t, "5 0", "calls=a", "tokens=a")
}

// If the store fails after the takes, these cannot be undone: the call is denied, and the units are
// in doubt.
func TestDescriptors_AFailedUndoIsADoubt(t *testing.T) {
	got := account{got: map[string]int64{}}
	f := newFixture(t, []rules.Rule{shop("calls", "calls", 5), shop("gold", "gold", 0, quota)}, func(o *CheckerOptions) {
		o.Observe = got
	})
	f.store.Store = errOf{f.store.Store, map[limiter.Op]error{limiter.OpRefund: errAway}}
	f.expect(t, "denied: ok 3, over 0", asked("calls=a", 2, ""), asked("gold=a", 1, ""))
	want := map[string]int64{"decision take denied limit": 1, "enforce denied limit": 3, "enforce doubt": 2,
		"degraded  connection": 1}
	if diff := cmp.Diff(want, got.got); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
}
