package app

import (
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/database"
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

func createRule(t *testing.T, db *database.DB, by rules.Actor, name string) rules.Rule {
	t.Helper()
	r, err := db.CreateRule(t.Context(), by, rules.Rule{Name: name, Scope: "user", Mode: rules.ModeEnforce,
		Limit: 5, WindowMS: 1000, Algorithm: "fixed_window", IsActive: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
