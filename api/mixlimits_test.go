package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// TestModel_TiersOverridesSchedulesAndConditionsAgainstAnOracle puts
// random mixes of what gives a rule another limit to a whole Checker, with edits
// of rules and overrides and the passing of hours between requests. The oracle
// is one number a bucket, so that all-or-nothing, "denied spends nothing" and
// "consumption survives every edit" are one comparison.
func TestModel_TiersOverridesSchedulesAndConditionsAgainstAnOracle(t *testing.T) {
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				m := &limitMix{t: rt, f: pooled(t, kind, nil, nil), spent: map[string]int64{},
					overrides: map[string]rules.Override{}}
				for i := range rapid.IntRange(1, 3).Draw(rt, "rules") {
					m.rule(i, true)
				}
				for range rapid.IntRange(5, 40).Draw(rt, "steps") {
					m.step()
				}
			})
		})
	}
}

// limitMix is a day of requests, edits and hours.
type limitMix struct {
	t         *rapid.T
	f         *fixture
	set       []rules.Rule
	hour      int                       // since the fixture's epoch, which is 11:20 UTC
	spent     map[string]int64          // by rule and user
	overrides map[string]rules.Override // by rule and key
}

var (
	mixActor = rules.Actor{Kind: "system", Name: "test"}
	mixTiers = []string{"", "free", "pro"}
	mixUsers = []string{"a", "ab", "abc"}
	mixKeys  = []string{"user:a", "user:ab", "user:*", "user:a*", "user:ab*"}
)

