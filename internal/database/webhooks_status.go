package database

import (
	"context"

	"gorm.io/gorm"

	"sluice/internal/alerts"
)

// lastAttempts selects the message of each webhook that was sent last, without its body.
const lastAttempts = `SELECT d.id, d.message, d.webhook_id, d.subject, d.kind, d.created, d.next_at, d.state, d.attempts,
	d.status, d.error, d.took_ms, d.tried, d.ended
FROM webhooks w JOIN alert_deliveries d ON d.id = (
	SELECT id FROM alert_deliveries WHERE webhook_id = w.id AND tried > 0 ORDER BY tried DESC, id DESC LIMIT 1)`

// WebhookStatuses returns how the deliveries of each webhook go, by its id. Webhooks without deliveries are left out.
// Errors wrap rules.ErrUnavailable.
func (d *DB) WebhookStatuses(ctx context.Context) (map[int64]alerts.WebhookStatus, error) {
	var waiting []struct {
		WebhookID, Messages, Oldest int64
	}
	var last []deliveryRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		waiting, last = nil, nil
		if err := tx.Model(&deliveryRow{}).Where("state = ?", rowWaiting).Group("webhook_id").
			Select("webhook_id, COUNT(*) AS messages, MIN(created) AS oldest").Scan(&waiting).Error; err != nil {
			return err
		}
		return tx.Raw(lastAttempts).Scan(&last).Error
	})
	if err != nil {
		return nil, err
	}
	out := map[int64]alerts.WebhookStatus{}
	for _, w := range waiting {
		out[w.WebhookID] = alerts.WebhookStatus{Waiting: w.Messages, Oldest: instant(w.Oldest)}
	}
	for i := range last {
		s := out[last[i].WebhookID]
		s.Last = last[i].delivery()
		out[last[i].WebhookID] = s
	}
	return out, nil
}
