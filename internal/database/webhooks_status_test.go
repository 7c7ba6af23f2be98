package database

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"sluice/internal/alerts"
)

// Of 10,000 deliveries the page of a webhook reads 50, and the list of webhooks how they go.
func TestWebhookStatuses_OfTenThousandDeliveries(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		var ids []int64
		for _, name := range []string{"busy", "quiet", "new"} {
			w, err := d.Webhooks().Create(ctx, ada, sampleWebhook(name))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, w.ID)
		}
		const n = 10_000
		start := time.UnixMilli(1_700_000_000_000).UTC()
		err := d.writeIn(ctx, func(tx *gorm.DB) error {
			err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < 10000)
				INSERT INTO alert_deliveries (message, webhook_id, subject, kind, body, created, next_at, state, attempts, status,
					tried, ended)
				SELECT 'msg_' || i, CAST(? AS BIGINT), 's', 'key_usage', '{}', CAST(? AS BIGINT) + i * 1000, 0,
					CASE WHEN i < 5000 THEN 1 ELSE 0 END,
					CASE WHEN i < 5000 THEN 1 ELSE 0 END, CASE WHEN i < 5000 THEN 200 ELSE 0 END,
					CASE WHEN i < 5000 THEN CAST(? AS BIGINT) + i * 1000 ELSE 0 END, 0 FROM n`,
				ids[0], start.UnixMilli(), start.UnixMilli()).Error
			if err != nil {
				return err
			}
			// The oldest that waits was tried last, and without success.
			if err := tx.Model(&deliveryRow{}).Where("message = 'msg_5000'").UpdateColumns(map[string]any{"attempts": 3,
				"status": 503, "error": "answered 503", "tried": start.Add(n * time.Second).UnixMilli()}).Error; err != nil {
				return err
			}
			return tx.Create(&deliveryRow{Message: "msg_quiet", WebhookID: ids[1], Kind: "test", Body: "{}",
				State: rowDelivered, Attempts: 1, Status: 204, Created: 1, Tried: 1, Ended: 1}).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.WebhookStatuses(ctx)
		if err != nil || len(got) != 2 {
			t.Fatalf("got %+v, %v", got, err)
		}
		if s := got[ids[0]]; s.Waiting != n/2 || !s.Oldest.Equal(start.Add(n/2*time.Second)) ||
			s.Last.Message.ID != "msg_5000" || s.Last.State != alerts.DeliveryWaiting || s.Last.Error != "answered 503" ||
			len(s.Last.Message.Body) != 0 {
			t.Errorf("of the busy one: %+v", s)
		}
		if s := got[ids[1]]; s.Waiting != 0 || !s.Oldest.IsZero() || s.Last.Status != 204 {
			t.Errorf("of the quiet one: %+v", s)
		}
		list, err := d.ListDeliveries(ctx, ids[0], 0, 50)
		if err != nil || len(list) != 50 || list[0].Message.ID != "msg_9999" || list[49].Message.ID != "msg_9950" {
			t.Errorf("listed %d, %v", len(list), err)
		}
	})
}
