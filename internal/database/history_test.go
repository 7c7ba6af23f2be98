package database

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
)

func TestHistory_TellsTheWholeLifeOfARule(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		bob := rules.Actor{Kind: "token", Name: "bob's ci"}
		v1 := mustCreate(t, d, sample("a"))
		edit := v1
		edit.Limit, edit.Name = 8, "b"
		v2, err := d.UpdateRule(ctx, bob, edit, 1)
		if err != nil {
			t.Fatal(err)
		}
		v3, err := d.RollbackRule(ctx, ada, v1.ID, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		if diff := rules.Diff(&v1, &v3); len(diff) != 0 || v3.Version != 3 || !v3.CreatedAt.Equal(v1.CreatedAt) ||
			!v3.UpdatedAt.After(v2.UpdatedAt) {
			t.Errorf("rolled back: got %+v", v3)
		}
		if err := d.DeleteRule(ctx, bob, v1.ID, 3); err != nil {
			t.Fatal(err)
		}
		if _, err := d.GetRule(ctx, v1.ID); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("after delete: %v", err)
		}
		got, err := d.RuleHistory(ctx, v1.ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		change := func(member string, was, is any) field.Change { return field.Change{Field: member, Old: was, New: is} }
		want := []rules.Revision{
			{Version: 4, Action: "delete", Actor: bob, Rule: v3, Changes: rules.Diff(&v3, nil)},
			{Version: 3, Action: "rollback", Actor: ada, Rule: v3, Changes: []field.Change{change("name", "b", "a"),
				change("limit", int64(8), int64(5))}},
			{Version: 2, Action: "update", Actor: bob, Rule: v2, Changes: []field.Change{change("name", "a", "b"),
				change("limit", int64(5), int64(8))}},
			{Version: 1, Action: "create", Actor: ada, Rule: v1, Changes: rules.Diff(nil, &v1)},
		}
		for i := range got {
			if got[i].At.IsZero() || i > 0 && !got[i-1].At.After(got[i].At) {
				t.Errorf("revision %d is at %v", got[i].Version, got[i].At)
			}
			want[i].At = got[i].At
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		page, err := d.RuleHistory(ctx, v1.ID, 2, 4)
		if diff := cmp.Diff(want[1:3], page); diff != "" || err != nil {
			t.Errorf("a page of history: %v (-want +got):\n%s", err, diff)
		}
		if rest, err := d.RuleHistory(ctx, v1.ID, 2, 1); len(rest) != 0 || err != nil {
			t.Errorf("below the first version: got %v, %v", rest, err)
		}
		if _, err := d.RuleHistory(ctx, 999, 0, 0); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("history of what never was: %v", err)
		}
		if _, err := d.RollbackRule(ctx, ada, v1.ID, 1, 0); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("rolling back a deleted rule: %v", err)
		}
		if again := mustCreate(t, d, sample("a")); again.ID <= v1.ID {
			t.Errorf("id %d came again after %d", again.ID, v1.ID)
		}
	})
}

func TestRollback_RefusesANameThatIsTakenByNow(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		a := mustCreate(t, d, sample("a"))
		edit := a
		edit.Name = "b"
		if _, err := d.UpdateRule(t.Context(), ada, edit, 0); err != nil {
			t.Fatal(err)
		}
		mustCreate(t, d, sample("a"))
		if _, err := d.RollbackRule(t.Context(), ada, a.ID, 1, 0); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("got %v, want %v", err, rules.ErrNameTaken)
		}
	})
}

func TestAudit_HasAnEntryForEveryChangeAndNamesTheFields(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		a := mustCreate(t, d, sample("a"))
		edit := a
		edit.Limit, edit.Route = 6, nil
		if _, err := d.UpdateRule(ctx, ada, edit, 1); err != nil {
			t.Fatal(err)
		}
		other := mustCreate(t, d, sample("other"))
		if err := d.DeleteRule(ctx, ada, a.ID, 0); err != nil {
			t.Fatal(err)
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: "rule", SubjectID: a.ID})
		if err != nil {
			t.Fatal(err)
		}
		var actions []string
		for _, e := range entries {
			actions = append(actions, e.Action)
			if e.Actor != ada || e.SubjectName != "a" || e.At.IsZero() {
				t.Errorf("entry %+v", e)
			}
		}
		if diff := cmp.Diff([]string{"delete", "update", "create"}, actions); diff != "" {
			t.Fatal(diff)
		}
		var details struct {
			Version int64          `json:"version"`
			Changes []field.Change `json:"changes"`
		}
		if err := json.Unmarshal(entries[1].Details, &details); err != nil {
			t.Fatal(err)
		}
		want := []field.Change{{Field: "route", Old: "/v1/charges"}, {Field: "limit", Old: 5.0, New: 6.0}}
		if diff := cmp.Diff(want, details.Changes); diff != "" || details.Version != 2 {
			t.Errorf("details of the update, version %d:\n%s", details.Version, diff)
		}
		all, err := d.ListAudit(ctx, audit.Query{Limit: 2})
		if err != nil || len(all) != 2 || all[1].SubjectID != other.ID {
			t.Errorf("newest two: %+v, %v", all, err)
		}
		older, err := d.ListAudit(ctx, audit.Query{Limit: 2, BeforeID: all[1].ID})
		if err != nil || len(older) != 2 || older[0].Action != "update" || older[1].Action != "create" {
			t.Errorf("the two before: %+v, %v", older, err)
		}
	})
}

