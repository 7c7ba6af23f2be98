package rulefile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/rules"
	"sluice/rules/field"

	"github.com/google/go-cmp/cmp"
)

const policiesYAML = `pools:
  - name: shop
    description: all of the shop
    limit: 10000
    window_ms: 60000
    low_percent: 30
rules:
  - name: elastic
    scope: user
    limit: 10
    window_ms: 1000
    throttle: elastic
    elastic_percent: 50
    pool: shop
    priority: low
    tiers: {free: {limit: 5}, "pro plus": {limit: 100}, staff: {unlimited: true}}
    schedule:
      zone: Europe/Berlin
      windows:
        - {days: [sat, sun], from: "09:00", to: "24:00", percent: 50}
        - from: "22:00"
          to: "06:00"
          limit: 3
    active_from: "2026-11-27T00:00:00+01:00"
    active_until: "2026-12-01T00:00:00Z"
    when: attributes.plan == "trial" && weight > 10
    candidate: {limit: 7}
    retry_jitter_ms: 500
  - name: monthly
    scope: apikey
    algorithm: fixed_window
    limit: 5
    calendar: {every: quarter, zone: America/New_York, anchor_day: 31, anchor_month: 2, at: "05:30"}
    throttle: soft
    soft_percent: 10
    over_limit: defer
    defer: {max_items: 5}
    hot_keys: leased
    hot_raise_percent: 20
  - name: reported
    scope: user
    limit: 3
    window_ms: 86400000
    charge_on: report
    candidate: {limit: 7, algorithm: gcra, burst: 9}
    ban: {after: 20, within_ms: 60000, for_ms: 600000}
`

func policyRules() []rules.Rule {
	from := time.Date(2026, 11, 26, 23, 0, 0, 0, time.UTC)
	until := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	rs := []rules.Rule{
		{
			Name: "elastic", Scope: "user", Limit: 10, WindowMS: 1000, Throttle: "elastic", ElasticPercent: new(int64(50)),
			Pool: new("shop"), Priority: new("low"),
			Tiers: map[string]rules.TierLimit{"free": {Limit: new(int64(5))}, "pro plus": {Limit: new(int64(100))},
				"staff": {Unlimited: true}},
			Schedule: &rules.Schedule{Zone: "Europe/Berlin", Windows: []rules.ScheduleWindow{
				{Days: []string{"sat", "sun"}, From: "09:00", To: "24:00", Percent: new(int64(50))},
				{From: "22:00", To: "06:00", Limit: new(int64(3))},
			}},
			ActiveFrom: &from, ActiveUntil: &until, When: new(`attributes.plan == "trial" && weight > 10`),
			Candidate: &rules.Candidate{Limit: new(int64(7))}, RetryJitterMS: new(int64(500)),
		},
		{
			Name: "monthly", Scope: "apikey", Algorithm: "fixed_window", Limit: 5, WindowMS: 92 * 86_400_000,
			Calendar: &rules.Calendar{Every: "quarter", Zone: "America/New_York", AnchorDay: 31, AnchorMonth: 2, At: "05:30"},
			Throttle: "soft", SoftPercent: new(int64(10)), OverLimit: "defer", Defer: &rules.Defer{MaxItems: 5,
				MaxAgeMS: rules.DefaultDeferAge},
			HotKeys: "leased", HotRaisePercent: new(int64(20)),
		},
		{Name: "reported", Scope: "user", Limit: 3, WindowMS: 86_400_000, ChargeOn: "report",
			Candidate: &rules.Candidate{Limit: new(int64(7)), Algorithm: "gcra", Burst: new(int64(9))},
			Ban:       &rules.Ban{After: 20, WithinMS: 60_000, ForMS: 600_000, Grow: 1, MostMS: 38_400_000}},
	}
	for i := range rs {
		rs[i].IsActive = true
		rs[i].Normalize()
	}
	return rs
}

func TestParse_ReadsPoliciesAndPools(t *testing.T) {
	want := rules.File{
		Pools: []rules.Pool{{Name: "shop", Description: "all of the shop", Limit: 10000, WindowMS: 60000, NormalPercent: 80,
			LowPercent: 30}},
		Rules: policyRules(),
	}
	got, err := Parse([]byte(policiesYAML))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	text, err := Format(got)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(text)
	if d := cmp.Diff(want, back); d != "" || err != nil {
		t.Errorf("%v\n%s\n%s", err, d, text)
	}
	if p := rules.MakeFilePlan(want, back, true); !p.Empty() {
		t.Errorf("differs from itself:\n%s", p.String())
	}
	if err := got.CheckPools(nil); err != nil {
		t.Errorf("its own pool: %v", err)
	}
	got.Pools = nil
	if err := got.CheckPools(nil); err == nil || !strings.Contains(err.Error(), "rules[0].pool does not exist") {
		t.Errorf("missing pool: %v", err)
	}
}

