package database

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

var grace = rules.Actor{Kind: "user", Name: "grace"}

func toShadow(r *rules.Rule) { r.Mode = rules.ModeShadow }

// bulkOf creates rules and edits them at once.
func bulkOf(t *testing.T, d *DB, n int, edit func(*rules.Rule)) (created []rules.Rule, bulk int64) {
	t.Helper()
	many := make([]rules.Rule, n)
	for i := range many {
		many[i] = sample(fmt.Sprintf("rule-%05d", i))
	}
	if err := d.ApplyPlan(t.Context(), ada, rules.MakePlan(nil, many, false)); err != nil {
		t.Fatal(err)
	}
	created, _, err := loadAllRules(t.Context(), d)
	if err != nil || len(created) != n {
		t.Fatalf("%d rules, %v", len(created), err)
	}
	seen := make([]rules.SeenVersion, n)
	for i := range created {
		seen[i] = rules.SeenVersion{ID: created[i].ID, Version: 1}
	}
	done, err := d.EditRules(t.Context(), ada, seen, edit)
	if err != nil || done.Changed != n || done.Bulk == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	return created, done.Bulk
}

// mustChange edits a rule.
func mustChange(t *testing.T, d *DB, id int64, edit func(*rules.Rule)) {
	t.Helper()
	r, err := d.GetRule(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	edit(&r)
	if _, err := d.UpdateRule(t.Context(), grace, r, 0); err != nil {
		t.Fatal(err)
	}
}

func mustAudit(t *testing.T, d *DB, q audit.Query) []audit.Entry {
	t.Helper()
	list, err := d.ListAudit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestUndoBulk_RestoresWhatIsAsTheEditLeftItAndNamesTheRest(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		created, bulk := bulkOf(t, d, 6, toShadow)
		mustChange(t, d, created[1].ID, func(r *rules.Rule) { r.Limit = 77 })
		if err := d.DeleteRule(t.Context(), grace, created[2].ID, 0); err != nil {
			t.Fatal(err)
		}
		mustChange(t, d, created[3].ID, func(r *rules.Rule) { r.Mode = rules.ModeEnforce }) // as before
		before := mustVersions(t, d)
		plan, err := d.PlanUndo(t.Context(), bulk, 2)
		if err != nil || plan.Changed != 3 || plan.Same != 1 || len(plan.Skipped) != 2 || len(plan.Sample) != 2 ||
			plan.Sample[1].Rule.Name != "rule-00004" || len(plan.Sample[1].Changes) != 1 {
			t.Fatalf("the plan is %+v, %v", plan, err)
		}
		if after := mustVersions(t, d); after != before {
			t.Fatalf("a plan made version %+v of %+v", after, before)
		}
		got, err := d.UndoBulk(t.Context(), grace, bulk)
		if err != nil || got.Changed != 3 || got.Same != 1 || len(got.Skipped) != 2 || got.Bulk != before.Rules+1 {
			t.Fatalf("%+v after version %d, %v", got, before.Rules, err)
		}
		if s := got.Skipped; !errors.Is(s[0].Err, rules.ErrStale) || s[0].Name != "rule-00001" ||
			!errors.Is(s[1].Err, rules.ErrNotFound) || s[1].Name != "rule-00002" {
			t.Errorf("skipped %+v", s)
		}
		want := map[string]string{"rule-00000": "enforce 5 v3", "rule-00001": "shadow 77 v3", "rule-00003": "enforce 5 v3",
			"rule-00004": "enforce 5 v3", "rule-00005": "enforce 5 v3"}
		now, _, err := loadAllRules(t.Context(), d)
		if err != nil || len(now) != len(want) {
			t.Fatalf("%d rules, %v", len(now), err)
		}
		for _, r := range now {
			if is := fmt.Sprintf("%s %d v%d", r.Mode, r.Limit, r.Version); is != want[r.Name] {
				t.Errorf("%s is %s, want %s", r.Name, is, want[r.Name])
			}
		}
		past, err := d.RuleHistory(t.Context(), created[0].ID, 1, 0)
		if err != nil || past[0].Action != "rollback" || past[0].Actor != grace || len(past[0].Changes) != 1 {
			t.Errorf("history: %+v, %v", past, err)
		}
		// Again, nothing is left to undo, and nothing is written.
		again, err := d.UndoBulk(t.Context(), grace, bulk)
		if err != nil || again.Changed != 0 || again.Bulk != 0 || again.Same != 4 || len(again.Skipped) != 2 {
			t.Errorf("again: %+v, %v", again, err)
		}
		if after := mustVersions(t, d); after.Rules != before.Rules+1 {
			t.Errorf("nothing was undone, but version %d follows %d", after.Rules, before.Rules+1)
		}
		if _, err := d.UndoBulk(t.Context(), grace, bulk+1000); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("an edit that never was: %v", err)
		}
		if _, err := d.PlanUndo(t.Context(), bulk+1000, 1); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("the plan of an edit that never was: %v", err)
		}
		// The undoing is an edit that can be undone.
		if redo, err := d.UndoBulk(t.Context(), ada, got.Bulk); err != nil || redo.Changed != 3 {
			t.Errorf("undoing the undoing: %+v, %v", redo, err)
		}
	})
}

