package database

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/rules"
)

func TestSessions_EndForAnAccountEverywhere(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		u := mustUser(t, d, "edda", access.RoleEditor)
		if got, err := d.EndSessions(ctx, ada, u.ID); err != nil || got.Generation != u.Generation+1 {
			t.Errorf("generation %d, %v", got.Generation, err)
		}
		entries, err := d.ListAudit(ctx, audit.Query{Action: "sign_out", Subject: "ed"})
		if err != nil || len(entries) != 1 || entries[0].SubjectName != "edda" || entries[0].Actor != ada {
			t.Errorf("audit %v, %v", entries, err)
		}
		if _, err := d.EndSessions(ctx, ada, 999); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("nobody's: %v", err)
		}
	})
}

func TestSessions_ListIsOfThoseThatLast(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx, now := t.Context(), d.rowTimeNow().Time
		for token, life := range map[string]time.Duration{"short": time.Hour, "long": 2 * time.Hour, "over": -time.Hour} {
			if err := d.CreateSession(ctx, access.Session{Token: token, Data: []byte("of " + token),
				ExpiresAt: now.Add(life)}); err != nil {
				t.Fatal(err)
			}
		}
		list, err := d.ListSessions(ctx)
		if err != nil || len(list) != 2 || list[0].Token != "long" || string(list[1].Data) != "of short" ||
			!list[1].ExpiresAt.Equal(now.Add(time.Hour)) {
			t.Errorf("got %v, %v", list, err)
		}
	})
}

func TestAudit_IsFilteredByWhoWhatAndWhen(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		for _, name := range []string{"edda", "e_da", "vera"} {
			mustUser(t, d, name, access.RoleViewer)
		}
		all, err := d.ListAudit(ctx, audit.Query{})
		if err != nil || len(all) != 3 {
			t.Fatalf("%d, %v", len(all), err)
		}
		now := all[0].At
		for _, tt := range []struct {
			q    audit.Query
			want int
		}{
			{audit.Query{Actor: ada.Name}, 3}, {audit.Query{Actor: "nobody"}, 0}, {audit.Query{Subject: "e_"}, 1},
			{audit.Query{Subject: "%"}, 0},
			{audit.Query{Action: "create", SubjectKind: "user"}, 3}, {audit.Query{Action: "delete"}, 0},
			{audit.Query{Subject: "a\x00"}, 0},
			{audit.Query{Since: now.Add(time.Hour)}, 0}, {audit.Query{Until: now.Add(time.Hour)}, 3},
			{audit.Query{Since: now.Add(-time.Hour), Until: now.Add(-time.Minute)}, 0},
		} {
			if got, err := d.ListAudit(ctx, tt.q); err != nil || len(got) != tt.want {
				t.Errorf("%+v: %d entries, %v, want %d", tt.q, len(got), err, tt.want)
			}
		}
	})
}

// Signing out ends a session also if it was replaced while that was under way.
func TestDeleteSession_EndsWhatTookItsPlace(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx, later := t.Context(), d.now().Add(24*time.Hour).Truncate(time.Millisecond)
		if err := d.CreateSession(ctx, access.Session{Token: "a", Data: []byte("x"), ExpiresAt: later}); err != nil {
			t.Fatal(err)
		}
		for _, step := range [][2]string{{"a", "b"}, {"b", "c"}} {
			if found, err := d.ReplaceSession(ctx, step[0], access.Session{Token: step[1], Data: []byte("x"),
				ExpiresAt: later}); !found || err != nil {
				t.Fatalf("replace %v: %v, %v", step, found, err)
			}
		}
		if list, err := d.ListSessions(ctx); len(list) != 1 || list[0].Token != "c" || err != nil {
			t.Errorf("listed %v, %v; want c alone", list, err)
		}
		if err := d.DeleteSession(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if _, found, err := d.FindSession(ctx, "c"); found || err != nil {
			t.Errorf("the last session is in force: %v, %v", found, err)
		}
	})
}
