package decide

import (
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
	l, err := f.TakeLump(f.t.Context(), &r, want, least, free, 120_000)
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
	if l, err := f.TakeLump(t.Context(), &r, 1, 1, 0, 0); err == nil || l.Units != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}