func TestEditRules_IsOneAuditEntryAboutEachRule(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		created, bulk := bulkOf(t, d, 3, toShadow)
		other := mustCreate(t, d, sample("other"))
		first := mustAudit(t, d, audit.Query{SubjectKind: audit.SubjectBulk})
		if len(first) != 1 {
			t.Fatalf("%d entries", len(first))
		}
		e := first[0]
		if e.Action != "update" || e.SubjectID != bulk || e.SubjectName != "3 rules" || e.Actor != ada {
			t.Errorf("the entry is %+v", e)
		}
		want := []audit.BulkRule{{ID: created[0].ID, Name: "rule-00000", Version: 2},
			{ID: created[1].ID, Name: "rule-00001", Version: 2}, {ID: created[2].ID, Name: "rule-00002", Version: 2}}
		if b := e.Bulk(); b.Rules != 3 || !slices.Equal(b.Listed, want) {
			t.Errorf("it lists %+v", b)
		}
		if c := e.Changes(); len(c) != 1 || c[0].Field != "mode" || c[0].Old != "enforce" || c[0].New != "shadow" {
			t.Errorf("its changes are %+v", c)
		}
		for _, tt := range []struct {
			q    audit.Query
			want int
		}{
			{audit.Query{SubjectKind: subjectRule, SubjectID: created[1].ID}, 2},
			{audit.Query{SubjectKind: subjectRule, SubjectID: other.ID}, 1},
			{audit.Query{SubjectKind: subjectRule}, 5},
			{audit.Query{Subject: "rule-00002"}, 2},
			{audit.Query{Subject: "oth"}, 1},
			{audit.Query{Subject: "rule_0"}, 0}, // _ stands for itself
			{audit.Query{SubjectKind: audit.SubjectBulk, SubjectID: bulk}, 1},
			{audit.Query{SubjectKind: "pool", SubjectID: bulk}, 0},
			{audit.Query{SubjectKind: subjectRule, SubjectID: created[1].ID, Action: "update"}, 1},
		} {
			if got := mustAudit(t, d, tt.q); len(got) != tt.want {
				t.Errorf("%+v: %d entries, want %d", tt.q, len(got), tt.want)
			}
		}
		why := rules.Actor{Kind: "user", Name: "grace", Reason: "a mistake", Undoes: e.ID}
		if _, err := d.UndoBulk(t.Context(), why, bulk); err != nil {
			t.Fatal(err)
		}
		undo := mustAudit(t, d, audit.Query{Limit: 1})[0]
		if undo.Action != "rollback" || undo.SubjectKind != audit.SubjectBulk || undo.Undoes() != e.ID ||
			undo.Reason() != "a mistake" || undo.Bulk().Rules != 3 {
			t.Errorf("the entry of the undoing is %+v", undo)
		}
	})
}

