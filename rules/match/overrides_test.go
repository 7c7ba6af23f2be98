package match

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/override"
)

var (
	overrideNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	nowMS       = overrideNow.UnixMilli()
)

// stored makes the row of an override as the database would.
func stored(t testing.TB, r *rules.Rule, id int64, o rules.Override) override.Row {
	t.Helper()
	if err := ResolveOverride(&o, r, Options{}, overrideNow); err != nil {
		t.Fatal(err)
	}
	o.RuleID, o.ID = r.ID, id
	return OverrideRow(&o)
}

// withOverrides compiles one rule with overrides whose ids count from 1.
func withOverrides(t testing.TB, r rules.Rule, os ...rules.Override) *Set {
	t.Helper()
	e := override.New().Edit()
	for i, o := range os {
		e.Add(stored(t, &r, int64(i+1), o))
	}
	return compile(t, r).WithOverrides(e.Done(1, nowMS))
}

// matchOne is what the one rule of a set says to a descriptor, nil for nothing.
func matchOne(s *Set, d Descriptor, now time.Time) *Match {
	ms := s.Match(&d, 1, now, nil)
	if len(ms) == 0 {
		return nil
	}
	return &ms[0]
}

func TestOverrides_ExactThenLongestWildcard(t *testing.T) {
	s := withOverrides(t, rule(7, nil),
		rules.Override{Key: "user:42", Limit: ptr[int64](1)},
		rules.Override{Key: "user:4*", Limit: ptr[int64](2)},
		rules.Override{Key: "user:42*", Limit: ptr[int64](3)},
		rules.Override{Key: "user:acme-*", Limit: ptr[int64](4)},
		rules.Override{Key: "user:acme-vip", Unlimited: true},
		rules.Override{Key: "user:acme-bad*", Blocked: true},
	)
	for user, want := range map[string]struct {
		id, limit int64
	}{
		"42": {1, 1}, "4": {2, 2}, "41": {2, 2}, "421": {3, 3}, "5": {0, 5}, "acme-1": {4, 4}, "acme-vip": {5, -1},
		"acme-vip2": {4, 4},
		"acme-bad":  {6, 0}, "acme-bad9": {6, 0}, "acme": {0, 5},
		// Too long for a key, and credentials: in keys they are hashes.
		"acme-" + strings.Repeat("z", 300): {4, 4}, "acme-8f14E45fceea167a5a36dedD4bea2543XyZ": {4, 4}, "42" +
			strings.Repeat("+", 80): {3, 3},
	} {
		m := matchOne(s, Descriptor{User: user}, overrideNow)
		switch {
		case want.limit < 0 && m == nil:
		case want.limit < 0 || m == nil:
			t.Errorf("%s: got %+v, want override %+v", user, m, want)
		case m.Override.ID != want.id || m.Limit.Count != want.limit:
			t.Errorf("%s: got override %d with %d, want %+v", user, m.Override.ID, m.Limit.Count, want)
		}
	}
}

func TestOverrides_OfSums(t *testing.T) {
	s := withOverrides(t, rule(7, func(r *rules.Rule) { r.Scope = "user+ip" }),
		rules.Override{Key: "user:42+ip:203.0.113.7", Limit: ptr[int64](1)},
		rules.Override{Key: "user:42+ip:*", Limit: ptr[int64](2)},
		rules.Override{Key: "user:*", Limit: ptr[int64](3)},
		rules.Override{Key: "user:a%2Bip:1+ip:2001:db8::1", Blocked: true},
	)
	for _, c := range []struct {
		user, ip string
		id       int64
	}{
		{"42", "203.0.113.7", 1}, {"42", "203.0.113.8", 2}, {"421", "203.0.113.7", 3}, {"a+ip:1", "2001:db8::99", 4},
		{"a", "2001:db8::99", 3},
		{"42+ip:203.0.113.7", "203.0.113.9", 3},
	} {
		if m := matchOne(s, Descriptor{User: c.user, IP: netip.MustParseAddr(c.ip)}, overrideNow); m == nil ||
			m.Override.ID != c.id {
			t.Errorf("%s from %s: got %+v, want override %d", c.user, c.ip, m, c.id)
		}
	}
}

