package database

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"sluice/internal/alerts"
)

// mustHold takes the lease of alerts.
func mustHold(t *testing.T, d *DB, holder string, length time.Duration) {
	t.Helper()
	if held, err := d.HoldAlerts(t.Context(), holder, length); err != nil || !held {
		t.Fatalf("%s takes the lease: %v, %v", holder, held, err)
	}
}

func TestAlerts_OneNodeHoldsTheLease(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		c := &alerts.Changes{States: []alerts.State{{Subject: "s", Data: []byte("1")}}}
		save := func(holder string, want error) {
			t.Helper()
			if err := d.SaveAlerts(ctx, holder, c); !errors.Is(err, want) {
				t.Errorf("%s saves: %v, want %v", holder, err, want)
			}
			if _, err := d.DueDeliveries(ctx, holder, 1); !errors.Is(err, want) {
				t.Errorf("%s asks for messages: %v, want %v", holder, err, want)
			}
		}
		refused := func(holder string) {
			t.Helper()
			if held, err := d.HoldAlerts(ctx, holder, time.Minute); err != nil || held {
				t.Errorf("%s takes the lease of another: %v, %v", holder, held, err)
			}
		}
		save("a", alerts.ErrLeaseLost)
		save("", alerts.ErrLeaseLost)
		mustHold(t, d, "a", time.Minute)
		mustHold(t, d, "a", time.Minute)
		refused("b")
		save("a", nil)
		save("b", alerts.ErrLeaseLost)
		mustHold(t, d, "a", -time.Second) // as if a had been paused for a minute
		save("a", alerts.ErrLeaseLost)
		mustHold(t, d, "b", time.Minute)
		refused("a")
		save("a", alerts.ErrLeaseLost)
		save("b", nil)
		if err := d.ReleaseAlerts(ctx, "a"); err != nil {
			t.Error(err)
		}
		refused("a")
		if err := d.ReleaseAlerts(ctx, "b"); err != nil {
			t.Error(err)
		}
		mustHold(t, d, "a", 24*time.Hour) // as if the clock had been a day ahead
		mustHold(t, d, "b", time.Minute)
	})
}

// A holder that waits for the transaction of the next one, or the other way round, is not among two that write.
func TestAlerts_TheLeaseIsNotTakenWhileItsHolderSaves(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		mustHold(t, d, "a", time.Minute)
		type taken struct {
			held bool
			err  error
		}
		b := make(chan taken, 1)
		err := d.writeIn(ctx, func(tx *gorm.DB) error {
			if err := d.lockLease(tx, "a"); err != nil {
				return err
			}
			if err := tx.Exec("UPDATE alert_lease SET held_until = 1").Error; err != nil { // it ends meanwhile
				return err
			}
			go func() {
				held, err := d.HoldAlerts(ctx, "b", time.Minute)
				b <- taken{held, err}
			}()
			return tx.Exec("INSERT INTO alert_states (subject, data) VALUES ('s', 'a')").Error
		})
		if err != nil {
			t.Fatal(err)
		}
		got := <-b
		for got.err == nil && !got.held { // b looked before a had ended the lease
			got.held, got.err = d.HoldAlerts(ctx, "b", time.Minute)
		}
		if got.err != nil {
			t.Fatal(got.err)
		}
		states, err := d.AlertStates(ctx)
		if err != nil || len(states) != 1 || string(states[0].Data) != "a" {
			t.Errorf("b has the lease before a has saved: %v, %v", states, err)
		}
	})
}

