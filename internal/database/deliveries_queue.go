package database

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"sluice/internal/alerts"
)

const (
	// deliveryLife is how long a message waits before it is given up.
	deliveryLife = 24 * time.Hour
	// endedLife is how long delivered and given-up messages are kept. The last keptEnded of each webhook are kept
	// longer, and never more than maxEnded.
	endedLife            = 7 * 24 * time.Hour
	keptEnded, maxEnded  = 50, 1000
	tooOldError          = "given up: not delivered within a day"
	cleanBatch           = 5000
	eventLife, maxEvents = 30 * 24 * time.Hour, 100_000
	// reportLife is how long a report is kept after it was read, so that a repetition of it is recognised.
	reportLife = time.Hour
)

// tooManyError is the error of a message that gave way to newer ones.
var tooManyError = fmt.Sprintf("given up: more than %d messages waited", alerts.MaxWaiting)

// DueDeliveries returns up to limit due messages of each active webhook. For each subject it returns only the oldest
// waiting message, so that messages about a subject are sent in order. The error is alerts.ErrLeaseLost unless holder
// has the lease.
func (d *DB) DueDeliveries(ctx context.Context, holder string, limit int) (due []alerts.DueDelivery, err error) {
	err = d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		if err := d.checkLease(tx, holder); err != nil {
			return err
		}
		var hooks []webhookRow
		isDue := "SELECT 1 FROM alert_deliveries m WHERE m.webhook_id = webhooks.id AND m.state = 0 AND m.next_at <= " +
			d.nowMS()
		if err := tx.Where("EXISTS (" + isDue + ")").Order("id").Find(&hooks).Error; err != nil {
			return err
		}
		for i := range hooks {
			w := webhooks.object(&hooks[i])
			if !w.IsActive {
				continue
			}
			var rows []deliveryRow
			err := tx.Where("webhook_id = ? AND state = 0 AND next_at <= "+d.nowMS(), w.ID).
				Where("NOT EXISTS (SELECT 1 FROM alert_deliveries e WHERE e.webhook_id = alert_deliveries.webhook_id AND " +
					"e.subject = alert_deliveries.subject AND e.state = 0 AND e.id < alert_deliveries.id)").
				Order("next_at, id").Limit(limit).Find(&rows).Error
			if err != nil {
				return err
			}
			secrets := hooks[i].secrets(d.now())
			for j := range rows {
				due = append(due, alerts.DueDelivery{Delivery: rows[j].delivery(), Name: w.Name, URL: w.URL,
					Secrets: secrets, Version: w.Version})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return due, nil
}

// EndDelivery notes the last attempt to send a message: it was delivered, or is given up.
func (d *DB) EndDelivery(ctx context.Context, id int64, a alerts.Attempt) error {
	set := noted(&a)
	set["state"], set["ended"] = endState(&a), gorm.Expr(d.nowMS())
	states := []int16{rowWaiting}
	if a.Delivered() { // even if it was given up during the attempt
		states = append(states, rowFailed)
	}
	return d.noteAttempt(ctx, id, states, set)
}

// RetryDelivery notes a failed attempt to send a message. It is sent again after a while.
func (d *DB) RetryDelivery(ctx context.Context, id int64, a alerts.Attempt, after time.Duration) error {
	set := noted(&a)
	set["next_at"] = gorm.Expr(d.nowMS()+" + ?", after.Milliseconds())
	return d.noteAttempt(ctx, id, []int16{rowWaiting}, set)
}

// noted are the columns that describe an attempt.
func noted(a *alerts.Attempt) map[string]any {
	return map[string]any{"attempts": gorm.Expr("attempts + 1"), "status": a.Status, "error": a.Error,
		"took_ms": a.Took.Milliseconds(), "tried": milliseconds(a.At)}
}

// noteAttempt changes a message that is in one of the states. One that is in another, or was deleted, stays as it is.
func (d *DB) noteAttempt(ctx context.Context, id int64, states []int16, set map[string]any) error {
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		return tx.Model(&deliveryRow{}).Where("id = ? AND state IN ?", id, states).UpdateColumns(set).Error
	})
}

// AlertBacklog counts the queued messages to active webhooks.
func (d *DB) AlertBacklog(ctx context.Context) (out alerts.Backlog, err error) {
	var rows []struct{ WebhookID, Waiting, Age int64 }
	var hooks []webhookRow
	err = d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		if err := tx.Find(&hooks).Error; err != nil {
			return err
		}
		return tx.Raw("SELECT webhook_id, count(*) AS waiting, " + d.nowMS() + " - min(created) AS age " +
			"FROM alert_deliveries WHERE state = 0 GROUP BY webhook_id").Scan(&rows).Error
	})
	if err != nil {
		return alerts.Backlog{}, err
	}
	active := map[int64]bool{}
	for i := range hooks {
		active[hooks[i].ID] = webhooks.object(&hooks[i]).IsActive
	}
	for _, row := range rows {
		if active[row.WebhookID] {
			out.Waiting += row.Waiting
			out.Oldest = max(out.Oldest, time.Duration(row.Age)*time.Millisecond)
		}
	}
	return out, nil
}

