package app

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sluice/internal/audit"
	"sluice/internal/database"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/internal/testenv"
	"sluice/rules"
)

// A deleted rule has no page, so no mark of it leads there, whenever it was deleted.
func TestMarks_OfDeletedRulesLeadNowhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.db")
	testenv.SQLiteFrom(t, path, migrated)
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	db, err := database.Open(t.Context(), database.Options{DSN: path, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ada := rules.Actor{Kind: "user", Name: "ada"}
	kept := createRule(t, db, ada, "kept")
	gone := createRule(t, db, ada, "gone")
	begin, end := at, at.Add(time.Hour)
	at = at.Add(24 * time.Hour)
	if err := db.DeleteRule(t.Context(), ada, gone.ID, gone.Version); err != nil {
		t.Fatal(err)
	}
	m := &marks{changes: db, events: db,
		incidents: incident.NewReader(incident.NewLog("reader", "", now), db, now)}
	found, err := m.Marks(t.Context(), "", begin, end)
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, mark := range found {
		if want := map[string]int64{"kept": kept.ID, "gone": 0}[mark.Rule]; mark.RuleID != want {
			t.Errorf("the mark of %s leads to rule %d, want %d", mark.Rule, mark.RuleID, want)
		}
	}
}

// A bulk edit is one mark on the chart of all rules, and one on the chart of each of its rules.
func TestMarks_OfBulkEdits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.db")
	testenv.SQLiteFrom(t, path, migrated)
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	db, err := database.Open(t.Context(), database.Options{DSN: path, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ada := rules.Actor{Kind: "user", Name: "ada"}
	one, two, other := createRule(t, db, ada, "one"), createRule(t, db, ada, "two"), createRule(t, db, ada, "other")
	at = at.Add(time.Hour)
	done, err := db.EditRules(t.Context(), ada, []rules.SeenVersion{{ID: one.ID}, {ID: two.ID}},
		func(r *rules.Rule) { r.IsActive = false })
	if err != nil || done.Changed != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	m := &marks{changes: db, events: db,
		incidents: incident.NewReader(incident.NewLog("reader", "", now), db, now)}
	for rule, want := range map[string][]history.Mark{
		"": {{At: at, Kind: history.MarkChange, Rule: "2 rules", Who: "ada", Text: "bulk edit: is active true to false"}},
		"two": {{At: at, Kind: history.MarkChange, Rule: "two", RuleID: two.ID, Version: 2, Who: "ada",
			Text: "version 2: bulk edit of 2 rules: is active true to false"}},
		other.Name: nil,
	} {
		found, err := m.Marks(t.Context(), rule, at, at.Add(time.Minute))
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("%q: %+v, %v", rule, found, err)
		}
	}
}

// The mark of an incident has its length. One that began before a time and lasted into it belongs to it.
func TestMarks_IncidentsHaveTheirLength(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	m := &marks{changes: noChanges{}, events: noEvents{}, incidents: listed{
		{ID: "before", Kind: incident.Breaker, Server: "redis:1", Begin: at.Add(-time.Hour), End: at.Add(-time.Minute)},
		{ID: "into", Kind: incident.Database, Begin: at.Add(-time.Hour), End: at.Add(time.Minute), Cause: "timeout",
			Nodes: []string{"n1", "n2"}},
		{ID: "lasts", Kind: incident.Breaker, Server: "redis:1", Begin: at.Add(10 * time.Minute)},
		{ID: "lost", Kind: incident.Timeouts, Begin: at.Add(20 * time.Minute), Lost: true, Updated: at.Add(25 * time.Minute)},
	}}
	found, err := m.Marks(t.Context(), "", at, at.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	minute := func(of time.Time) float64 { return of.Sub(at).Minutes() }
	var got []string
	for i := range found {
		one := &found[i]
		until := "a moment"
		switch {
		case one.Incident && one.Until.IsZero():
			until = "lasts"
		case one.Incident:
			until = fmt.Sprint("until ", minute(one.Until))
		}
		got = append(got, fmt.Sprintf("%v %s: %s", minute(one.At), until, one.Text))
	}
	want := []string{"-60 until 1: rules database unavailable: timeout (2 nodes)", "1 a moment: rules database available",
		"10 lasts: breaker of redis:1 opened", "20 until 25: fail modes decide some requests"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// The newest marks are shown. An incident that began before the time is not among those that are left out.
func TestMarks_AreBounded(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	all := listed{{ID: "old", Kind: incident.Breaker, Begin: at.Add(-time.Hour)}}
	for i := range history.MaxMarks {
		all = append(all, incident.Incident{Kind: incident.Timeouts, Begin: at.Add(time.Duration(2*i) * time.Second),
			End: at.Add(time.Duration(2*i+1) * time.Second)})
	}
	m := &marks{changes: noChanges{}, events: noEvents{}, incidents: all}
	found, err := m.Marks(t.Context(), "", at, at.Add(time.Hour))
	if err != nil || len(found) != history.MaxMarks {
		t.Fatalf("%d marks, %v", len(found), err)
	}
	if first, last := found[0], found[len(found)-1]; !first.At.Equal(at.Add(-time.Hour)) ||
		!last.At.Equal(at.Add((2*history.MaxMarks-1)*time.Second)) || !found[1].At.After(at.Add(time.Minute)) {
		t.Errorf("from %v, %v to %v", first, found[1], last)
	}
}

type listed []incident.Incident

func (l listed) Incidents(context.Context, incident.Query) ([]incident.Incident, error) {
	return l, nil
}
func (l listed) Running(context.Context) ([]incident.Incident, error) { return nil, nil }

type noChanges struct{}

func (noChanges) ListAudit(context.Context, audit.Query) ([]audit.Entry, error) { return nil, nil }
func (noChanges) GetRuleByName(context.Context, string) (rules.Rule, error)     { return rules.Rule{}, nil }

type noEvents struct{ incident.Store }

func (noEvents) Events(context.Context, []string, time.Time, time.Time, int) ([]incident.Event, error) {
	return nil, nil
}

func createRule(t *testing.T, db *database.DB, by rules.Actor, name string) rules.Rule {
	t.Helper()
	r, err := db.CreateRule(t.Context(), by, rules.Rule{Name: name, Scope: "user", Mode: rules.ModeEnforce,
		Limit: 5, WindowMS: 1000, Algorithm: "fixed_window", IsActive: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
