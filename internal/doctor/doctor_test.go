package doctor_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/doctor"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/scope"
)

// ended is the end of the last whole hour, hour a time within the last day, lastWeek one before it.
var (
	ended    = now.Truncate(time.Hour)
	hour     = ended.Add(-2 * time.Hour)
	lastWeek = ended.Add(-3 * history.Day)
)

func ptr[T any](v T) *T { return &v }

// ruleOf is a rule that exists for a month.
func ruleOf(id int64, name string, edit func(*rules.Rule)) rules.Rule {
	r := rules.Rule{ID: id, Name: name, Scope: "user", Limit: 100, WindowMS: 60_000, IsActive: true,
		Algorithm: "sliding_window_counter", UpdatedAt: now.Add(-30 * history.Day)}
	if edit != nil {
		edit(&r)
	}
	r.Normalize()
	return r
}

// examine is the report about the first rule.
func examine(t *testing.T, p *played, list ...rules.Rule) doctor.Report {
	t.Helper()
	set, err := match.Compile(list, 1, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := doctor.Doctor{Stats: p, Overrides: p, Set: set, Now: now}
	got, err := d.Rule(t.Context(), &set.Get(list[0].ID).Rule)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func names(list []doctor.Finding) (out []string) {
	for i := range list {
		out = append(out, list[i].Finding)
	}
	return out
}

// busy plays keys that only pass, so that a rule has keys and requests besides those of a case.
func busy(p *played, at time.Time, keys int, each int64) {
	for i := range keys {
		p.allow(fmt.Sprintf("user:other-%d", i), at, each)
	}
}

// strictDay plays keys that are denied a little above the limit.
func strictDay(p *played, keys int, denied int64) {
	for i := range keys {
		key := fmt.Sprintf("user:%d", i)
		p.allow(key, hour, 100-denied)
		p.deny(key, hour, denied)
	}
}

// use plays requests of which one used so much of a limit of 100.
func use(p *played, at time.Time, used, requests int64) {
	p.play("r", "user:a", at, requests, history.Figures{Allowed: 1, Use: history.UseOf(used, 100)})
}

func shadow(r *rules.Rule) { r.Mode = rules.ModeShadow }

func global(algorithm string, limit, windowMS int64) func(*rules.Rule) {
	return func(r *rules.Rule) {
		r.Scope, r.Algorithm, r.Limit, r.WindowMS = scope.Global, algorithm, limit, windowMS
	}
}

// The figures are those of one region, and the others may use what it does not.
func TestExamine_ConcludesNothingFromTrafficThatIsMissingInOneOfSeveralRegions(t *testing.T) {
	for regions, want := range []string{1: doctor.MatchesNothing, 2: "", 3: ""} {
		f := doctor.Facts{Rule: ruleOf(1, "r", nil), Now: now, Options: match.Options{Regions: regions}}
		for from, to := doctor.WeekOf(now); from.Before(to); from = from.Add(time.Hour) {
			f.Hours = append(f.Hours, history.Point{At: from, Known: true})
		}
		if got := strings.Join(names(doctor.Examine(&f)), " "); got != want && regions > 0 {
			t.Errorf("%d regions: found %q, want %q", regions, got, want)
		}
	}
}

// sides play traffic with a number on both sides of each threshold.
var sides = []struct {
	name, finding string
	edit          func(*rules.Rule)
	others        []rules.Rule
	play          func(p *played, n int64)
	// not is the number next to the threshold with which nothing is found, found the one with which it is.
	not, found int64
}{
	{
		name: "no request for a week", finding: doctor.MatchesNothing, not: 1, found: 0,
		play: func(p *played, n int64) { p.allow("user:a", ended.Add(-7*history.Day), n) },
	},
	{
		name: "known for a week", finding: doctor.MatchesNothing, not: 167, found: 168,
		play: func(p *played, n int64) { p.known = ended.Add(-time.Duration(n) * time.Hour) },
	},
	{
		name: "denied share", finding: doctor.DeniesMost, not: 94, found: 95,
		play: func(p *played, n int64) { p.deny("user:a", hour, n); p.allow("user:b", hour, 100-n) },
	},
	{
		name: "requests in a day", finding: doctor.DeniesMost, not: 99, found: 100,
		play: func(p *played, n int64) { p.deny("user:a", hour, n) },
	},
	{
		name: "denials of fail modes", finding: doctor.DeniesMost, not: 6, found: 5,
		play: func(p *played, n int64) {
			p.deny("user:a", hour, 100-n)
			p.play("r", "user:a", hour, n, history.Figures{Denied: 1, Degraded: 1, DegradedDenied: 1})
		},
	},
	{
		name: "keys denied a little", finding: doctor.TooStrict, not: 9, found: 10,
		play: func(p *played, n int64) { strictDay(p, int(n), 10) },
	},
	{
		name: "share of a key", finding: doctor.TooStrict, not: 21, found: 20,
		play: func(p *played, n int64) { strictDay(p, 10, n) },
	},
	{
		name: "keys far above", finding: doctor.TooStrict, not: 2, found: 1,
		play: func(p *played, n int64) {
			strictDay(p, 10-int(n), 10)
			for i := range n {
				p.allow(fmt.Sprintf("user:far-%d", i), hour, 10)
				p.deny(fmt.Sprintf("user:far-%d", i), hour, 20)
			}
		},
	},
	{
		name: "share of many keys together", finding: doctor.TooStrict, not: 36, found: 16,
		play: func(p *played, n int64) { // around 100/4, by what the estimate of 200 keys may differ
			p.blurred = true
			for i := range 200 {
				p.allow(fmt.Sprintf("user:%d", i), hour, 150)
				p.deny(fmt.Sprintf("user:%d", i), hour, n)
			}
		},
	},
	{
		name: "many keys, of which few are denied", finding: doctor.TooStrict, not: 5, found: 40,
		play: func(p *played, n int64) {
			p.blurred = true
			for i := range int64(200) {
				p.allow(fmt.Sprintf("user:%d", i), hour, 150)
				if i < n {
					p.deny(fmt.Sprintf("user:%d", i), hour, 10)
				}
			}
		},
	},
	{
		name: "minutes in which as much passed", finding: doctor.TooStrict, not: 2, found: 1,
		play: func(p *played, n int64) { // ten minutes with denials, of which n have nothing else
			strictDay(p, 10, 1)
			for i := range int64(9) {
				at := hour.Add(time.Duration(2+3*i) * time.Minute)
				p.deny(fmt.Sprintf("user:%d", i), at, 1)
				if i >= n {
					p.allow(fmt.Sprintf("user:%d", i), at.Add(time.Minute), 2)
				}
			}
		},
	},
	{
		name: "share of three keys", finding: doctor.Abuse, not: 79, found: 80,
		play: func(p *played, n int64) {
			busy(p, hour, 10, 5)
			p.deny("user:a", hour, n-20)
			p.deny("user:b", hour, 10)
			p.deny("user:c", hour, 10)
			for i := range 100 - n {
				p.deny(fmt.Sprintf("user:other-%d", i), hour, 1)
			}
		},
	},
	{
		name: "denials in a day", finding: doctor.Abuse, not: 99, found: 100,
		play: func(p *played, n int64) { busy(p, hour, 10, 5); p.deny("user:a", hour, n) },
	},
	{
		name: "keys in a day", finding: doctor.Abuse, not: 9, found: 10,
		play: func(p *played, n int64) { busy(p, hour, int(n)-1, 5); p.deny("user:a", hour, 100) },
	},
	{
		name: "error of the counts", finding: doctor.Abuse, not: 21, found: 20,
		play: func(p *played, n int64) { p.error = n; busy(p, hour, 10, 5); p.deny("user:a", hour, 100) },
	},
	{
		name: "share of the limit in a second", finding: doctor.UselessInBursts, not: 49, found: 50,
		edit: global("sliding_window_counter", 100, 60_000),
		play: func(p *played, n int64) { p.allow("global", hour, n) },
	},
	{
		name: "times the rate", finding: doctor.UselessInBursts, not: 99, found: 100,
		edit: global("sliding_window_counter", 100, 10_000),
		play: func(p *played, n int64) { p.allow("global", hour, n) },
	},
	{
		name: "requests of a burst", finding: doctor.UselessInBursts, not: 9, found: 10,
		edit: global("sliding_window_counter", 10, 60_000),
		play: func(p *played, n int64) { p.allow("global", hour, n) },
	},
	{
		name: "burst of one of two keys", finding: doctor.UselessInBursts, not: 98, found: 99,
		play: func(p *played, n int64) { p.allow("user:a", hour, n-40); p.allow("user:b", hour, 40) },
	},
	{
		name: "keys of a burst are known", finding: doctor.UselessInBursts, not: 1, found: 0,
		play: func(p *played, n int64) { p.rest = n; p.allow("user:a", hour, 90) },
	},
	{
		name: "boundary of a minute", finding: doctor.WindowBoundary, not: 149, found: 150,
		edit: global("fixed_window", 100, 60_000),
		play: func(p *played, n int64) {
			at := now.Truncate(time.Minute).Add(-2 * time.Minute)
			p.allow("global", at.Add(-time.Second), n-100)
			p.allow("global", at, 100)
		},
	},
	{
		name: "span of a window", finding: doctor.WindowBoundary, not: 60, found: 58,
		edit: global("fixed_window", 100, 60_000),
		play: func(p *played, n int64) {
			at := now.Truncate(time.Minute).Add(-2 * time.Minute)
			p.allow("global", at.Add(-time.Second), 100)
			p.allow("global", at.Add(time.Duration(n-1)*time.Second), 100)
		},
	},
	{
		name: "boundary of an hour", finding: doctor.WindowBoundary, not: 149, found: 150,
		edit: func(r *rules.Rule) { r.Algorithm, r.WindowMS = "fixed_window", 3_600_000 },
		play: func(p *played, n int64) {
			p.allow("user:a", hour.Add(-time.Minute), n-100)
			p.allow("user:a", hour, 100)
		},
	},
	{
		name: "stricter rule denied", finding: doctor.Shadowed, not: 0, found: 1,
		others: []rules.Rule{ruleOf(2, "strict", func(r *rules.Rule) { r.Limit = 99 })},
		play: func(p *played, n int64) {
			p.allow("user:a", lastWeek, 1000)
			p.play("strict", "user:a", lastWeek, n, history.Figures{Denied: 1})
		},
	},
	{
		name: "denied nothing", finding: doctor.Shadowed, not: 1, found: 0,
		others: []rules.Rule{ruleOf(2, "strict", func(r *rules.Rule) { r.Limit = 99 })},
		play: func(p *played, n int64) {
			p.allow("user:a", lastWeek, 1000)
			p.deny("user:a", lastWeek, n)
			p.play("strict", "user:a", lastWeek, 5, history.Figures{Denied: 1})
		},
	},
	{
		name: "requests of a shadowed rule", finding: doctor.Shadowed, not: 999, found: 1000,
		others: []rules.Rule{ruleOf(2, "strict", func(r *rules.Rule) { r.Limit = 99 })},
		play: func(p *played, n int64) {
			p.allow("user:a", lastWeek, n)
			p.play("strict", "user:a", lastWeek, 5, history.Figures{Denied: 1})
		},
	},
	{
		name: "highest use", finding: doctor.FarAboveUse, not: 21, found: 20,
		play: func(p *played, n int64) { use(p, lastWeek, n, 1000) },
	},
	{
		name: "requests with a use", finding: doctor.FarAboveUse, not: 999, found: 1000,
		play: func(p *played, n int64) { use(p, lastWeek, 5, n) },
	},
	{
		name: "an hour without a known use", finding: doctor.FarAboveUse, not: 1, found: 0,
		play: func(p *played, n int64) {
			use(p, lastWeek, 5, 1000)
			p.play("r", "user:a", hour, n, history.Figures{Allowed: 1})
		},
	},
	{
		name: "requests of an override", finding: doctor.UnusedOverride, not: 1, found: 0,
		play: func(p *played, n int64) {
			p.overrides = overridesOf("user:vip")
			p.allow("user:a", lastWeek, 10)
			if n > 0 {
				p.allow("user:vip", lastWeek, n)
			}
		},
	},
	{
		name: "every key is known", finding: doctor.UnusedOverride, not: 1, found: 0,
		play: func(p *played, n int64) {
			p.overrides, p.rest = overridesOf("user:vip"), n
			p.allow("user:a", lastWeek, 10)
		},
	},
	{
		name: "wildcards of a rule in use", finding: doctor.UnusedOverride, not: 1, found: 0,
		play: func(p *played, n int64) {
			p.overrides = overridesOf("user:acme-*")
			p.allow("user:a", lastWeek, n)
		},
	},
	{
		name: "a shadow rule would have denied", finding: doctor.QuietTrial, edit: shadow, not: 1, found: 0,
		play: func(p *played, n int64) {
			p.allow("user:a", lastWeek, 1000)
			p.play("r", "user:a", lastWeek, n, history.Figures{Allowed: 1, WouldDeny: 1})
		},
	},
	{
		name: "requests of a shadow rule", finding: doctor.QuietTrial, edit: shadow, not: 999, found: 1000,
		play: func(p *played, n int64) { p.allow("user:a", lastWeek, n) },
	},
	{
		name: "a candidate would have allowed", finding: doctor.QuietTrial, not: 1, found: 0,
		edit: func(r *rules.Rule) { r.Candidate = &rules.Candidate{Limit: ptr(int64(50))} },
		play: func(p *played, n int64) {
			p.allow("user:a", lastWeek, 1000)
			p.play("r", "user:a", lastWeek, n, history.Figures{Denied: 1, WouldAllow: 1})
		},
	},
	{
		name: "failures in a day", finding: doctor.ConditionFailed, not: 0, found: 1,
		play: func(p *played, n int64) {
			p.allow("user:a", hour, 10)
			p.play("r", "user:a", lastWeek, 5, history.Figures{Allowed: 1, Failed: 1})
			p.play("r", "user:a", hour, n, history.Figures{Allowed: 1, Failed: 1})
		},
	},
	{
		name: "requests with the field", finding: doctor.UnguardedField, not: 0, found: 1,
		edit: func(r *rules.Rule) { r.WeightField = ptr("bytes") },
		play: func(p *played, n int64) { p.allow("user:a", lastWeek, 10); p.allow("user:a", hour, n) },
	},
}

func TestExamine_AFieldIsGuardedByARuleOrAllowedByTheCondition(t *testing.T) {
	weighted := func(edit func(*rules.Rule)) rules.Rule {
		return ruleOf(1, "r", func(r *rules.Rule) { r.WeightField = ptr("bytes"); edit(r) })
	}
	guard := func(edit func(*rules.Rule)) []rules.Rule {
		return []rules.Rule{ruleOf(2, "guard", func(r *rules.Rule) {
			r.Scope, r.Limit, r.When = scope.Global, 0, ptr(`"bytes" not in fields`)
			edit(r)
		})}
	}
	when := func(condition string) func(*rules.Rule) { return func(r *rules.Rule) { r.When = &condition } }
	same := func(*rules.Rule) {}
	for name, tt := range map[string]struct {
		rule  rules.Rule
		other []rules.Rule
		found bool
	}{
		"nothing":          {weighted(same), nil, true},
		"no field":         {ruleOf(1, "r", nil), nil, false},
		"a shadow rule":    {weighted(shadow), nil, false},
		"by report":        {weighted(func(r *rules.Rule) { r.ChargeOn = rules.ChargeOnReport }), nil, false},
		"a guard":          {weighted(same), guard(same), false},
		"a guard on trial": {weighted(same), guard(shadow), true},
		"with a limit":     {weighted(same), guard(func(r *rules.Rule) { r.Limit = 1 }), true},
		"about the user":   {weighted(same), guard(when(`user == "bytes"`)), true},
		"a condition":      {weighted(when(`"bytes" in fields`)), nil, false},
	} {
		p := &played{}
		p.allow("user:a", hour, 10)
		got := examine(t, p, append([]rules.Rule{tt.rule}, tt.other...)...)
		if found := slices.Contains(names(got.Findings), doctor.UnguardedField); found != tt.found {
			t.Errorf("%s: found %v, want %v", name, found, tt.found)
		}
	}
}

func overridesOf(key string) []rules.Override {
	o := rules.Override{ID: 1, RuleID: 1, Key: key, UpdatedAt: now.Add(-30 * history.Day)}
	k, err := match.ParseOverrideKey("user", match.Options{}, key)
	if err != nil {
		panic(err)
	}
	o.Match, o.Prefix = k.Match, k.Prefix
	return []rules.Override{o}
}

func TestDoctor_FindsOnOneSideOfEachThreshold(t *testing.T) {
	tried := map[string]bool{doctor.DeniesMore: true} // edited_test.go plays it
	for _, s := range sides {
		tried[s.finding] = true
		t.Run(s.finding+", "+s.name, func(t *testing.T) {
			list := append([]rules.Rule{ruleOf(1, "r", s.edit)}, s.others...)
			for _, n := range []int64{s.not, s.found} {
				p := &played{}
				s.play(p, n)
				got := examine(t, p, list...).Findings
				if found := slices.Contains(names(got), s.finding); found != (n == s.found) {
					t.Errorf("with %d: %+v, want %s: %t", n, got, s.finding, n == s.found)
				}
			}
		})
	}
	for _, k := range doctor.Kinds {
		if !tried[k.Name] {
			t.Errorf("no traffic is played for %s", k.Name)
		}
	}
}

// TestDoctor_NothingIsFoundWithoutEvidence plays all traffic that has findings while figures are missing.
func TestDoctor_NothingIsFoundWithoutEvidence(t *testing.T) {
	for _, s := range sides {
		rule := ruleOf(1, "r", s.edit)
		unknown := &played{}
		s.play(unknown, s.found)
		unknown.known = now.Add(time.Hour)
		partial := &played{partial: errors.New("the counters are unavailable")}
		s.play(partial, s.found)
		for what, p := range map[string]*played{"unknown": unknown, "partial": partial} {
			got := examine(t, p, append([]rules.Rule{rule}, s.others...)...)
			if len(got.Findings) > 0 || (got.Partial == nil) != (what == "unknown") {
				t.Errorf("%s, %s: %+v", s.name, what, got)
			}
		}
		off := ruleOf(1, "r", s.edit)
		off.UpdatedAt = now
		p := &played{}
		s.play(p, s.found)
		if got := examine(t, p, append([]rules.Rule{off}, s.others...)...); slices.Contains(names(got.Findings), s.finding) {
			t.Errorf("%s, just changed: %+v", s.name, got)
		}
	}
}

// TestDoctor_BucketsAreMadeForBursts plays a burst that is remarkable for any other algorithm.
func TestDoctor_BucketsAreMadeForBursts(t *testing.T) {
	for algorithm, want := range map[string]bool{"sliding_window_log": true, "fixed_window": true, "gcra": false,
		"token_bucket": false} {
		p := &played{}
		p.allow("global", hour, 100)
		got := examine(t, p, ruleOf(1, "r", global(algorithm, 100, 60_000))).Findings
		if found := slices.Contains(names(got), doctor.UselessInBursts); found != want {
			t.Errorf("%s: %+v", algorithm, got)
		}
	}
}

func TestDoctor_SaysSinceWhenItHasFigures(t *testing.T) {
	p := &played{known: ended.Add(-30 * time.Hour)}
	p.deny("user:a", hour, 100)
	got := examine(t, p, ruleOf(1, "r", nil))
	if !got.Since.Equal(p.known) || len(got.Findings) != 1 {
		t.Fatalf("report %+v", got)
	}
	f := got.Findings[0]
	if f.Rule != "r" || f.Finding != doctor.DeniesMost || !f.Since.Equal(ended.Add(-24*time.Hour)) ||
		f.Numbers["denied"] != 100 || f.Numbers["denied_percent"] != 100 ||
		f.Link != "/console/traffic?by=key&range=24h&rule=r" || f.Text == "" {
		t.Errorf("finding %+v", f)
	}
	if got := examine(t, &played{known: now}, ruleOf(1, "r", nil)); !got.Since.IsZero() {
		t.Errorf("since %v, want none", got.Since)
	}
}

func at(route string) func(*rules.Rule) {
	return func(r *rules.Rule) { r.Route = &route }
}

// TestKinds_StandInTheDocs compares the thresholds with docs/doctor.md.
func TestKinds_StandInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range doctor.Kinds {
		if line := "| `" + k.Name + "` | " + k.When + " |"; !strings.Contains(string(page), line) {
			t.Errorf("docs/doctor.md lacks %q", line)
		}
	}
}
