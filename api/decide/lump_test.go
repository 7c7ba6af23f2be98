package decide

import (
	"context"
	"errors"
	"testing"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
)

// lumpRule is a rule with buckets of users, of 600 units per minute.
func lumpRule(edit func(*rules.Rule)) rules.Rule {
	r := rules.Rule{Name: "r", Limit: 600, WindowMS: 60_000, Algorithm: "fixed_window", IsActive: true,
		FailMode:   rules.FailOpen,
		Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "user"}}}}
	if edit != nil {
		edit(&r)
	}
	r.Normalize()
	return r
}

func (f *fixture) lumpRule() LumpRule {
	f.t.Helper()
	r, err := f.LumpRule("shop", map[string]string{"user": "42"})
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) lump(want, least, free int64) Lump {
	f.t.Helper()
	r := f.lumpRule()
	l, _, err := f.TakeLump(f.t.Context(), &r, &LumpWant{Units: want, Least: least, Free: free, Keep: 120_000})
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

func TestLump_WhatIsAskedForThenAllThatIsLeft(t *testing.T) {
	f := newFixture(t, []rules.Rule{lumpRule(nil)}, func(*CheckerOptions) {})
	f.now.Add(10_000)
	if l := f.lump(400, 1, 0); l.Units != 400 || l.Life != 50_000 {
		t.Errorf("the first: %+v", l)
	}
	second := f.lump(400, 1, 0)
	if second.Units != 200 {
		t.Errorf("the second: %+v", second)
	}
	if l := f.lump(400, 1, 0); l.Units != 0 || l.RetryAfter != 50_000 {
		t.Errorf("the third: %+v", l)
	}
	for range 2 { // once
		if err := f.SettleLump(t.Context(), &second, 150); err != nil {
			t.Fatal(err)
		}
	}
	if l := f.lump(400, 60, 0); l.Units != 0 {
		t.Errorf("50 were given back, at least 60 are wanted: %+v", l)
	}
	if l := f.lump(400, 50, 0); l.Units != 50 {
		t.Errorf("50 were given back: %+v", l)
	}
}

func TestLump_LeavesFreeWhatDrainsMeanwhile(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "leaky_bucket", "gcra"} {
		f := newFixture(t, []rules.Rule{lumpRule(func(r *rules.Rule) { r.Algorithm = algorithm })}, func(*CheckerOptions) {})
		l := f.lump(1000, 1, 40)
		if l.Units != 560 || l.Life != 0 {
			t.Errorf("%s: %+v", algorithm, l)
		}
		if f.now.Add(1000); f.lump(1000, 11, 40).Units != 0 || f.lump(1000, 10, 40).Units != 10 {
			t.Errorf("%s: not the 10 units that drained", algorithm)
		}
		if err := f.SettleLump(t.Context(), &l, 0); err != nil {
			t.Fatal(err)
		}
		want := int64(550) // what still counts of the first lump
		if algorithm == "gcra" {
			want = 0
		}
		if got := f.lump(1000, 1, 40).Units; got != want {
			t.Errorf("%s: %d after giving back, want %d", algorithm, got, want)
		}
	}
}

func TestLump_OnlyOfRulesThatCanBeDivided(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*rules.Rule)
		want string
	}{
		"another key":  {func(r *rules.Rule) { r.Descriptor.Entries[0].Key = "tenant" }, lumpNoRule},
		"log":          {func(r *rules.Rule) { r.Algorithm = "sliding_window_log" }, lumpAlgorithm},
		"queue":        {func(r *rules.Rule) { r.Algorithm = "leaky_queue" }, lumpAlgorithm},
		"concurrency":  {func(r *rules.Rule) { r.Algorithm = "concurrency" }, lumpAlgorithm},
		"short window": {func(r *rules.Rule) { r.WindowMS = 59_999 }, lumpWindow},
		"leased":       {func(r *rules.Rule) { r.WindowMS, r.HotKeys = 20_000, rules.HotKeysLeased }, ""},
		"short leased": {func(r *rules.Rule) { r.WindowMS, r.HotKeys = 19_999, rules.HotKeysLeased }, lumpWindow},
		"sub-windows":  {func(r *rules.Rule) { r.Algorithm = "sliding_window_buckets" }, lumpWindow},
		"long sub-windows": {func(r *rules.Rule) {
			r.Algorithm, r.WindowMS, r.Buckets = "sliding_window_buckets", 120_000, new(int64(2))
		}, ""},
		"small burst": {func(r *rules.Rule) { r.Algorithm, r.Burst = "gcra", new(int64(299)) }, lumpCapacity},
		"burst":       {func(r *rules.Rule) { r.Algorithm, r.Burst = "gcra", new(int64(300)) }, ""},
		"sharded":     {func(r *rules.Rule) { r.HotKeys = rules.HotKeysSharded }, lumpSpecial},
	} {
		f := newFixture(t, []rules.Rule{lumpRule(tt.edit)}, func(*CheckerOptions) {})
		if r := f.lumpRule(); r.Refused != tt.want || r.Unlimited {
			t.Errorf("%s: %q, want %q", name, r.Refused, tt.want)
		}
	}
	for name, edit := range map[string]func(*rules.Rule){
		"shadow":    func(r *rules.Rule) { r.Mode = rules.ModeShadow },
		"unlimited": func(r *rules.Rule) { r.Unlimited, r.Limit, r.WindowMS, r.Algorithm = true, 0, 0, "" },
	} {
		f := newFixture(t, []rules.Rule{lumpRule(edit)}, func(*CheckerOptions) {})
		if r := f.lumpRule(); r.Refused != "" || !r.Unlimited {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// An open fail mode hands out nothing.
func TestLump_NoneWithoutTheStore(t *testing.T) {
	f := newFixture(t, []rules.Rule{lumpRule(nil)}, func(*CheckerOptions) {})
	r := f.lumpRule()
	f.store.fail(&limiter.StoreError{Cause: limiter.CauseConnection, Err: errors.New("gone")})
	if l, doubt, err := f.TakeLump(t.Context(), &r, &LumpWant{Units: 1, Least: 1}); err == nil || l.Units != 0 ||
		doubt != nil {
		t.Errorf("%+v, %+v, %v", l, doubt, err)
	}
}

// lateStore carries out requests whose answers are lost while late is set.
type lateStore struct {
	limiter.Store
	late bool
}

func (s *lateStore) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	err := s.Store.Do(ctx, req, res)
	if err == nil && s.late {
		return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: context.DeadlineExceeded}
	}
	return err
}

