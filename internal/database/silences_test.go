package database

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"sluice/internal/alerts"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
)

// silenceFor is a silence of the denials of the rule charges for a while from the last reading of the clock.
func silenceFor(d *DB, length time.Duration) alerts.Silence {
	return alerts.Silence{Kind: "rule_denials", Rule: "charges", Reason: " a sale ", EndsAt: ptr(d.now().Add(length))}
}

func TestSilences_LiveAndAreAudited(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		s, err := d.CreateSilence(ctx, ada, silenceFor(d, time.Hour))
		if err != nil || s.ID == 0 || s.Version != 1 || s.By != "ada" || s.Reason != "a sale" || s.CreatedAt.IsZero() {
			t.Fatalf("got %+v, %v", s, err)
		}
		if v := mustVersions(t, d); v.Rules != 0 {
			t.Errorf("a silence changed the rules: %+v", v)
		}
		edit := s
		edit.Reason, edit.EndsAt = "a longer sale", ptr(s.EndsAt.Add(time.Hour))
		if _, err := d.UpdateSilence(ctx, ada, edit, 2); !errors.Is(err, rules.ErrStale) {
			t.Errorf("stale: %v", err)
		}
		if s, err = d.UpdateSilence(ctx, ada, edit, 1); err != nil || s.Version != 2 || s.Reason != "a longer sale" ||
			!s.EndsAt.Equal(*edit.EndsAt) || s.Rule != "charges" {
			t.Fatalf("got %+v, %v", s, err)
		}
		other := s
		other.Rule = ""
		var invalid *field.ValidationError
		if _, err := d.UpdateSilence(ctx, ada, other, 0); !errors.As(err, &invalid) {
			t.Errorf("other alerts: %v", err)
		}
		if got, err := d.Silence(ctx, s.ID); err != nil || got.Version != 2 || got.Rule != "charges" {
			t.Errorf("got %+v, %v", got, err)
		}
		if list, err := d.Silences(ctx); err != nil || len(list) != 1 || list[0].ID != s.ID {
			t.Errorf("got %+v, %v", list, err)
		}
		if err := d.DeleteSilence(ctx, ada, s.ID, 1); !errors.Is(err, rules.ErrStale) {
			t.Errorf("stale: %v", err)
		}
		if err := d.DeleteSilence(ctx, ada, s.ID, 2); err != nil {
			t.Fatal(err)
		}
		_, err = d.Silence(ctx, s.ID)
		for _, err := range []error{err, d.DeleteSilence(ctx, ada, s.ID, 0)} {
			if !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("deleted: %v", err)
			}
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: "silence"})
		if err != nil || len(entries) != 3 || entries[0].Action != "delete" || entries[1].Action != "update" ||
			entries[2].Action != "create" || entries[2].Actor != ada || entries[2].SubjectName != "rule_denials charges" {
			t.Fatalf("entries %+v, %v", entries, err)
		}
		if changes := entries[1].Changes(); len(changes) != 2 || changes[0].Old != "a sale" {
			t.Errorf("the update changed %+v", changes)
		}
		if text, _ := json.Marshal(entries[2]); !strings.Contains(string(text), "a sale") {
			t.Errorf("the creation says %s", text)
		}
	})
}

// At most MaxSilences are stored. Ended ones make room for new ones, the first to end first.
func TestSilences_AreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		rows := make([]silenceRow, alerts.MaxSilences)
		ends := d.now().Add(time.Hour).UnixMilli()
		for i := range rows {
			rows[i] = silenceRow{Kind: "key_hot", Reason: "r", EndsAt: ends, CreatedBy: "ada", Version: 1,
				CreatedAt: newRowTime(d.now()), UpdatedAt: newRowTime(d.now())}
		}
		if err := d.writeIn(ctx, func(tx *gorm.DB) error { return insertRows(tx, rows) }); err != nil {
			t.Fatal(err)
		}
		if _, err := d.CreateSilence(ctx, ada, silenceFor(d, time.Hour)); !errors.Is(err, alerts.ErrTooManySilences) {
			t.Fatalf("one more: %v", err)
		}
		set := func(id, ends int64) {
			t.Helper()
			err := d.writeIn(ctx, func(tx *gorm.DB) error {
				return tx.Model(&silenceRow{}).Where("id = ?", id).UpdateColumn("ends_at", ends).Error
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		list, err := d.Silences(ctx)
		if err != nil || len(list) != alerts.MaxSilences {
			t.Fatalf("%d silences, %v", len(list), err)
		}
		first, second := list[500].ID, list[400].ID
		set(first, 1000)
		set(second, 2000)
		if _, err := d.CreateSilence(ctx, ada, silenceFor(d, time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Silence(ctx, first); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("the first to end: %v", err)
		}
		if _, err := d.Silence(ctx, second); err != nil {
			t.Errorf("the second to end: %v", err)
		}
	})
}

// The holder of the lease deletes the silences that ended more than 30 days ago.
func TestSilences_OldOnesAreDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		now := time.Now() // the clock of the database says which are old
		for _, age := range []time.Duration{alerts.KeptSilence + time.Hour, alerts.KeptSilence - time.Hour, -time.Hour} {
			row := silenceRow{Kind: "key_hot", Reason: age.String(), EndsAt: now.Add(-age).UnixMilli(), CreatedBy: "ada",
				Version: 1, CreatedAt: newRowTime(now), UpdatedAt: newRowTime(now)}
			if err := d.writeIn(ctx, func(tx *gorm.DB) error { return tx.Create(&row).Error }); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.writeIn(ctx, func(tx *gorm.DB) error { return d.deleteOld(tx, nil) }); err != nil {
			t.Fatal(err)
		}
		list, err := d.Silences(ctx)
		if err != nil || len(list) != 2 || list[0].Reason != "-1h0m0s" || list[1].Reason != "719h0m0s" {
			t.Errorf("left %+v, %v", list, err)
		}
	})
}