func TestOverrides_EndAtTheirInstant(t *testing.T) {
	end := overrideNow.Add(time.Minute)
	s := withOverrides(t, rule(7, nil),
		rules.Override{Key: "user:42", Blocked: true, ExpiresAt: &end},
		rules.Override{Key: "user:42*", Limit: ptr[int64](9), ExpiresAt: ptr(end.Add(time.Minute))},
		rules.Override{Key: "user:4*", Limit: ptr[int64](8)},
	)
	for after, want := range map[time.Duration]int64{0: 0, time.Minute - time.Millisecond: 0, time.Minute: 9,
		2*time.Minute - time.Millisecond: 9, 2 * time.Minute: 8} {
		if m := matchOne(s, Descriptor{User: "42"}, overrideNow.Add(after)); m == nil || m.Limit.Count != want {
			t.Errorf("after %s: got %+v, want limit %d", after, m, want)
		}
	}
}

func TestOverrides_StandAboveTierScheduleAndRule(t *testing.T) {
	s := withOverrides(t, rule(7, func(r *rules.Rule) {
		r.Tiers = map[string]rules.TierLimit{"pro": {Limit: ptr[int64](50)}, "staff": {Unlimited: true}}
		r.Schedule = &rules.Schedule{Windows: []rules.ScheduleWindow{{From: "00:00", To: "24:00", Percent: ptr[int64](50)}}}
	}), rules.Override{Key: "user:42", Limit: ptr[int64](10)}, rules.Override{Key: "user:0", Unlimited: true})
	for _, tier := range []string{"", "pro", "staff"} {
		if m := matchOne(s, Descriptor{User: "42", Tier: tier}, overrideNow); m == nil || m.Limit.Count != 10 ||
			m.Override.ID != 1 {
			t.Errorf("tier %q: got %+v, want 10", tier, m)
		}
		if m := matchOne(s, Descriptor{User: "0", Tier: tier}, overrideNow); m != nil {
			t.Errorf("tier %q: got %+v, want no limit", tier, m)
		}
	}
	if m := matchOne(s, Descriptor{User: "1", Tier: "pro"}, overrideNow); m == nil || m.Limit.Count != 25 ||
		m.Override != (override.Applied{}) {
		t.Errorf("without an override: got %+v", m)
	}
}

func TestOverrides_KeepTheBucketAndTheCalendar(t *testing.T) {
	r := rule(7, func(r *rules.Rule) {
		r.Algorithm, r.Calendar, r.WindowMS = "fixed_window",
			&rules.Calendar{Every: rules.EveryMonth, Zone: "Europe/Berlin"}, 0
	})
	plain := matchOne(compile(t, r), Descriptor{User: "42"}, overrideNow)
	over := matchOne(withOverrides(t, r, rules.Override{Key: "42", Limit: ptr[int64](99)}), Descriptor{User: "42"},
		overrideNow)
	if plain == nil || over == nil || over.Key != plain.Key || over.Limit.Count != 99 {
		t.Fatalf("got %+v, want the bucket of %+v", over, plain)
	}
	over.Limit.Count = plain.Limit.Count
	if over.Limit != plain.Limit {
		t.Errorf("got %+v, want the period of %+v", over.Limit, plain.Limit)
	}
}

// An override with a calendar alone leaves the limits of tiers, has periods of its own, and keeps the bucket of the
// period in which it is made.
func TestOverrides_WithACalendarAlone(t *testing.T) {
	r := rule(7, func(r *rules.Rule) {
		r.Algorithm, r.Limit, r.WindowMS = "fixed_window", 10, 0
		r.Calendar, r.KeepPeriods = &rules.Calendar{Every: rules.EveryMonth}, ptr(int64(3))
		r.Tiers = map[string]rules.TierLimit{"pro": {Limit: ptr(int64(90))}, "free": {Unlimited: true}}
	})
	r.Normalize()
	o := rules.Override{Key: "user:42", Calendar: &rules.OverrideCalendar{AnchorDay: 15}}
	o.BeginCalendar(nil, &r, overrideNow)
	s := withOverrides(t, r, o)
	day := func(m time.Month, d int) time.Time { return time.Date(2026, m, d, 12, 0, 0, 0, time.UTC) }
	nov, dec := day(11, 1).Truncate(24*time.Hour).UnixMilli(), day(12, 15).Truncate(24*time.Hour).UnixMilli()
	for _, c := range []struct {
		user, tier string
		at         time.Time
		from       int64
		limit      int64
	}{
		{"42", "", overrideNow, nov, 10},
		{"42", "pro", day(12, 14), nov, 90},
		{"42", "pro", day(12, 15), dec, 90},
		{"1", "pro", overrideNow, nov, 90},
	} {
		m := matchOne(s, Descriptor{User: c.user, Tier: c.tier}, c.at)
		want := fmt.Sprintf("{user:%s}|7|fw.%d", c.user, c.from)
		if m == nil || m.Limit.Anchor != c.from || m.Limit.Count != c.limit || string(m.Key) != want {
			t.Errorf("%+v: got %+v, want %s", c, m, want)
			continue
		}
		b, err := s.FindBucket(m.Rule, "user:"+c.user, c.at)
		if err != nil || string(b.Key) != want || b.Limit.Anchor != c.from || b.Override != m.Override {
			t.Errorf("%+v: found %+v, %v", c, b, err)
		}
	}
	if m := matchOne(s, Descriptor{User: "42", Tier: "free"}, overrideNow); m != nil {
		t.Errorf("an unlimited tier is limited: %+v", m)
	}
	const sentence = "The rule applies. Override 1 makes its period last from 2026-11-01T00:00:00Z to " +
		"2026-12-15T00:00:00Z."
	if all := s.Explain(&Descriptor{User: "42"}, 1, overrideNow); len(all) != 1 || all[0].Sentence != sentence {
		t.Errorf("got %+v", all)
	}
	if all := s.Explain(&Descriptor{User: "42", Tier: "free"}, 1, overrideNow); len(all) != 1 ||
		all[0].Reason != ReasonUnlimited {
		t.Errorf("an unlimited tier: got %+v", all)
	}
}

