package database

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/alerts"
	"sluice/internal/audit"
)

// mustQueue stores messages as holder a.
func mustQueue(t *testing.T, d *DB, messages ...alerts.Message) {
	t.Helper()
	mustHold(t, d, "a", time.Minute)
	if err := d.SaveAlerts(t.Context(), "a", &alerts.Changes{Messages: messages}); err != nil {
		t.Fatal(err)
	}
}

// mustDue returns what is due to be sent, by the id of the message.
func mustDue(t *testing.T, d *DB, limit int) (list []alerts.DueDelivery, ids []string) {
	t.Helper()
	list, err := d.DueDeliveries(t.Context(), "a", limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		ids = append(ids, m.Message.ID)
	}
	return list, ids
}

func mustWebhook(t *testing.T, d *DB, name string) alerts.Webhook {
	t.Helper()
	w, err := d.Webhooks().Create(t.Context(), ada, sampleWebhook(name))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestDeliveries_AreDueInTheOrderOfTheirSubject(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		one, two := mustWebhook(t, d, "one"), mustWebhook(t, d, "two")
		mustQueue(t, d, queued(one.ID, "s", "1s1"), queued(one.ID, "s", "1s2"), queued(one.ID, "t", "1t1"),
			queued(one.ID, "u", "1u1"), queued(two.ID, "s", "2s1"), queued(two.ID, "s", "2s2"))
		due := func(limit int, want ...string) []alerts.DueDelivery {
			t.Helper()
			list, got := mustDue(t, d, limit)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("due (-want +got):\n%s", diff)
			}
			return list
		}
		due(2, "1s1", "1t1", "2s1")
		list := due(10, "1s1", "1t1", "1u1", "2s1")
		if m := list[0]; m.URL != one.URL || m.Name != "one" || m.Version != 1 || len(m.Secrets) != 1 ||
			alerts.KeyOf(m.Secrets[0]) == nil ||
			string(m.Message.Body) != `{"id":"1s1"}` || m.Attempts != 0 || m.Message.Webhook != one.ID {
			t.Errorf("due %+v", m)
		}
		failed := alerts.Attempt{At: time.UnixMilli(1_000_000), Took: 20 * time.Millisecond, Status: 500,
			Error: "answered 500"}
		if err := d.RetryDelivery(ctx, list[0].ID, failed, time.Hour); err != nil {
			t.Fatal(err)
		}
		due(10, "1t1", "1u1", "2s1") // 1s2 waits for 1s1
		if err := d.RetryDelivery(ctx, list[1].ID, failed, 0); err != nil {
			t.Fatal(err)
		}
		due(10, "1u1", "1t1", "2s1") // what was not tried yet is first
		if err := d.EndDelivery(ctx, list[3].ID, alerts.Attempt{At: time.UnixMilli(2_000_000), Status: 204}); err != nil {
			t.Fatal(err)
		}
		if err := d.EndDelivery(ctx, list[1].ID, failed); err != nil {
			t.Fatal(err)
		}
		due(10, "1u1", "2s2")
		got, err := d.ListDeliveries(ctx, one.ID, 0, 10)
		if err != nil || len(got) != 4 || got[0].Message.ID != "1u1" {
			t.Fatalf("deliveries %+v, %v", got, err)
		}
		if m := got[3]; m.State != alerts.DeliveryWaiting || m.Attempts != 1 || m.Status != 500 || m.Error != failed.Error ||
			m.Took != failed.Took || !m.Tried.Equal(failed.At) || time.Until(m.Next) < time.Minute || !m.Ended.IsZero() {
			t.Errorf("retried %+v", m)
		}
		if m := got[1]; m.State != alerts.DeliveryFailed || m.Attempts != 2 || m.Ended.IsZero() || !m.Next.IsZero() {
			t.Errorf("given up %+v", m)
		}
		// A late note of an attempt does not change what has ended, but that it was delivered.
		if err := d.RetryDelivery(ctx, got[1].ID, failed, 0); err != nil {
			t.Fatal(err)
		}
		due(10, "1u1", "2s2")
		if err := d.EndDelivery(ctx, got[1].ID, alerts.Attempt{At: time.Now(), Status: 200}); err != nil {
			t.Fatal(err)
		}
		if err := d.EndDelivery(ctx, got[1].ID, failed); err != nil {
			t.Fatal(err)
		}
		if got, err = d.ListDeliveries(ctx, one.ID, 0, 10); err != nil || got[1].State != alerts.DeliveryDelivered ||
			got[1].Attempts != 3 {
			t.Errorf("delivered late %+v, %v", got[1], err)
		}
		backlog, err := d.AlertBacklog(ctx)
		if err != nil || backlog.Waiting != 4 || backlog.Oldest < 0 || backlog.Oldest > time.Hour {
			t.Errorf("backlog %+v, %v", backlog, err)
		}
		if err := d.Webhooks().Delete(ctx, ada, "one", 0); err != nil {
			t.Fatal(err)
		}
		due(10, "2s2")
		if backlog, err = d.AlertBacklog(ctx); err != nil || backlog.Waiting != 1 {
			t.Errorf("after a webhook was deleted: %+v, %v", backlog, err)
		}
	})
}