// With as many rules as the console allows, the entry has a bounded size. A change keeps only a batch in memory.
func TestUndoBulk_OfManyIsOneBoundedEntry(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		const n = rules.MaxBulk
		created, bulk := bulkOf(t, d, n, func(r *rules.Rule) { r.Owner = new("team " + r.Name) })
		mustChange(t, d, created[n-1].ID, func(r *rules.Rule) { r.Limit = 77 })
		err := d.change(t.Context(), ada, areaRules, patience, func(c *change) error {
			c.bulk = &bulkEntry{action: actionUpdate}
			for some := range slices.Chunk(created, insertBatch) {
				seen := make([]rules.SeenVersion, len(some))
				for i := range some {
					seen[i].ID = some[i].ID
				}
				if err := c.editSome(seen, toShadow, &rules.BulkResult{}); err != nil {
					return err
				}
				if len(c.revisions) >= insertBatch || len(c.entries) > 0 {
					t.Errorf("the change keeps %d revisions and %d entries", len(c.revisions), len(c.entries))
				}
			}
			return errNothing
		})
		if !errors.Is(err, errNothing) {
			t.Fatal(err)
		}
		before := mustVersions(t, d)
		got, err := d.UndoBulk(t.Context(), grace, bulk)
		if err != nil || got.Changed != n-1 || len(got.Skipped) != 1 || got.Skipped[0].Name != created[n-1].Name {
			t.Fatalf("%d undone, skipped %+v, %v", got.Changed, got.Skipped, err)
		}
		if after := mustVersions(t, d); after.Rules != before.Rules+1 {
			t.Errorf("version %d after %d", after.Rules, before.Rules)
		}
		for _, e := range mustAudit(t, d, audit.Query{SubjectKind: audit.SubjectBulk}) {
			if b := e.Bulk(); b.Rules < n-1 || len(b.Listed) != listedRules || len(e.Changes()) != listedChanges ||
				len(e.Details) > 16<<10 {
				t.Errorf("%d rules, %d listed, %d changes, %d bytes", b.Rules, len(b.Listed), len(e.Changes()),
					len(e.Details))
			}
		}
		now, _, err := loadAllRules(t.Context(), d)
		if err != nil || slices.ContainsFunc(now, func(r rules.Rule) bool { return r.Owner != nil && r.Limit != 77 }) {
			t.Errorf("a rule has its owner still, %v", err)
		}
	})
}

// Of two people who undo an edit at the same time, one restores all rules, and the other finds them restored.
func TestUndoBulk_TwoAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		_, bulk := bulkOf(t, d, 3, toShadow)
		var both [2]rules.BulkResult
		var errs [2]error
		var wait sync.WaitGroup
		for i, actor := range []rules.Actor{ada, grace} {
			wait.Go(func() { both[i], errs[i] = d.UndoBulk(t.Context(), actor, bulk) })
		}
		wait.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		if both[0].Changed+both[1].Changed != 3 || both[0].Same+both[1].Same != 3 ||
			both[0].Changed != 0 && both[1].Changed != 0 {
			t.Errorf("%+v and %+v", both[0], both[1])
		}
		if n := len(mustAudit(t, d, audit.Query{Action: "rollback"})); n != 1 {
			t.Errorf("%d entries of undoing", n)
		}
	})
}

