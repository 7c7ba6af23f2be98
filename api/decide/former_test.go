package decide

import (
	"context"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

// noting is a store that notes the former limit of each ask.
type noting struct {
	limiter.Store
	seen []*limiter.Limit
}

func (s *noting) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	for i := range req.Asks {
		s.seen = append(s.seen, req.Asks[i].Former)
	}
	return s.Store.Do(ctx, req, res)
}

func (s *noting) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

// edited is a rule whose algorithm was another one until the epoch.
func edited(r rules.Rule, to string) rules.Rule {
	is := r
	is.Algorithm = to
	is.Former = rules.FormerAfter(&r, &is, time.UnixMilli(epoch))
	return is
}

// puts puts other rules in force.
func (f *fixture) puts(sets *match.Current, pools []rules.Pool, rs ...rules.Rule) {
	f.t.Helper()
	for i := range rs {
		rs[i].ID, rs[i].Version = int64(i+1), 2
	}
	set, err := match.CompileSource(rules.Source{Rules: rs, Pools: pools, Version: 2}, match.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	sets.Store(set)
}

// formerFixture is a fixture whose rules a test can replace, and its store.
func formerFixture(t *testing.T, edit ...func(*CheckerOptions)) (*fixture, *match.Current, *noting) {
	t.Helper()
	var sets *match.Current
	store := &noting{}
	f := newFixture(t, nil, func(o *CheckerOptions) {
		sets, store.Store = o.Sets, o.Store
		o.Store = store
		for _, e := range edit {
			e(o)
		}
	})
	return f, sets, store
}

// ledgerFixture is formerFixture with a ledger of one of two nodes.
func ledgerFixture(t *testing.T) (f *fixture, sets *match.Current, ledger *Ledger) {
	t.Helper()
	f, sets, _ = formerFixture(t, func(o *CheckerOptions) {
		var err error
		ledger, err = NewLedger(LedgerOptions{Local: o.Local, Nodes: func() int { return 2 }, Now: o.Now})
		if err != nil {
			t.Fatal(err)
		}
		o.Ledger = ledger
	})
	return f, sets, ledger
}

// Nodes send the former limit with every operation on the rule's own bucket for one of its windows, and then no more.
func TestFormer_IsSentForOneWindow(t *testing.T) {
	f, sets, store := formerFixture(t)
	enforced, shadow := edited(perUser("a", "open", 5), "token_bucket"), edited(perUser("b", "open", 7), "gcra")
	shadow.Mode = rules.ModeShadow
	trial := edited(perUser("c", "open", 9), "gcra")
	count := int64(3)
	trial.Candidate = &rules.Candidate{Algorithm: "sliding_window_counter", Limit: &count}
	f.puts(sets, nil, enforced, shadow, trial)
	for _, op := range []limiter.Op{limiter.OpTake, limiter.OpPeek, limiter.OpCharge, limiter.OpRefund, limiter.OpReset} {
		store.seen = nil
		f.asks(op, Question{Weight: 1})
		if got := counts(store.seen); got != [4]int64{5, 9, 7, 0} {
			t.Errorf("%s: sent %v, want those of both enforced rules, then that of the shadow rule", op, got)
		}
	}
	f.now.Add(1000)
	store.seen = nil
	f.take()
	if got := counts(store.seen); got != [4]int64{} || len(store.seen) != 4 {
		t.Errorf("after the window: sent %v", got)
	}
}

// counts are those of up to four limits, 0 for nil.
func counts(limits []*limiter.Limit) (out [4]int64) {
	for i, l := range limits {
		if l != nil {
			out[i] = l.Count
		}
	}
	return out
}

func TestFormer_IsRaisedAsTheLimitIs(t *testing.T) {
	percent := int64(100)
	shop := rules.NewPool()
	shop.Name, shop.Limit, shop.WindowMS = "shop", 100, 1000
	soft := edited(perUser("soft", "open", 5), "token_bucket")
	soft.Throttle, soft.SoftPercent = rules.ThrottleSoft, &percent
	elastic := edited(perUser("elastic", "open", 5), "token_bucket")
	elastic.Throttle, elastic.ElasticPercent, elastic.Pool = rules.ThrottleElastic, &percent, &shop.Name
	for _, r := range []rules.Rule{soft, elastic} {
		f, sets, store := formerFixture(t)
		f.puts(sets, []rules.Pool{shop}, r)
		f.take()
		if got := counts(store.seen); got[0] != 10 || got[1] != 0 {
			t.Errorf("%s: sent %v, want 10 and nothing for the pool", r.Name, got)
		}
	}
}

func TestFormer_IsSentForDescriptors(t *testing.T) {
	r := perUser("a", "open", 5)
	r.Scope, r.Descriptor = "", &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "user"}}}
	f, sets, store := formerFixture(t)
	f.puts(sets, nil, edited(r, "token_bucket"))
	ask := func(limit *SentLimit) []*limiter.Limit {
		t.Helper()
		store.seen = nil
		var a DescriptorAnswer
		q := DescriptorQuestion{Domain: "shop", Descriptors: []AskedDescriptor{
			{Entries: []entries.Entry{{Key: "user", Value: "u"}}, Addend: 1, Limit: limit}}}
		if err := f.DoDescriptors(t.Context(), &q, &a); err != nil {
			t.Fatal(err)
		}
		return store.seen
	}
	if got := counts(ask(nil)); got != [4]int64{5} {
		t.Errorf("sent %v", got)
	}
	if got := ask(&SentLimit{Count: 8, Window: 2000}); got[0] == nil || got[0].Count != 8 || got[0].Window != 2000 ||
		got[0].Algorithm != limiter.FixedWindow {
		t.Errorf("with a limit of its own: sent %v", got)
	}
}

