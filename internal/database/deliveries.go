package database

import (
	"context"
	"time"

	"gorm.io/gorm"

	"sluice/internal/alerts"
)

// deliveryRow is a row of alert_deliveries. Times are in ms since the epoch, 0 for none.
type deliveryRow struct {
	ID        int64  `gorm:"column:id;primaryKey;autoIncrement"`
	Message   string `gorm:"column:message"`
	WebhookID int64  `gorm:"column:webhook_id"`
	Subject   string `gorm:"column:subject"`
	Kind      string `gorm:"column:kind"`
	Body      string `gorm:"column:body"`
	Created   int64  `gorm:"column:created"`
	NextAt    int64  `gorm:"column:next_at"`
	State     int16  `gorm:"column:state"`
	Attempts  int64  `gorm:"column:attempts"`
	Status    int    `gorm:"column:status"`
	Error     string `gorm:"column:error"`
	TookMS    int64  `gorm:"column:took_ms"`
	Tried     int64  `gorm:"column:tried"`
	Ended     int64  `gorm:"column:ended"`
}

// TableName implements gorm's Tabler.
func (deliveryRow) TableName() string { return "alert_deliveries" }

// The states of rows.
const (
	rowWaiting   = 0
	rowDelivered = 1
	rowFailed    = 2
)

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func (r *deliveryRow) delivery() alerts.Delivery {
	d := alerts.Delivery{ID: r.ID, Message: alerts.Message{ID: r.Message, Webhook: r.WebhookID, Subject: r.Subject,
		Type: r.Kind, Body: []byte(r.Body), At: instant(r.Created)}, State: alerts.DeliveryWaiting, Attempts: r.Attempts,
		Status: r.Status, Error: r.Error, Took: time.Duration(r.TookMS) * time.Millisecond, Tried: instant(r.Tried),
		Ended: instant(r.Ended)}
	switch r.State {
	case rowDelivered:
		d.State = alerts.DeliveryDelivered
	case rowFailed:
		d.State = alerts.DeliveryFailed
	default:
		d.Next = instant(max(r.NextAt, r.Created))
	}
	return d
}

func rowOfMessage(m *alerts.Message) deliveryRow {
	return deliveryRow{Message: m.ID, WebhookID: m.Webhook, Subject: m.Subject, Kind: m.Type, Body: string(m.Body),
		Created: m.At.UnixMilli()}
}

// ListDeliveries returns up to limit deliveries of a webhook before an id (0: from the newest), newest first.
func (d *DB) ListDeliveries(ctx context.Context, webhook, before int64, limit int) ([]alerts.Delivery, error) {
	var rows []deliveryRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		tx = tx.Where("webhook_id = ?", webhook)
		if before > 0 {
			tx = tx.Where("id < ?", before)
		}
		return tx.Order("id DESC").Limit(limit).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	out := make([]alerts.Delivery, len(rows))
	for i := range rows {
		out[i] = rows[i].delivery()
	}
	return out, nil
}

// AddAttempted stores a message that was sent once and is not sent again, and returns it.
func (d *DB) AddAttempted(ctx context.Context, m alerts.Message, a alerts.Attempt) (alerts.Delivery, error) {
	row := rowOfMessage(&m)
	row.Attempts, row.Status, row.Error = 1, a.Status, a.Error
	row.TookMS, row.Tried = a.Took.Milliseconds(), milliseconds(a.At)
	row.State, row.Ended = endState(&a), row.Tried
	err := d.writeIn(ctx, func(tx *gorm.DB) error { return tx.Create(&row).Error })
	return row.delivery(), err
}

// endState is the state of a message after its last attempt.
func endState(a *alerts.Attempt) int16 {
	if a.Delivered() {
		return rowDelivered
	}
	return rowFailed
}
