package database

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/when"
)

// refusedField is the one field that a write was refused for, "" for none.
func refusedField(t *testing.T, err error) string {
	t.Helper()
	var invalid *field.ValidationError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &invalid) || len(invalid.Fields) != 1:
		t.Fatalf("got %v, want one field", err)
	}
	return invalid.Fields[0].Field
}

// conditionOf is a condition with some patterns of about 1,900 instructions each.
func conditionOf(patterns int) *string {
	all := make([]string, patterns)
	for i := range all {
		all[i] = fmt.Sprintf(`user matches "^(a?){%d}b$"`, 490-i)
	}
	text := strings.Join(all, " || ")
	return &text
}

// old is a condition with a pattern that is too large.
const old = `user matches "^(a?){1000}b$"`

// storeOld puts a condition into the database by hand.
func storeOld(t *testing.T, d *DB, id int64, when string) {
	t.Helper()
	policies, err := json.Marshal(map[string]string{"when": when})
	if err == nil {
		err = d.write.Exec("UPDATE rules SET policies = ? WHERE id = ?", string(policies), id).Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestPatterns_TooLargeIsRefusedOnlyWhereItIsNew(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		oversized := sample("oversized")
		oversized.When = ptr(old)
		if _, err := d.CreateRule(ctx, ada, oversized); refusedField(t, err) != "when" ||
			!strings.Contains(err.Error(), "line 1, column 6: the pattern has") {
			t.Errorf("create: %v", err)
		}
		r := mustCreate(t, d, sample("a"))
		r.When = ptr(old)
		if _, err := d.UpdateRule(ctx, ada, r, 0); refusedField(t, err) != "when" {
			t.Errorf("update: %v", err)
		}
		plan := rules.MakePlan(nil, []rules.Rule{oversized}, false)
		if err := d.ApplyPlan(ctx, ada, plan); refusedField(t, err) != "when" {
			t.Errorf("import: %v", err)
		}

		storeOld(t, d, r.ID, old)
		r.Limit++
		saved, err := d.UpdateRule(ctx, ada, r, 0)
		if err != nil || saved.When == nil || *saved.When != old {
			t.Fatalf("an edit of another field: %v, %v", saved.When, err)
		}
		src, err := d.LoadRules(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if set, err := match.CompileSource(src, match.Options{}); err != nil || len(set.OversizedPatterns()) != 1 {
			t.Errorf("what was stored before is not in force: %v", err)
		}
		r.When = nil
		if _, err := d.UpdateRule(ctx, ada, r, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := d.RollbackRule(ctx, ada, r.ID, saved.Version, 0); refusedField(t, err) != "when" {
			t.Errorf("rollback to the old condition: %v", err)
		}
	})
}

func TestPatterns_AllRulesTogetherHaveABound(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		many := sample("many")
		many.When = conditionOf(28)
		size := when.SizePatterns(many.When)
		if size.Largest > when.MaxPattern {
			t.Fatalf("a pattern has %d instructions", size.Largest)
		}
		mustCreate(t, d, many)
		many.Name = "again"
		again := many
		if _, err := d.CreateRule(ctx, ada, again); refusedField(t, err) != "when" ||
			!strings.Contains(err.Error(), fmt.Sprint(2*size.Total)) {
			t.Errorf("%d instructions each, the second rule: %v", size.Total, err)
		}
		again.When = nil
		again = mustCreate(t, d, again)

		storeOld(t, d, again.ID, *many.When) // more than is allowed
		edit := again
		edit.When, edit.Limit = many.When, 77
		if _, err := d.UpdateRule(ctx, ada, edit, 0); err != nil {
			t.Errorf("an edit of another field: %v", err)
		}
		edit.When = conditionOf(27)
		if _, err := d.UpdateRule(ctx, ada, edit, 0); err != nil {
			t.Errorf("an edit that makes it less: %v", err)
		}
		edit.When = many.When
		if _, err := d.UpdateRule(ctx, ada, edit, 0); refusedField(t, err) != "when" {
			t.Errorf("an edit that makes it more: %v", err)
		}
		mustCreate(t, d, sample("other"))
	})
}