// An outage after an edit goes on with what this node has seen spent before it, by its share.
func TestFormer_CountsInAnOutage(t *testing.T) {
	f, sets, ledger := ledgerFixture(t)
	was := perUser("l", "local", 10)
	was.WindowMS = 600_000
	f.puts(sets, nil, was)
	if got := f.admitted(4, "early") + f.admitted(4, anyone); got != 8 {
		t.Fatalf("%d admitted", got)
	}
	f.puts(sets, nil, edited(was, "token_bucket"))
	if got := f.admitted(1, "early"); got != 1 { // mirrored after the edit
		t.Fatal("denied")
	}
	f.store.fail(errAway)
	for _, user := range []string{"early", anyone} {
		want := 1 // of 5
		if user == "early" {
			want = 0
		}
		if got := f.admitted(10, user); got != want {
			t.Errorf("%s: %d admitted in the outage, want %d", user, got, want)
		}
	}
	closes(t, ledger)
}

// The share of a former bucket drains as slowly as the node's share of its limit: of the whole limit, everything would
// have drained in these five minutes.
func TestFormer_DrainsByShareInAnOutage(t *testing.T) {
	f, sets, ledger := ledgerFixture(t)
	was := perUser("l", "local", 10)
	was.WindowMS, was.Algorithm = 600_000, "token_bucket"
	f.puts(sets, nil, was)
	if got := f.admitted(4, "early") + f.admitted(4, anyone); got != 8 {
		t.Fatalf("%d admitted", got)
	}
	f.puts(sets, nil, edited(was, "fixed_window"))
	f.now.Add(300_000)
	if got := f.admitted(1, "early"); got != 1 { // mirrored after the edit
		t.Fatal("denied")
	}
	f.store.fail(errAway)
	for user, want := range map[string]int{"early": 2, anyone: 3} { // of 5, of which 2 still count
		if got := f.admitted(10, user); got != want {
			t.Errorf("%s: %d admitted in the outage, want %d", user, got, want)
		}
	}
	closes(t, ledger)
}

// A look at a bucket, as the console does, sees what was spent before the edit, and a reset ends it in the node's own
// store too.
func TestFormer_CountsForBuckets(t *testing.T) {
	f, sets, _ := formerFixture(t)
	f.puts(sets, nil, perUser("a", "open", 5))
	f.admitted(3, anyone)
	f.puts(sets, nil, edited(perUser("a", "open", 5), "token_bucket"))
	set := sets.Load()
	b, err := set.FindBucket(set.Get(1), anyone, f.opt.Now())
	if err != nil {
		t.Fatal(err)
	}
	asks := []limiter.Ask{{Key: b.Key, Limit: b.Limit, Weight: 1, Former: &b.Former.Limit}}
	left := func(op limiter.Op) int64 {
		t.Helper()
		var res limiter.Result
		if err := f.Buckets(t.Context(), b.Rule, op, asks, &res); err != nil {
			t.Fatal(err)
		}
		return res.Limits[0].Remaining
	}
	if got := left(limiter.OpPeek); got != 2 {
		t.Errorf("%d remain, want 2", got)
	}
	left(limiter.OpReset)
	if got := f.left(); got != 5 {
		t.Errorf("%d remain after the reset, want 5", got)
	}
}
