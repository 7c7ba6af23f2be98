package database

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
)

// policies are rules that together use every policy field.
func policies() []rules.Rule {
	from := time.Date(2026, 11, 27, 0, 0, 0, 1_000_000, time.UTC)
	until := from.Add(time.Hour)
	elastic := sample("elastic")
	elastic.Throttle, elastic.ElasticPercent, elastic.Pool, elastic.Priority = "elastic", ptr(int64(50)), ptr("shop"),
		ptr("critical")
	elastic.Tiers = map[string]rules.TierLimit{"free": {Limit: ptr(int64(2)), Burst: ptr(int64(3))},
		"staff": {Unlimited: true}}
	elastic.Schedule = &rules.Schedule{Zone: "Europe/Berlin", Windows: []rules.ScheduleWindow{
		{Days: []string{"mon", "sun"}, From: "22:00", To: "06:00", Percent: ptr(int64(0))},
		{From: "09:00", To: "24:00", Limit: ptr(int64(4)), Burst: ptr(int64(5))},
	}}
	elastic.ActiveFrom, elastic.ActiveUntil, elastic.When = &from, &until, ptr(`attributes.plan == "é" && weight > 10`)
	elastic.Candidate = &rules.Candidate{Limit: ptr(int64(0)), WindowMS: ptr(int64(500)), Burst: ptr(int64(1))}
	elastic.RetryJitterMS, elastic.HotKeys, elastic.HotRaisePercent = ptr(int64(0)), "leased", ptr(int64(10))

	monthly := sample("monthly")
	monthly.Algorithm, monthly.Burst, monthly.WindowMS = "fixed_window", nil, 366*86_400_000
	monthly.Throttle, monthly.SoftPercent = "soft", ptr(int64(10))
	monthly.Calendar = &rules.Calendar{Every: "year", Zone: "America/New_York", AnchorDay: 31, AnchorMonth: 3, At: "05:30"}
	monthly.OverLimit, monthly.Defer = "defer", &rules.Defer{MaxItems: 5, MaxAgeMS: 1000}

	reported := sample("reported")
	reported.ChargeOn = "report"
	return []rules.Rule{elastic, monthly, reported}
}

func TestPolicies_ComeBackFromTheDatabaseAsTheyWere(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		mustPool(t, d, "shop")
		for _, want := range policies() {
			created := mustCreate(t, d, want)
			got, err := d.GetRule(ctx, created.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(created, got); diff != "" {
				t.Errorf("%s: created (-), read (+):\n%s", want.Name, diff)
			}
			if changes := rules.Diff(&want, &got); len(changes) != 0 {
				t.Errorf("%s: changed %+v", want.Name, changes)
			}
			plain := sample(want.Name)
			plain.ID = created.ID
			if _, err := d.UpdateRule(ctx, ada, plain, 1); err != nil {
				t.Fatal(err)
			}
			back, err := d.RollbackRule(ctx, ada, created.ID, 1, 2)
			if err != nil || len(rules.Diff(&want, &back)) != 0 {
				t.Errorf("%s: rolled back to %+v, %v", want.Name, rules.Diff(&want, &back), err)
			}
		}
		src, err := d.LoadRules(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := match.CompileSource(src, match.Options{}); err != nil {
			t.Error(err)
		}
	})
}

// A row whose policies were damaged by hand is listed, and refuses to compile
// instead of being in force without what it said.
func TestPolicies_DamagedRowsAreListedAndDoNotCompile(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		r := mustCreate(t, d, sample("r"))
		damage := func(set string, args ...any) {
			t.Helper()
			if err := d.write.Exec("UPDATE rules SET "+set, args...).Error; err != nil {
				t.Fatal(err)
			}
			src, err := d.LoadRules(t.Context())
			if err != nil || len(src.Rules) != 1 {
				t.Fatalf("%s %v: %+v, %v", set, args, src, err)
			}
			if _, err := match.CompileSource(src, match.Options{}); err == nil {
				t.Errorf("%s %v: a damaged rule compiles", set, args)
			}
			// Other fields cannot be edited over it, which would mend it silently.
			next := src.Rules[0].Clone()
			next.Limit++
			var invalid *field.ValidationError
			if _, err := d.UpdateRule(t.Context(), ada, next, 0); !errors.As(err, &invalid) {
				t.Errorf("%s %v: an edit of another field: %v", set, args, err)
			}
		}
		for _, name := range []string{"tiers", "schedule", "candidate", "calendar", "defer"} {
			damage("policies = ?", `{"`+name+`": "{\"half"}`)
			damage("policies = ?", `{"`+name+`": []}`)
		}
		damage("policies = ?", `{"pool": 5}`)
		damage("policies = ?", `{"of_a_newer_version": {"after": 3}}`)
		for _, text := range []string{"[]", "null", "7", `{"half`} {
			if err := d.write.Exec("UPDATE rules SET policies = ?", text).Error; err == nil {
				t.Errorf("%s is stored", text)
			}
		}
		if err := d.DeleteRule(t.Context(), ada, r.ID, 0); err != nil {
			t.Errorf("cannot be deleted: %v", err)
		}
	})
}

func TestPromoteRule_IsOneVersionWithItsOwnAction(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := sample("a")
		r.Candidate = &rules.Candidate{Limit: ptr(int64(7))}
		r = mustCreate(t, d, r)
		if _, err := d.PromoteRule(ctx, ada, r.ID, 9); !errors.Is(err, rules.ErrStale) {
			t.Errorf("stale: %v", err)
		}
		got, err := d.PromoteRule(ctx, ada, r.ID, 1)
		if err != nil || got.Version != 2 || got.Limit != 7 || got.Candidate != nil || *got.Burst != *r.Burst {
			t.Fatalf("got %+v, %v", got, err)
		}
		var invalid *field.ValidationError
		if _, err := d.PromoteRule(ctx, ada, r.ID, 0); !errors.As(err, &invalid) || invalid.Fields[0].Field != "candidate" {
			t.Errorf("with nothing to promote: %v", err)
		}
		if _, err := d.PromoteRule(ctx, ada, 1<<40, 0); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("no such rule: %v", err)
		}
		revs, err := d.RuleHistory(ctx, r.ID, 0, 0)
		if err != nil || len(revs) != 2 || revs[0].Action != "promote" || len(revs[0].Changes) != 2 {
			t.Errorf("history %+v, %v", revs, err)
		}
	})
}