// CleanAlerts gives up messages that have waited for a day, and the oldest of more than alerts.MaxWaiting to a webhook.
// It deletes data that is no longer shown: old messages, messages of deleted webhooks, old events, and reports that
// were read.
func (d *DB) CleanAlerts(ctx context.Context) (given alerts.GivenUp, err error) {
	err = d.writeIn(ctx, func(tx *gorm.DB) error {
		given = alerts.GivenUp{}
		if given.TooOld, err = d.giveUp(tx, tooOldError, tx.Model(&deliveryRow{}).Select("id").
			Where("state = 0 AND created < "+d.ago(deliveryLife))); err != nil {
			return err
		}
		var hooks []int64
		if err := tx.Model(&webhookRow{}).Order("id").Pluck("id", &hooks).Error; err != nil {
			return err
		}
		for _, id := range hooks {
			many, err := d.giveUp(tx, tooManyError, tx.Model(&deliveryRow{}).Select("id").
				Where("webhook_id = ? AND state = 0", id).Order("id DESC").Limit(cleanBatch).Offset(alerts.MaxWaiting))
			if err != nil {
				return err
			}
			given.TooMany += many
			if err := d.deleteEnded(tx, id); err != nil {
				return err
			}
		}
		return d.deleteOld(tx, hooks)
	})
	return given, err
}

// ago is an instant by the clock of the database in SQL, in ms since the epoch.
func (d *DB) ago(age time.Duration) string {
	return fmt.Sprintf("(%s - %d)", d.nowMS(), age.Milliseconds())
}

// giveUp ends messages without an attempt. Those that were tried keep the error of the last attempt.
func (d *DB) giveUp(tx *gorm.DB, why string, ids *gorm.DB) (int64, error) {
	res := tx.Model(&deliveryRow{}).Where("state = 0 AND id IN (SELECT id FROM (?) AS given)", ids).
		UpdateColumns(map[string]any{"state": rowFailed, "ended": gorm.Expr(d.nowMS()),
			"error": gorm.Expr("CASE WHEN error = '' THEN ? ELSE error END", why)})
	return res.RowsAffected, res.Error
}

// deleteEnded deletes the messages that a webhook's page no longer shows.
func (d *DB) deleteEnded(tx *gorm.DB, webhook int64) error {
	ended := func() *gorm.DB { return tx.Model(&deliveryRow{}).Where("webhook_id = ? AND state <> 0", webhook) }
	// nth returns the id of an ended message that n newer ended messages follow, 0 if there is none.
	nth := func(n int) (id int64, err error) {
		var ids []int64
		err = ended().Order("id DESC").Limit(1).Offset(n).Pluck("id", &ids).Error
		if len(ids) > 0 {
			id = ids[0]
		}
		return id, err
	}
	most, err := nth(maxEnded)
	if err != nil {
		return err
	}
	kept, err := nth(keptEnded)
	if err != nil || kept == 0 {
		return err
	}
	old := ended().Select("id").Where("id <= ? OR id <= ? AND ended < "+d.ago(endedLife), most, kept).Limit(cleanBatch)
	return tx.Where("id IN (SELECT id FROM (?) AS old)", old).Delete(&deliveryRow{}).Error
}

// deleteOld deletes the messages of deleted webhooks, old events and silences, and reports that were read.
func (d *DB) deleteOld(tx *gorm.DB, hooks []int64) error {
	var owners []int64
	if err := tx.Model(&deliveryRow{}).Distinct().Pluck("webhook_id", &owners).Error; err != nil {
		return err
	}
	for _, id := range owners {
		if slices.Contains(hooks, id) {
			continue
		}
		if err := tx.Where("webhook_id = ?", id).Delete(&deliveryRow{}).Error; err != nil {
			return err
		}
	}
	events := tx.Model(&alertEventRow{}).Select("id").Where("at < "+d.ago(eventLife)+
		" OR id <= (SELECT max(id) FROM alert_events) - ?", maxEvents).Limit(cleanBatch)
	if err := tx.Where("id IN (SELECT id FROM (?) AS old)", events).Delete(&alertEventRow{}).Error; err != nil {
		return err
	}
	if err := tx.Where("ends_at < " + d.ago(alerts.KeptSilence)).Delete(&silenceRow{}).Error; err != nil {
		return err
	}
	return tx.Where("read_at > 0 AND read_at < " + d.ago(reportLife)).Delete(&alertReportRow{}).Error
}