// A rule whose former content is no longer allowed is skipped. The others are restored.
func TestUndoBulk_SkipsWhatIsNoLongerAllowed(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		pool, err := d.Pools().Create(t.Context(), ada, rules.Pool{Name: "shop", Limit: 5, WindowMS: 1000})
		if err != nil {
			t.Fatal(err)
		}
		pooled := sample("pooled")
		pooled.Pool = new("shop")
		a, b := mustCreate(t, d, pooled), mustCreate(t, d, sample("plain"))
		done, err := d.EditRules(t.Context(), ada, []rules.SeenVersion{{ID: a.ID}, {ID: b.ID}}, func(r *rules.Rule) {
			r.Pool, r.Owner = nil, new("team")
		})
		if err != nil || done.Changed != 2 {
			t.Fatalf("%+v, %v", done, err)
		}
		if err := d.Pools().Delete(t.Context(), ada, "shop", pool.Version); err != nil {
			t.Fatal(err)
		}
		plan, err := d.PlanUndo(t.Context(), done.Bulk, 10)
		if err != nil || plan.Changed != 1 || len(plan.Skipped) != 1 || len(plan.Sample) != 1 ||
			plan.Sample[0].Rule.Name != "plain" {
			t.Errorf("the plan is %+v, %v", plan, err)
		}
		got, err := d.UndoBulk(t.Context(), ada, done.Bulk)
		if err != nil || got.Changed != 1 || len(got.Skipped) != 1 || got.Skipped[0].Name != "pooled" ||
			!strings.Contains(got.Skipped[0].Err.Error(), "pool") {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A rule whose descriptor another active rule has is skipped, when it is switched on again or by undoing. The others
// are changed all the same.
func TestBulk_SkipsADescriptorThatIsTaken(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		entry := entries.Element{Key: "user"}
		a, b := mustCreate(t, d, describing("limit", "shop", entry)), mustCreate(t, d, sample("plain"))
		both := []rules.SeenVersion{{ID: a.ID}, {ID: b.ID}}
		off, err := d.EditRules(t.Context(), ada, both, func(r *rules.Rule) { r.IsActive = false })
		if err != nil || off.Changed != 2 {
			t.Fatalf("%+v, %v", off, err)
		}
		mustCreate(t, d, describing("other", "shop", entry))
		check := func(what string, got rules.BulkResult, err error) {
			t.Helper()
			if err != nil || got.Changed != 1 || len(got.Skipped) != 1 || got.Skipped[0].Name != "limit" ||
				!strings.Contains(got.Skipped[0].Err.Error(), "descriptor") {
				t.Errorf("%s: %+v, %v", what, got, err)
			}
		}
		plan, err := d.PlanUndo(t.Context(), off.Bulk, 10)
		check("planned", plan.BulkResult, err)
		got, err := d.UndoBulk(t.Context(), ada, off.Bulk)
		check("undone", got, err)
		mustChange(t, d, b.ID, func(r *rules.Rule) { r.IsActive = false })
		got, err = d.EditRules(t.Context(), ada, both, func(r *rules.Rule) { r.IsActive = true })
		check("switched on", got, err)
	})
}

// The undoing of one change is a usual change whose entry names the undone one.
func TestActor_UndoesIsInTheAuditEntry(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		undoing := ada
		undoing.Undoes = 4711
		r := mustCreate(t, d, sample("charges"))
		mustChange(t, d, r.ID, toShadow)
		if _, err := d.RollbackRule(t.Context(), undoing, r.ID, 1, 2); err != nil {
			t.Fatal(err)
		}
		if e := mustAudit(t, d, audit.Query{Limit: 1})[0]; e.Action != "rollback" || e.Undoes() != 4711 {
			t.Errorf("the entry is %+v", e)
		}
		o, err := d.CreateOverride(t.Context(), undoing, rules.Override{RuleID: r.ID, Key: "user:1", Blocked: true},
			match.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Blocked, o.Unlimited = false, true
		if o, err = d.UpdateOverride(t.Context(), undoing, o, 1, match.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := d.DeleteOverride(t.Context(), undoing, r.ID, o.ID, 2); err != nil {
			t.Fatal(err)
		}
		for _, e := range mustAudit(t, d, audit.Query{Limit: 3}) {
			if e.Undoes() != 4711 || !e.OfOverride() {
				t.Errorf("the entry is %+v", e)
			}
		}
		// The entry of a deleted override contains enough to create it again.
		deleted := mustAudit(t, d, audit.Query{Limit: 1})[0].Override().Was
		again, err := d.CreateOverride(t.Context(), ada, *deleted, match.Options{})
		if err != nil || !again.Same(deleted) || again.ID == o.ID {
			t.Errorf("%+v, %v", again, err)
		}
	})
}