// rule makes the rule at i, or gives it other numbers and policies.
func (m *limitMix) rule(i int, create bool) {
	t := m.t
	number := rapid.Int64Range(1, 12)
	r := rules.Rule{
		Name: fmt.Sprint("r", i), Scope: "user", Algorithm: "fixed_window", Limit: number.Draw(t, "limit"),
		WindowMS: 86_400_000,
		IsActive: true, Mode: rapid.SampledFrom([]string{rules.ModeEnforce, rules.ModeEnforce, rules.ModeShadow}).Draw(t,
			"mode"),
	}
	if rapid.Bool().Draw(t, "calendar") {
		r.Calendar = &rules.Calendar{Every: "day"}
	}
	if rapid.IntRange(0, 3).Draw(t, "soft") == 0 {
		r = soft(r, rapid.Int64Range(1, 150).Draw(t, "soft percent"))
	}
	if rapid.Bool().Draw(t, "tiered") {
		r.Tiers = map[string]rules.TierLimit{"pro": {Limit: ptr(number.Draw(t, "pro"))}}
		if rapid.Bool().Draw(t, "unlimited tier") {
			r.Tiers["pro"] = rules.TierLimit{Unlimited: true}
		}
	}
	if rapid.Bool().Draw(t, "scheduled") {
		from := rapid.IntRange(11, 13).Draw(t, "from")
		w := rules.ScheduleWindow{From: fmt.Sprintf("%02d:00", from),
			To: fmt.Sprintf("%02d:00", from+rapid.IntRange(1, 4).Draw(t, "long"))}
		if rapid.Bool().Draw(t, "by percent") {
			w.Percent = ptr(rapid.Int64Range(0, 300).Draw(t, "percent"))
		} else {
			w.Limit = ptr(number.Draw(t, "then"))
		}
		r.Schedule = &rules.Schedule{Windows: []rules.ScheduleWindow{w}}
	}
	if rapid.IntRange(0, 2).Draw(t, "conditional") == 0 {
		r.When = ptr(rapid.SampledFrom([]string{`weight > 1`, `tier == "pro"`}).Draw(t, "when"))
	}
	r.Normalize()
	var err error
	if create {
		r, err = m.f.book.CreateRule(t.Context(), mixActor, r)
		m.set = append(m.set, r)
	} else {
		r.ID = m.set[i].ID
		m.set[i], err = m.f.book.UpdateRule(t.Context(), mixActor, r, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.f.reload()
}

func (m *limitMix) step() {
	switch rapid.IntRange(0, 9).Draw(m.t, "what") {
	case 0:
		m.rule(rapid.IntRange(0, len(m.set)-1).Draw(m.t, "which"), false)
	case 1, 2:
		m.override()
	case 3:
		if m.hour < 11 {
			m.hour++
			m.f.now.Add(3_600_000)
		}
	default:
		m.check()
	}
}

// override makes an exception, or ends the one that there is.
func (m *limitMix) override() {
	t := m.t
	r := &m.set[rapid.IntRange(0, len(m.set)-1).Draw(t, "of")]
	o := rules.Override{RuleID: r.ID, Key: rapid.SampledFrom(mixKeys).Draw(t, "key")}
	name := r.Name + " " + o.Key
	if old, ok := m.overrides[name]; ok {
		delete(m.overrides, name)
		if err := m.f.book.DeleteOverride(t.Context(), mixActor, r.ID, old.ID, 0); err != nil {
			t.Fatal(err)
		}
		m.f.reload()
		return
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		o.Unlimited = true
	case 1:
		o.Blocked = true
	default:
		o.Limit = ptr(rapid.Int64Range(0, 15).Draw(t, "exception"))
	}
	o, err := m.f.book.CreateOverride(t.Context(), mixActor, o, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.overrides[name] = o
	m.f.reload()
}

// overrideOf is the exception for a user: the exact one, else the longest.
func (m *limitMix) overrideOf(r *rules.Rule, user string) (best rules.Override, found bool) {
	if o, ok := m.overrides[r.Name+" user:"+user]; ok {
		return o, true
	}
	length := -1
	for _, key := range mixKeys {
		prefix, wild := strings.CutSuffix(strings.TrimPrefix(key, "user:"), "*")
		if o, ok := m.overrides[r.Name+" "+key]; ok && wild && strings.HasPrefix(user, prefix) && len(prefix) > length {
			best, found, length = o, true, len(prefix)
		}
	}
	return best, found
}

// limitOf is the limit for a request, false where the rule does not limit it.
func (m *limitMix) limitOf(r *rules.Rule, q *decide.Question) (int64, bool) {
	d := &q.Descriptor
	if r.When != nil && (*r.When == `weight > 1` && q.Weight <= 1 || *r.When == `tier == "pro"` && d.Tier != "pro") {
		return 0, false
	}
	if o, ok := m.overrideOf(r, d.User); ok {
		if o.Limit != nil {
			return *o.Limit, true
		}
		return 0, o.Blocked
	}
	limit := r.Limit
	tier, tiered := r.Tiers[d.Tier]
	switch {
	case tier.Unlimited:
		return 0, false
	case tiered:
		limit = *tier.Limit
	}
	if r.Schedule != nil {
		w := r.Schedule.Windows[0]
		now := fmt.Sprintf("%02d:20", 11+m.hour)
		switch {
		case now < w.From || now >= w.To:
		case w.Percent != nil && *w.Percent > 0:
			limit = max(limit**w.Percent/100, 1)
		case w.Percent != nil:
			limit = 0
		case !tiered:
			limit = *w.Limit
		}
	}
	return limit, true
}

// check asks, and holds every limit of the answer to the oracle.
func (m *limitMix) check() {
	q := decide.Question{Op: limiter.OpTake, Weight: rapid.Int64Range(0, 5).Draw(m.t, "weight")}
	q.Descriptor.User = rapid.SampledFrom(mixUsers).Draw(m.t, "user")
	q.Descriptor.Tier = rapid.SampledFrom(mixTiers).Draw(m.t, "tier")
	type verdict struct {
		Rule, Mode       string
		Allowed          bool
		Limit, Remaining int64
	}
	var want, got []verdict
	passes := true
	for _, mode := range []string{rules.ModeEnforce, rules.ModeShadow} {
		for i := range m.set {
			r := &m.set[i]
			limit, limited := m.limitOf(r, &q)
			if !limited || r.Mode != mode {
				continue
			}
			v := verdict{Rule: r.Name, Mode: mode, Limit: limit,
				Allowed: m.spent[r.Name+q.Descriptor.User]+q.Weight <= roomOf(r, limit)}
			passes = passes && (v.Allowed || mode == rules.ModeShadow)
			want = append(want, v)
		}
	}
	for i := range want {
		v := &want[i]
		bucket := v.Rule + q.Descriptor.User
		if passes && v.Mode == rules.ModeEnforce || v.Allowed && v.Mode == rules.ModeShadow {
			m.spent[bucket] += q.Weight
		}
		v.Remaining = max(v.Limit-m.spent[bucket], 0)
	}
	var a decide.Answer
	if err := m.f.checker.Do(m.t.Context(), &q, &a); err != nil {
		m.t.Fatal(err)
	}
	for i := range a.Limits {
		la := &a.Limits[i]
		v := verdict{la.Rule, rules.ModeEnforce, la.Decision.Allowed, la.Decision.Limit, la.Decision.Remaining}
		if la.Shadow {
			v.Mode = rules.ModeShadow
		}
		got = append(got, v)
	}
	if diff := cmp.Diff(want, got); diff != "" || a.Allowed() != passes {
		m.t.Fatalf("%s of tier %q asks for %d: allowed %v, want %v; limits (-want +got):\n%s", q.Descriptor.User,
			q.Descriptor.Tier, q.Weight, a.Verdict, passes, diff)
	}
}