func TestOverrides_BurstIsTheLimitUnlessGiven(t *testing.T) {
	s := withOverrides(t, rule(7, func(r *rules.Rule) { r.Algorithm, r.Burst = "gcra", ptr[int64](2) }),
		rules.Override{Key: "a", Limit: ptr[int64](50)}, rules.Override{Key: "b", Limit: ptr[int64](50),
			Burst: ptr[int64](7)},
		rules.Override{Key: "c", Blocked: true})
	for user, want := range map[string][2]int64{"a": {50, 50}, "b": {50, 7}, "c": {0, 0}, "d": {5, 2}} {
		if m := matchOne(s, Descriptor{User: user}, overrideNow); m == nil || m.Limit.Count != want[0] ||
			m.Limit.Burst != want[1] {
			t.Errorf("%s: got %+v, want %v", user, m, want)
		}
	}
}

// A rule that is edited later may not be able to count what its overrides say.
func TestOverrides_NeverMakeALimitThatCannotBeCounted(t *testing.T) {
	generous := rule(7, func(r *rules.Rule) { r.Algorithm = "fixed_window" })
	row := stored(t, &generous, 1, rules.Override{Key: "42", Limit: ptr(limiter.MaxExact)})
	e := override.New().Edit()
	e.Add(row)
	o := e.Done(1, nowMS)
	for _, a := range limiter.Algorithms() {
		m := matchOne(compile(t, rule(7, func(r *rules.Rule) { r.Algorithm = a.String() })).WithOverrides(o),
			Descriptor{User: "42"}, overrideNow)
		if m == nil || m.Override.ID != 1 || len(m.Limit.Problems()) > 0 {
			t.Errorf("%s: got %+v with %v", a, m, m.Limit.Problems())
		}
	}
}

func TestResolve_RefusesWhatContradictsItself(t *testing.T) {
	soon := overrideNow.Add(time.Hour)
	for _, c := range []struct {
		field string
		o     rules.Override
	}{
		{"limit", rules.Override{}}, {"limit", rules.Override{Unlimited: true, Blocked: true}},
		{"limit", rules.Override{Limit: ptr[int64](1), Blocked: true}},
		{"burst", rules.Override{Burst: ptr[int64](1), Blocked: true}},
		{"burst", rules.Override{Limit: ptr[int64](1), Burst: ptr[int64](1)}},
		{"limit", rules.Override{Limit: ptr[int64](-1)}}, {"limit", rules.Override{Limit: ptr[int64](limiter.MaxExact)}},
		{"expires_at", rules.Override{Blocked: true, ExpiresAt: &overrideNow}},
		{"expires_at", rules.Override{Blocked: true, ExpiresAt: ptr(soon.AddDate(9000, 0, 0))}},
		{"reason", rules.Override{Blocked: true, Reason: strings.Repeat("x", rules.MaxReason+1)}},
		{"reason", rules.Override{Blocked: true, Reason: "a\nb"}},
		{"reason", rules.Override{Blocked: true, Reason: "\xff"}}, {"key", rules.Override{Blocked: true, Key: "ip:1"}},
	} {
		if c.o.Key == "" {
			c.o.Key = "42"
		}
		r := rule(7, nil)
		err := ResolveOverride(&c.o, &r, Options{}, overrideNow)
		ve, ok := err.(*field.ValidationError) //nolint:errorlint // Resolve promises exactly this type
		if !ok || ve.Fields[0].Field != c.field {
			t.Errorf("%+v: got %v, want a complaint about %s", c.o, err, c.field)
		}
	}
}

