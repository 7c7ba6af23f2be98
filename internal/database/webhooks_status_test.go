package database

import (
	"fmt"
	"slices"
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
		rows := make([]deliveryRow, n)
		for i := range rows {
			at := start.Add(time.Duration(i) * time.Second).UnixMilli()
			rows[i] = deliveryRow{Message: fmt.Sprint("msg_", i), WebhookID: ids[0], Subject: "s", Kind: "key_usage", Body: "{}",
				Created: at}
			if i < n/2 {
				rows[i].State, rows[i].Attempts, rows[i].Status, rows[i].Tried, rows[i].Ended = rowDelivered, 1, 200, at, at
			}
		}
		// The oldest that waits was tried last, and without success.
		failing := &rows[n/2]
		failing.Attempts, failing.Status, failing.Error = 3, 503, "answered 503"
		failing.Tried = start.Add(n * time.Second).UnixMilli()
		rows = append(rows, deliveryRow{Message: "msg_quiet", WebhookID: ids[1], Kind: "test", Body: "{}", State: rowDelivered,
			Attempts: 1, Status: 204, Created: 1, Tried: 1, Ended: 1})
		for part := range slices.Chunk(rows, 500) {
			if err := d.writeIn(ctx, func(tx *gorm.DB) error { return tx.Create(&part).Error }); err != nil {
				t.Fatal(err)
			}
		}
		got, err := d.WebhookStatuses(ctx)
		if err != nil || len(got) != 2 {
			t.Fatalf("got %+v, %v", got, err)
		}
		if s := got[ids[0]]; s.Waiting != n/2 || !s.Oldest.Equal(start.Add(n/2*time.Second)) || s.Last.Message.ID != "msg_5000" ||
			s.Last.State != alerts.DeliveryWaiting || s.Last.Error != "answered 503" || len(s.Last.Message.Body) != 0 {
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
