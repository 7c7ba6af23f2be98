package database

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm/logger"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/match"
)

// statementCounter counts the statements of a database.
type statementCounter struct {
	logger.Interface
	n atomic.Int64
}

// Trace implements logger.Interface.
func (s *statementCounter) Trace(context.Context, time.Time, func() (string, int64), error) {
	s.n.Add(1)
}

// TestApplyPlan_HandlesManyRulesWithEachStatement: with a statement for each rule,
// an import of 100,000 rules did not end.
func TestApplyPlan_HandlesManyRulesWithEachStatement(t *testing.T) {
	const n = 600
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		counter := &statementCounter{Interface: logger.Discard}
		d.write.Logger = counter
		shop := rules.Pool{Name: "shop", Limit: 10, WindowMS: 1000, NormalPercent: 80, LowPercent: 50}
		if _, err := d.Pools().Create(ctx, ada, shop); err != nil {
			t.Fatal(err)
		}
		wanted := func(limit int64) []rules.Rule {
			list := make([]rules.Rule, n)
			for i := range list {
				list[i] = sample(fmt.Sprintf("rule-%d", i))
				list[i].Limit = limit
				if i%3 == 0 {
					list[i].Throttle, list[i].ElasticPercent = "elastic", ptr[int64](150)
					list[i].Pool, list[i].Priority = ptr("shop"), ptr("normal")
				}
			}
			return list
		}
		apply := func(what string, list []rules.Rule) []rules.Rule {
			t.Helper()
			src, err := d.LoadAllRules(ctx)
			if err != nil {
				t.Fatal(err)
			}
			plan := rules.MakePlan(src.Rules, list, true)
			before := counter.n.Load()
			if err := d.ApplyPlan(ctx, ada, plan); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := counter.n.Load() - before; got == 0 || got > n/5 {
				t.Errorf("%s of %d rules takes %d statements", what, n, got)
			}
			if src, err = d.LoadAllRules(ctx); err != nil {
				t.Fatal(err)
			}
			if again := rules.MakePlan(src.Rules, list, true); !again.Empty() {
				t.Errorf("%s is not as planned: %d, %d, %d", what, len(again.Create), len(again.Update), len(again.Delete))
			}
			return src.Rules
		}
		created := apply("the creation", wanted(5))
		held, err := d.Versions(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			o := rules.Override{RuleID: created[i*200].ID, Key: "user:1", Blocked: true}
			if _, err := d.CreateOverride(ctx, ada, o, match.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		updated := apply("the update", wanted(6))
		for i := range updated {
			if updated[i].ID != created[i].ID || updated[i].Version != 2 || !updated[i].CreatedAt.Equal(created[i].CreatedAt) {
				t.Fatalf("%+v after %+v", updated[i], created[i])
			}
		}
		delta, _, ok, err := d.LoadChanges(ctx, held.Rules)
		if err != nil || !ok || len(delta.Changed) != n {
			t.Errorf("%d changed rules, %t, %v", len(delta.Changed), ok, err)
		}
		apply("the deletion", nil)
		delta, _, ok, err = d.LoadChanges(ctx, held.Rules)
		if err != nil || !ok || len(delta.Removed) != n {
			t.Errorf("%d removed rules, %t, %v", len(delta.Removed), ok, err)
		}
		for _, table := range []string{"rules", "rule_overrides"} {
			var rows int64
			if err := d.read.Table(table).Count(&rows).Error; err != nil || rows != 0 {
				t.Errorf("%d rows in %s, %v", rows, table, err)
			}
		}
		revisions, err := d.RuleHistory(ctx, created[n-1].ID, 10, 0)
		if err != nil || len(revisions) != 3 || revisions[1].Changes[0].Field != "limit" {
			t.Errorf("history: %+v, %v", revisions, err)
		}
		var did []string
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: subjectRule, SubjectID: created[n-1].ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			did = append(did, e.Action)
		}
		if got := strings.Join(did, " "); got != "delete import import" {
			t.Errorf("audit log: %s", got)
		}
	})
}