func TestDeliveries_WaitForADayWhileTheWebhookIsDisabled(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx, store := t.Context(), d.Webhooks()
		w := mustWebhook(t, d, "pager")
		old := queued(w.ID, "s", "old")
		old.At = old.At.Add(-deliveryLife - time.Minute)
		tried := queued(w.ID, "u", "tried")
		tried.At = old.At
		mustQueue(t, d, old, tried, queued(w.ID, "t", "new"))
		list, _ := mustDue(t, d, 10)
		for _, m := range list {
			if m.Message.ID == "tried" {
				if err := d.RetryDelivery(ctx, m.ID, alerts.Attempt{At: time.Now(), Error: "answered 500"}, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 2 { // also when two nodes do it, or once more
			if err := d.DisableWebhook(ctx, w.ID, w.Version, "the receiver answered 410"); err != nil {
				t.Fatal(err)
			}
		}
		got, err := store.Get(ctx, "pager")
		if err != nil || got.IsActive || got.DisabledReason != "the receiver answered 410" || got.Version != 2 {
			t.Fatalf("disabled: %+v, %v", got, err)
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: "webhook"})
		if err != nil || len(entries) != 2 || entries[0].Actor.Name != "sluice" || entries[0].Actor.Kind != "system" ||
			!strings.Contains(string(entries[0].Details), "answered 410") {
			t.Errorf("entries %+v, %v", entries, err)
		}
		if _, due := mustDue(t, d, 10); due != nil {
			t.Errorf("due to a disabled webhook: %v", due)
		}
		if backlog, err := d.AlertBacklog(ctx); err != nil || backlog != (alerts.Backlog{}) {
			t.Errorf("backlog of a disabled webhook: %+v, %v", backlog, err)
		}
		given, err := d.CleanAlerts(ctx)
		if err != nil || given != (alerts.GivenUp{TooOld: 2}) {
			t.Errorf("given up: %+v, %v", given, err)
		}
		states := map[string]string{}
		all, err := d.ListDeliveries(ctx, w.ID, 0, 10)
		for _, m := range all {
			states[m.Message.ID] = m.State + " " + m.Error
		}
		want := map[string]string{"old": "failed " + tooOldError, "new": "waiting ", "tried": "failed answered 500"}
		if diff := cmp.Diff(want, states); err != nil || diff != "" {
			t.Errorf("deliveries (-want +got):\n%s%v", diff, err)
		}
		got.IsActive = true
		if got, err = store.Update(ctx, ada, got, 2); err != nil || got.DisabledReason != "" {
			t.Errorf("enabled again: %+v, %v", got, err)
		}
		if _, due := mustDue(t, d, 10); !slices.Equal(due, []string{"new"}) {
			t.Errorf("due after it was enabled again: %v", due)
		}
		// One that was edited since is not disabled by an answer to before.
		if err := d.DisableWebhook(ctx, w.ID, w.Version, "the receiver answered 410"); err != nil {
			t.Error(err)
		}
		if got, err = store.Get(ctx, "pager"); err != nil || !got.IsActive {
			t.Errorf("an edited webhook: %+v, %v", got, err)
		}
		if err := d.DisableWebhook(ctx, 12345, 1, "x"); err != nil {
			t.Error(err)
		}
	})
}