func TestLastNames_OfRulesThatAreAndWere(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		a, b := mustCreate(t, d, sample("a")), mustCreate(t, d, sample("b"))
		a.Name = "renamed"
		if _, err := d.UpdateRule(t.Context(), ada, a, 0); err != nil {
			t.Fatal(err)
		}
		if err := d.DeleteRule(t.Context(), ada, b.ID, 0); err != nil {
			t.Fatal(err)
		}
		got, err := d.LastNames(t.Context(), []int64{a.ID, b.ID, 99})
		if diff := cmp.Diff(map[int64]string{a.ID: "renamed", b.ID: "b"}, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if got, err := d.LastNames(t.Context(), nil); len(got) != 0 || err != nil {
			t.Errorf("of no rules: %v, %v", got, err)
		}
	})
}

func TestHistory_SurvivesADamagedSnapshot(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		a := mustCreate(t, d, sample("a"))
		a.Limit++
		if _, err := d.UpdateRule(t.Context(), ada, a, 0); err != nil {
			t.Fatal(err)
		}
		if err := d.write.Exec(`UPDATE rule_revisions SET rule = '["no rule"]' WHERE version = 1`).Error; err != nil {
			t.Fatal(err)
		}
		revs, err := d.RuleHistory(t.Context(), a.ID, 0, 0)
		if err != nil || len(revs) != 2 || revs[0].Rule.Name != "a" || revs[1].Rule.ID != a.ID {
			t.Errorf("got %+v, %v", revs, err)
		}
		var invalid *field.ValidationError
		if _, err := d.RollbackRule(t.Context(), ada, a.ID, 1, 0); !errors.As(err, &invalid) {
			t.Errorf("rolling back to it: %v", err)
		}
	})
}

// TestRulesBackTo_LeadsBackToTheRulesOfAnInstant edits, creates and deletes rules after an instant, and undoes that.
func TestRulesBackTo_LeadsBackToTheRulesOfAnInstant(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		same, edited, deleted := mustCreate(t, d, sample("same")), mustCreate(t, d, sample("edited")),
			mustCreate(t, d, sample("deleted"))
		gone := mustCreate(t, d, sample("gone-before"))
		if err := d.DeleteRule(ctx, ada, gone.ID, 0); err != nil {
			t.Fatal(err)
		}
		past, err := d.RuleHistory(ctx, gone.ID, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := past[0].At
		edit := edited
		for edit.Limit = 8; edit.Limit < 10; edit.Limit++ {
			if _, err := d.UpdateRule(ctx, ada, edit, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.DeleteRule(ctx, ada, deleted.ID, 0); err != nil {
			t.Fatal(err)
		}
		created := mustCreate(t, d, sample("created"))

		back, ok, err := d.RulesBackTo(ctx, at, 3)
		if err != nil || !ok {
			t.Fatalf("ok %v, %v", ok, err)
		}
		now, err := match.Compile([]rules.Rule{same, edit, created}, 7, match.Options{})
		if err != nil {
			t.Fatal(err)
		}
		then, err := now.Apply(back)
		if err != nil {
			t.Fatal(err)
		}
		var got []rules.Rule
		for i := range then.Len() {
			got = append(got, then.At(i).Rule)
		}
		if diff := cmp.Diff([]rules.Rule{same, edited, deleted}, got); diff != "" {
			t.Errorf("the rules of then (-want +got):\n%s", diff)
		}
		if back, ok, err := d.RulesBackTo(ctx, at, 2); ok || err != nil || len(back.Changed)+len(back.Removed) > 0 {
			t.Errorf("more changes than asked for: %+v, %v, %v", back, ok, err)
		}
		if back, ok, err := d.RulesBackTo(ctx, created.CreatedAt, 3); !ok || err != nil ||
			len(back.Changed)+len(back.Removed) > 0 {
			t.Errorf("nothing has changed since: %+v, %v, %v", back, ok, err)
		}
	})
}