func TestAlerts_ReportsAreReadOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		mustHold(t, d, "a", time.Minute)
		report := func(uid string) alerts.Report { return alerts.Report{UID: uid, Data: []byte(`{"of":"` + uid + `"}`)} }
		unread := func(limit int, want ...string) []int64 {
			t.Helper()
			list, err := d.AlertReports(ctx, limit)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			var ids []int64
			for _, r := range list {
				got, ids = append(got, r.UID), append(ids, r.ID)
				if string(r.Data) != string(report(r.UID).Data) {
					t.Errorf("report %s has %s", r.UID, r.Data)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
			return ids
		}
		for _, batch := range [][]alerts.Report{nil, {report("1"), report("2")}, {report("2"), report("3"), report("3")}} {
			if err := d.AddAlertReports(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		unread(10, "1", "2", "3")
		if err := d.SaveAlerts(ctx, "a", &alerts.Changes{Read: unread(2, "1", "2")}); err != nil {
			t.Fatal(err)
		}
		unread(10, "3")
		if err := d.AddAlertReports(ctx, []alerts.Report{report("1"), report("4")}); err != nil { // 1 was read already
			t.Fatal(err)
		}
		unread(10, "3", "4")
		if _, err := d.CleanAlerts(ctx); err != nil {
			t.Fatal(err)
		}
		if err := d.AddAlertReports(ctx, []alerts.Report{report("2")}); err != nil {
			t.Fatal(err)
		}
		unread(10, "3", "4")
		mustExec(t, d, "UPDATE alert_reports SET read_at = 1 WHERE read_at > 0") // long ago
		if _, err := d.CleanAlerts(ctx); err != nil {
			t.Fatal(err)
		}
		if n := mustCount(t, d, "alert_reports"); n != 2 {
			t.Errorf("%d reports are kept, want 2", n)
		}
		mustExec(t, d, "INSERT INTO alert_reports (uid, data) "+numbers+
			` SELECT 'm' || i, '{"of":"m' || i || '"}' FROM numbers`, maxReports+4)
		if err := d.AddAlertReports(ctx, []alerts.Report{report("last")}); err != nil {
			t.Fatal(err)
		}
		if n := mustCount(t, d, "alert_reports"); n != maxReports {
			t.Errorf("%d reports are kept, want %d", n, maxReports)
		}
		unread(1, "m6")
	})
}

func TestAlerts_AnEvaluationIsStoredWholeAndOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		mustHold(t, d, "a", time.Minute)
		at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		subject := alerts.Subject{Kind: alerts.KindKeyUsage, Rule: "charges", Level: "80",
			Key: "ключ\x00\xff\n" + strings.Repeat("é", 5000)}
		events := []alerts.Event{
			{UID: "e1", At: at, Kind: alerts.KindKeyUsage, State: alerts.On, Subject: subject,
				Data: alerts.Data{Text: "one", Since: &at, Numbers: map[string]int64{"used": 80}}},
			{UID: "e2", At: at.Add(time.Second), Kind: alerts.KindSetOld, State: alerts.Off, Data: alerts.Data{Text: "two"}},
		}
		c := &alerts.Changes{Events: events,
			Messages: []alerts.Message{queued(1, subject.String(), "m1"), queued(1, "t", "m2"), queued(2, "t", "m1")},
			States: []alerts.State{{Subject: subject.String(), Data: []byte("1")}, {Subject: "t", Data: []byte("old")},
				{Subject: "t", Data: []byte("2")}, {Subject: "gone"}}}
		for range 2 {
			if err := d.SaveAlerts(ctx, "a", c); err != nil {
				t.Fatal(err)
			}
		}
		got, err := d.AlertEvents(ctx, 0, 10)
		if err != nil || len(got) != 2 || got[0].ID <= got[1].ID {
			t.Fatalf("events %+v, %v", got, err)
		}
		newest := got[0].ID
		for i := range got {
			got[i].ID = 0
		}
		events[0].Subject.Key = strings.ToValidUTF8(events[0].Subject.Key, "\ufffd") // as JSON has it
		if diff := cmp.Diff([]alerts.Event{events[1], events[0]}, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if got, err := d.AlertEvents(ctx, newest, 1); err != nil || len(got) != 1 || got[0].UID != "e1" {
			t.Errorf("the page before: %+v, %v", got, err)
		}
		states, err := d.AlertStates(ctx)
		want := []alerts.State{{Subject: subject.String(), Data: []byte("1")}, {Subject: "t", Data: []byte("2")}}
		if diff := cmp.Diff(want, states); err != nil || diff != "" {
			t.Errorf("states (-want +got):\n%s%v", diff, err)
		}
		if err := d.SaveAlerts(ctx, "a", &alerts.Changes{States: []alerts.State{{Subject: "t"}}}); err != nil {
			t.Fatal(err)
		}
		if states, err = d.AlertStates(ctx); err != nil || len(states) != 1 {
			t.Errorf("states %v, %v", states, err)
		}
		if n := mustCount(t, d, "alert_deliveries"); n != 3 {
			t.Errorf("%d messages, want 3", n)
		}
		if _, err := d.CleanAlerts(ctx); err != nil {
			t.Fatal(err)
		}
		if n := mustCount(t, d, "alert_deliveries"); n != 0 {
			t.Errorf("%d messages to webhooks that do not exist are kept", n)
		}
		// Nothing is left of a failed one.
		bad := &alerts.Changes{Events: []alerts.Event{{UID: "e3", At: at}},
			States: []alerts.State{{Subject: "\x00\xff", Data: []byte("\x00")}}}
		err = d.SaveAlerts(ctx, "a", bad)
		if n := mustCount(t, d, "alert_events"); (err == nil) != (n == 3) { // SQLite stores it
			t.Errorf("%d events after an evaluation that could not be stored: %v", n, err)
		}
	})
}

// numbers is the beginning of a statement that has numbers(i), from 1 to its parameter.
const numbers = "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ?)"

func mustExec(t *testing.T, d *DB, statement string, args ...any) {
	t.Helper()
	if err := d.write.WithContext(t.Context()).Exec(statement, args...).Error; err != nil {
		t.Fatal(err)
	}
}

func mustCount(t *testing.T, d *DB, table string) (n int64) {
	t.Helper()
	if err := d.read.WithContext(t.Context()).Table(table).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

func queued(webhook int64, subject, id string) alerts.Message {
	return alerts.Message{ID: id, Webhook: webhook, Subject: subject, Type: "key_usage", At: time.Now(),
		Body: []byte(`{"id":"` + id + `"}`)}
}