func TestDeliveries_AreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		w, other := mustWebhook(t, d, "pager"), mustWebhook(t, d, "other")
		mustExec(t, d, "INSERT INTO alert_deliveries (message, webhook_id, subject, kind, body, created) "+numbers+
			" SELECT 'm' || i, ?, 's', 'key_usage', '{}', "+d.nowMS()+" FROM numbers", alerts.MaxWaiting+7, w.ID)
		mustQueue(t, d, queued(other.ID, "s", "o"))
		given, err := d.CleanAlerts(ctx)
		if err != nil || given != (alerts.GivenUp{TooMany: 7}) {
			t.Errorf("given up: %+v, %v", given, err)
		}
		if _, due := mustDue(t, d, 5); !slices.Equal(due, []string{"m8", "o"}) {
			t.Errorf("due %v", due)
		}
		counts := func() (n int64) {
			t.Helper()
			if _, err := d.CleanAlerts(ctx); err != nil {
				t.Fatal(err)
			}
			return mustCount(t, d, "alert_deliveries")
		}
		mustExec(t, d, "DELETE FROM alert_deliveries WHERE webhook_id = ? AND message < 'm8'", w.ID)
		mustExec(t, d, "UPDATE alert_deliveries SET state = 1, ended = "+d.nowMS()+" WHERE webhook_id = ?", w.ID)
		if n := counts(); n != maxEnded+1 {
			t.Errorf("%d deliveries are kept, want %d", n, maxEnded+1)
		}
		mustExec(t, d, "UPDATE alert_deliveries SET ended = 1 WHERE webhook_id = ?", w.ID)
		if n := counts(); n != keptEnded+1 {
			t.Errorf("%d old deliveries are kept, want %d", n, keptEnded+1)
		}
		if list, err := d.ListDeliveries(ctx, w.ID, 0, 1); err != nil || list[0].Message.ID != "m9999" {
			t.Errorf("the newest is not kept: %+v, %v", list, err)
		}
		mustExec(t, d, "DELETE FROM webhooks WHERE name = 'other'") // by hand
		if n := counts(); n != keptEnded {
			t.Errorf("%d deliveries are kept, want %d", n, keptEnded)
		}
	})
}

func TestAlertEvents_AreKeptForAMonth(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		mustHold(t, d, "a", time.Minute)
		var events []alerts.Event
		for i, age := range []time.Duration{eventLife + time.Hour, eventLife - time.Hour, 0} {
			events = append(events, alerts.Event{UID: fmt.Sprint("e", i), At: time.Now().Add(-age), Kind: alerts.KindSetOld})
		}
		if err := d.SaveAlerts(ctx, "a", &alerts.Changes{Events: events}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.CleanAlerts(ctx); err != nil {
			t.Fatal(err)
		}
		if n := mustCount(t, d, "alert_events"); n != 2 {
			t.Errorf("%d events are kept, want 2", n)
		}
		insert := "INSERT INTO alert_events (id, uid, at, kind, data) OVERRIDING SYSTEM VALUE"
		if d.dialect == dialectSQLite {
			insert = strings.TrimSuffix(insert, "OVERRIDING SYSTEM VALUE")
		}
		mustExec(t, d, insert+" SELECT max(id) + ?, 'late', max(at), 'set_old', '{}' FROM alert_events", maxEvents)
		if _, err := d.CleanAlerts(ctx); err != nil {
			t.Fatal(err)
		}
		if got, err := d.AlertEvents(ctx, 0, 10); err != nil || len(got) != 1 || got[0].UID != "late" {
			t.Errorf("events %+v, %v", got, err)
		}
	})
}
