package database

import (
	"testing"

	"sluice/rules"
)

// Every way to edit a rule stores what limited it before the last change of its algorithm's kind, and when that was.
func TestWrites_StoreTheLimitBeforeAnEditOfTheAlgorithm(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		r := rules.Rule{Name: "a", Scope: "user", Algorithm: "fixed_window", Limit: 5, WindowMS: 60_000, IsActive: true,
			Tiers: map[string]rules.TierLimit{"pro": {Limit: ptr[int64](50)}}}
		mustCreate(t, d, r)
		holds := func(what string, err error, algorithm string) rules.Rule {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			loaded, _, err := loadRules(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			is := loaded[0]
			switch f := is.Former; {
			case f == nil && algorithm == "":
			case f == nil || f.Algorithm != algorithm || f.Limit != 5 || *f.Tiers["pro"].Limit != 50:
				t.Errorf("%s: the former limit is %+v, want %q", what, f, algorithm)
			case is.Version > 1 && f.AtMS > is.UpdatedAt.UnixMilli():
				t.Errorf("%s: edited at %d, updated at %v", what, f.AtMS, is.UpdatedAt)
			}
			return is
		}
		edit := func(r rules.Rule, change func(*rules.Rule)) rules.Rule {
			next := r.Clone()
			change(&next)
			return next
		}
		to := func(algorithm string) func(*rules.Rule) { return func(r *rules.Rule) { r.Algorithm = algorithm } }

		r = holds("created", nil, "")
		_, err := d.UpdateRule(ctx, ada, edit(r, to("token_bucket")), 0)
		r = holds("an update", err, "fixed_window")
		at := r.Former.AtMS
		_, err = d.UpdateRule(ctx, ada, edit(r, func(r *rules.Rule) { r.Algorithm, r.Limit = "leaky_bucket", 5 }), 0)
		if r = holds("the same kind", err, "fixed_window"); r.Former.AtMS != at {
			t.Errorf("an edit within the kind moved the instant from %d to %d", at, r.Former.AtMS)
		}
		_, err = d.RollbackRule(ctx, ada, r.ID, 1, 0)
		r = holds("a rollback", err, "leaky_bucket")
		err = d.ApplyPlan(ctx, ada, rules.MakePlan([]rules.Rule{r}, []rules.Rule{edit(r, to("gcra"))}, false))
		r = holds("an import", err, "fixed_window")
		_, err = d.EditRules(ctx, ada, []rules.SeenVersion{{ID: r.ID, Version: r.Version}}, to("sliding_window_log"))
		r = holds("a bulk edit", err, "gcra")
		_, err = d.UpdateRule(ctx, ada, edit(r, func(r *rules.Rule) {
			r.Candidate = &rules.Candidate{Algorithm: "sliding_window_counter", Limit: ptr[int64](5)}
		}), 0)
		r = holds("a candidate", err, "gcra")
		_, err = d.PromoteRule(ctx, ada, r.ID, 0)
		r = holds("a promotion", err, "sliding_window_log")
		_, err = d.UpdateRule(ctx, ada, edit(r, to("concurrency")), 0)
		r = holds("to slots", err, "")

		_, err = d.UpdateRule(ctx, ada, edit(r, to("gcra")), 0)
		r = holds("from slots", err, "")
		_, err = d.UpdateRule(ctx, ada, edit(r, to("fixed_window")), 0)
		r = holds("once more", err, "gcra")
		if err := d.DeleteRule(ctx, ada, r.ID, 0); err != nil {
			t.Fatal(err)
		}
		_, err = d.CreateRule(ctx, ada, r)
		holds("created again", err, "")
	})
}

// A damaged column is no former limit, and the rule stays in force.
func TestLoadRules_BearsADamagedFormerLimit(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		mustCreate(t, d, sample("a"))
		if err := d.write.Exec("UPDATE rules SET former = '{'").Error; err != nil {
			t.Fatal(err)
		}
		if loaded, _, err := loadRules(t.Context(), d); err != nil || len(loaded) != 1 || loaded[0].Former != nil {
			t.Errorf("loaded %+v, %v", loaded, err)
		}
	})
}