// lostUnits are the units of which the answer of the store was lost.
type lostUnits struct {
	NopObserver
	doubt, admitted, replayed int64
}

func (o *lostUnits) ObserveDoubt(d Doubt) { o.doubt += d.Count }
func (o *lostUnits) ObserveUnits(u Units) {
	switch u.Outcome {
	case OutcomeAdmitted:
		o.admitted += u.Count
	case OutcomeReplayed:
		o.replayed += u.Count
	}
}

// The answer of the store is lost, twice. The next one is about the same units, which are charged once.
func TestLump_AnAnswerThatCameTooLateIsAskedForAgain(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "token_bucket", "gcra"} {
		late, seen := &lateStore{}, &lostUnits{}
		f := newFixture(t, []rules.Rule{lumpRule(func(r *rules.Rule) { r.Algorithm = algorithm })},
			func(o *CheckerOptions) { late.Store, o.Store, o.Observe = o.Store, late, seen })
		r, free := f.lumpRule(), int64(0)
		if r.Drains() {
			free = 40
		}
		take := func(sent int64, doubt *LumpDoubt) (Lump, *LumpDoubt) {
			l, doubt, err := f.TakeLump(t.Context(), &r,
				&LumpWant{Units: 400, Least: 1, Free: free, Keep: 120_000, Sent: sent, Doubt: doubt})
			if (err != nil) != late.late {
				t.Fatal(err)
			}
			return l, doubt
		}
		late.late = true
		_, doubt := take(1000, nil)
		_, doubt = take(2000, doubt)
		late.late = false
		l, doubt := take(3000, doubt)
		if l.Units != 400 || l.Sent != 1000 || doubt != nil {
			t.Errorf("%s: %+v, %+v", algorithm, l, doubt)
		}
		if left := f.lump(1000, 1, free).Units; left != 600-400-free {
			t.Errorf("%s: %d units were left beside 400", algorithm, left)
		}
		whole := int64(400)
		if algorithm == "gcra" {
			whole += free
		}
		if seen.doubt != whole || seen.replayed != whole {
			t.Errorf("%s: observed %+v", algorithm, seen)
		}
	}
}

// A take that never reached the store is carried out once it does.
func TestLump_ADoubtThatChargedNothing(t *testing.T) {
	f := newFixture(t, []rules.Rule{lumpRule(nil)}, func(*CheckerOptions) {})
	r := f.lumpRule()
	want := &LumpWant{Units: 400, Least: 1, Keep: 120_000, Sent: 1000}
	f.store.fail(&limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: errors.New("late")})
	var err error
	if _, want.Doubt, err = f.TakeLump(t.Context(), &r, want); err == nil || want.Doubt == nil {
		t.Fatalf("%+v, %v", want.Doubt, err)
	}
	f.store.fail(errAway) // this one surely did not
	kept := want.Doubt
	if _, want.Doubt, err = f.TakeLump(t.Context(), &r, want); err == nil || want.Doubt != kept {
		t.Fatalf("%+v, %v", want.Doubt, err)
	}
	f.store.fail(nil)
	want.Sent = 3000
	if l, doubt, err := f.TakeLump(t.Context(), &r, want); err != nil || l.Units != 400 || l.Sent != 3000 || doubt != nil {
		t.Errorf("%+v, %+v, %v", l, doubt, err)
	}
}

// What an old take has charged, or one of another limit, is given back before the next.
func TestLump_ADoubtThatCannotBeRepeatedGoesBack(t *testing.T) {
	for name, tt := range map[string]struct {
		sent  int64
		limit int64
	}{"old": {31_000, 600}, "another limit": {2000, 500}} {
		late := &lateStore{late: true}
		f := newFixture(t, []rules.Rule{lumpRule(nil)}, func(o *CheckerOptions) { late.Store, o.Store = o.Store, late })
		r := f.lumpRule()
		_, doubt, _ := f.TakeLump(t.Context(), &r, &LumpWant{Units: 400, Least: 1, Keep: 120_000, Sent: 1000})
		late.late, r.Limit.Count = false, tt.limit
		l, doubt, err := f.TakeLump(t.Context(), &r,
			&LumpWant{Units: 1000, Least: 1, Keep: 120_000, Sent: tt.sent, Doubt: doubt})
		if err != nil || l.Units != tt.limit || l.Sent != tt.sent || doubt != nil {
			t.Errorf("%s: %+v, %+v, %v", name, l, doubt, err)
		}
	}
}