func TestParse_NamesTheNestedFieldAndItsLine(t *testing.T) {
	for in, want := range map[string]string{
		`tiers: {free: {limt: 5}}`:     "rules[0].tiers.free.limt is not a known field (line 6)",
		`tiers: {free: {limit: five}}`: "rules[0].tiers.free.limit must be a whole number, not text (line 6)",
		`tiers: [1]`:                   "rules[0].tiers must be an object of tiers, not a list (line 6)",
		`tiers: {free: {}}`:            "rules[0].tiers.free.limit is required, unless the tier is unlimited (line 6)",
		`schedule: {windows: [{from: "9:00", to: "10:00", percent: 5}]}`: "rules[0].schedule.windows[0].from must " +
			"be a time of day from 00:00 to 23:59 (line 6)",
		`schedule: {windows: [{from: "09:00", to: "10:00"}], tz: x}`: "rules[0].schedule.tz is not a known " +
			"field (line 6)",
		"schedule:\n      windows:\n        - from: \"09:00\"\n          too: x": "rules[0].schedule.windows[0].too is not " +
			"a known field (line 9)",
		`schedule: {windows: [{days: [], from: "09:00", to: "10:00"}]}`: "rules[0].schedule.windows[0].days must " +
			"be a list of days of the week",
		`calendar: {every: month, anchor_day: 0}`: "rules[0].calendar.anchor_day must be " +
			"between 1 and 31",
		`candidate: {limit: 1, mode: x}`: "rules[0].candidate.mode is not a known " +
			"field (line 6)",
		"over_limit: defer\n    defer: {max_items: 0}": "rules[0].defer.max_items must be " +
			"between 1 and 1000000",
		`defer: {max_items: 0}`: "rules[0].defer applies only with " +
			"over_limit defer; leave it out (line 6)",
		`active_from: 2026`: "rules[0].active_from must be a time " +
			"such as 2026-11-27T00:00:00Z in quotes, not a whole number (line 6)",
		`active_from: "tomorrow"`: "rules[0].active_from must be a time " +
			"with date and offset",
		`when: plan == 1`: "rules[0].when line 1, column 1: unknown " +
			"name plan (line 6)",
		`priority: low`: "rules[0].priority applies only with a " +
			"pool; leave it out (line 6)",
	} {
		_, err := Parse([]byte("rules:\n  - name: a\n    scope: user\n    limit: 1\n    window_ms: 1000\n    " + in + "\n"))
		var ve *field.ValidationError
		if !errors.As(err, &ve) || !strings.Contains(ve.Error(), want) {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
	for in, want := range map[string]string{
		"pools:\n- name: a\n  limit: 1\nrules: []": "pools[0].window_ms must be between 1 and",
		"pools:\n- {name: a, limit: 1, window_ms: 1, low_percent: 90}\nrules: []": "pools[0].low_percent " +
			"must not be above normal_percent (line 2)",
		"pools:\n- {name: a, limit: 1, window_ms: 1, size: 90}\nrules: []": "pools[0].size is not " +
			"a field of a pool (line 2)",
		"pools: [{name: a, limit: 1, window_ms: 1}, {name: a, limit: 1, window_ms: 1}]\nrules: []": "pools[1].name is " +
			"already used by pools[0]",
		"pools: {}\nrules: []": "pools must be a list of pools",
		"pools: []":            "rules is missing",
	} {
		_, err := Parse([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
}

func TestMakeFilePlan_LeavesPoolsAloneThatTheFileSaysNothingAbout(t *testing.T) {
	shop, old := rules.NewPool(), rules.NewPool()
	shop.Name, shop.Limit, shop.WindowMS, shop.Version = "shop", 5, 1000, 3
	old.Name, old.Limit, old.WindowMS = "old", 5, 1000
	current := rules.File{Pools: []rules.Pool{old, shop}}
	if p := rules.MakeFilePlan(current, rules.File{}, true); !p.Empty() {
		t.Errorf("without a section: %s", p.String())
	}
	bigger, fresh := shop, shop
	bigger.Limit, bigger.Version, fresh.Name = 9, 0, "fresh"
	p := rules.MakeFilePlan(current, rules.File{Pools: []rules.Pool{fresh, bigger}}, true)
	if len(p.Pools.Create) != 1 || len(p.Pools.Update) != 1 || len(p.Pools.Delete) != 1 ||
		p.Pools.Update[0].New.Version != 3 {
		t.Fatalf("got %+v", p.Pools)
	}
	want := "+ pool fresh: 5 per second, normal 80%, low 50%\n~ pool shop\n    limit: 5 -> 9\n- pool old\n1 to " +
		"create, 1 to update, 1 to delete, 0 unchanged\n"
	if got := p.String(); got != want {
		t.Errorf("got %q", got)
	}
	if p := rules.MakeFilePlan(current, rules.File{Pools: []rules.Pool{fresh}}, false); len(p.Pools.Delete) != 0 {
		t.Error("deleted without prune")
	}
}