func TestExplain_SaysWhichOverrideApplied(t *testing.T) {
	s := withOverrides(t, rule(7, nil), rules.Override{Key: "42", Limit: ptr[int64](9), Reason: "secret"},
		rules.Override{Key: "vip*", Unlimited: true}, rules.Override{Key: "bad", Blocked: true})
	for user, want := range map[string]string{
		"42": "The rule applies. Override 1 sets its limit to 9.", "vip1": "Override 2 makes the key unlimited.",
		"bad": "The rule applies. Override 3 blocks the key.", "1": "The rule applies.",
	} {
		got := s.Explain(&Descriptor{User: user}, 1, overrideNow)[0]
		if got.Sentence != want || got.Matched != (user != "vip1") || (got.Override.ID != 0) != (user != "1") {
			t.Errorf("%s: got %+v, want %s", user, got, want)
		}
	}
}

// million makes a set with n exact overrides of one rule, and says what it holds
// in memory.
func million(tb testing.TB, n int) (*Set, uint64) {
	tb.Helper()
	r := rule(7, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	e := override.New().Edit()
	for i := range n {
		e.Add(override.Row{RuleID: 7, ID: int64(i + 1), Match: fmt.Sprintf("{user:customer-%07d}", i), Limit: int64(i % 1000),
			Burst: -1})
	}
	o := e.Done(1, nowMS)
	e = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	return compile(tb, r).WithOverrides(o), after.HeapAlloc - before.HeapAlloc
}

// A million fit in 100 MB. Their table is filled as that of a quarter of a million
// is, so that these must fit in a quarter of it.
func TestOverrides_AMillionAreFoundAndFitInMemory(t *testing.T) {
	const n = 250_000
	s, size := million(t, n)
	if size > 25<<20 {
		t.Errorf("%d overrides take %d bytes, want less than 25 MB", n, size)
	}
	for _, i := range []int{0, 1, 17, 4711, n / 2, n - 1} {
		if m := matchOne(s, Descriptor{User: fmt.Sprintf("customer-%07d", i)}, overrideNow); m == nil ||
			m.Override.ID != int64(i+1) {
			t.Errorf("customer %d: got %+v", i, m)
		}
	}
	if m := matchOne(s, Descriptor{User: "customer-1000000"}, overrideNow); m == nil || m.Override.ID != 0 {
		t.Errorf("a stranger: got %+v", m)
	}
	// One edit leaves the million where they are.
	e := s.overrides.Edit()
	e.Add(override.Row{RuleID: 7, ID: 5_000_000, Match: "{user:customer-0000017}", Limit: 3, Burst: -1})
	o := e.Done(2, nowMS)
	if m := matchOne(s.WithOverrides(o), Descriptor{User: "customer-0000017"}, overrideNow); m == nil ||
		m.Override.ID != 5_000_000 {
		t.Errorf("after the edit: got %+v", m)
	}
}

func TestMatch_OverridesAllocateNothing(t *testing.T) {
	s := withOverrides(t, rule(7, nil), rules.Override{Key: "42", Blocked: true},
		rules.Override{Key: "acme-*", Blocked: true})
	d := Descriptor{User: "acme-1"}
	dst := make([]Match, 0, 4)
	if n := testing.AllocsPerRun(100, func() { dst = s.Match(&d, 1, overrideNow, dst[:0]) }); n > 1 {
		t.Errorf("%v allocations, want the key only", n)
	}
}

func BenchmarkOverrides(b *testing.B) {
	s, size := million(b, 1_000_000)
	bare := s.WithOverrides(nil)
	users := make([]string, 1<<16)
	for i := range users {
		users[i] = fmt.Sprintf("customer-%07d", rand.IntN(1_000_000)) //nolint:gosec // any will do
	}
	for name, set := range map[string]*Set{"without": bare, "million": s} {
		b.Run("match/"+name, func(b *testing.B) {
			dst := make([]Match, 0, 4)
			i := 0
			for b.Loop() {
				d := Descriptor{User: users[i&(1<<16-1)]}
				dst = set.Match(&d, 1, overrideNow, dst[:0])
				i++
			}
			b.ReportMetric(float64(size)/1e6, "B/override")
		})
	}
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			million(b, 1_000_000)
		}
	})
	b.Run("edit", func(b *testing.B) {
		o := s.overrides
		i := 0
		for b.Loop() {
			e := o.Edit()
			e.Add(override.Row{RuleID: 7, ID: 1, Match: "{user:" + users[i&(1<<16-1)] + "}", Limit: 1, Burst: -1})
			o = e.Done(2, nowMS)
			i++
		}
	})
}
