package database

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/rules/field"
)

// webhookRow is a row of webhooks.
type webhookRow struct {
	Head
	// Settings is what people write but the name and the description.
	Settings  document `gorm:"column:settings"`
	Secret    string   `gorm:"column:secret"`
	OldSecret string   `gorm:"column:old_secret"`
	// OldUntil is in ms since the epoch.
	OldUntil int64 `gorm:"column:old_until"`
	// Disabled is why Sluice made the webhook inactive.
	Disabled string `gorm:"column:disabled"`
}

// TableName implements gorm's Tabler.
func (webhookRow) TableName() string { return "webhooks" }

// oldSecretLife is how long the previous secret also signs messages after a rotation.
const oldSecretLife = 24 * time.Hour

var webhooks = objects[webhookRow, alerts.Webhook]{
	kind: alerts.WebhookKind, area: areaWebhooks,
	head: func(row *webhookRow) *Head { return &row.Head },
	object: func(row *webhookRow) alerts.Webhook {
		w := alerts.NewWebhook()
		_ = json.Unmarshal([]byte(row.Settings), &w) // validation says what is wrong
		w.ID, w.Name, w.Description, w.Secret = row.ID, row.Name, row.Description, ""
		w.Version, w.CreatedAt, w.UpdatedAt = row.Version, row.CreatedAt.Time, row.UpdatedAt.Time
		w.DisabledReason = row.Disabled
		w.Normalize()
		return w
	},
	put: func(row *webhookRow, w *alerts.Webhook) error {
		settings := map[string]any{}
		for i := range alerts.WebhookKind.Fields {
			f := &alerts.WebhookKind.Fields[i]
			if f.Name != "name" && f.Name != "description" {
				settings[f.Name] = f.Value(w)
			}
		}
		text, err := json.Marshal(settings)
		row.Name, row.Description, row.Settings = w.Name, w.Description, document(text)
		if w.Secret != "" {
			row.Secret = w.Secret
		}
		if w.IsActive {
			row.Disabled = ""
		}
		return err
	},
	creating: func(c *change) error {
		var n int64
		if err := c.tx.Model(&webhookRow{}).Count(&n).Error; err != nil {
			return err
		}
		if n >= alerts.MaxWebhooks {
			return &field.ValidationError{Fields: []field.Problem{{Field: "name",
				Message: fmt.Sprintf("cannot be added: there are already %d webhooks; delete one", n)}}}
		}
		return nil
	},
	deleting: func(c *change, webhook *Head) error {
		return c.tx.Where("webhook_id = ?", webhook.ID).Delete(&deliveryRow{}).Error
	},
}

// Webhooks stores webhooks. A new one keeps the secret that it comes with; no method returns it.
func (d *DB) Webhooks() rules.Store[alerts.Webhook] {
	return stored[webhookRow, alerts.Webhook]{&webhooks, d}
}

// RotateWebhook gives a webhook a new secret. The previous secret also signs messages for a day. RotateWebhook returns
// the same errors as Update.
func (d *DB) RotateWebhook(ctx context.Context, actor rules.Actor, name, secret string,
	ifVersion int64) (alerts.Webhook, error) {
	var w alerts.Webhook
	if !storable(name) {
		return w, rules.ErrNotFound
	}
	err := d.change(ctx, actor, areaWebhooks, d.callTimeout, func(c *change) error {
		row, err := webhooks.locked(c, name, ifVersion)
		if err != nil {
			return err
		}
		row.Version++
		row.UpdatedAt = c.at
		err = c.tx.Model(&webhookRow{}).Where("id = ?", row.ID).UpdateColumns(map[string]any{
			"old_secret": row.Secret, "old_until": c.at.Add(oldSecretLife).UnixMilli(), "secret": secret,
			"version": row.Version, "updated_at": row.UpdatedAt,
		}).Error
		if err != nil {
			return err
		}
		w = webhooks.object(&row)
		return c.record(actionRotate, alerts.WebhookKind.Noun, row.ID, row.Name, ruleDetails{Version: row.Version,
			Changes: []field.Change{}, Reason: c.actor.Reason})
	})
	if err != nil {
		return alerts.Webhook{}, err
	}
	return w, nil
}

// WebhookSecrets returns the secrets that sign the messages of a webhook now, the newest first. Errors wrap
// rules.ErrNotFound or rules.ErrUnavailable.
func (d *DB) WebhookSecrets(ctx context.Context, id int64) ([]string, error) {
	var row webhookRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error { return tx.Take(&row, id).Error })
	if err != nil {
		return nil, err
	}
	return row.secrets(d.now()), nil
}

// secrets returns the secrets that sign messages at an instant, the newest first.
func (r *webhookRow) secrets(now time.Time) []string {
	out := []string{r.Secret}
	if r.OldSecret != "" && now.UnixMilli() < r.OldUntil {
		out = append(out, r.OldSecret)
	}
	return out
}

// DisableWebhook makes a webhook inactive for a reason, unless it has changed since the version or is inactive already.
func (d *DB) DisableWebhook(ctx context.Context, id, version int64, reason string) error {
	actor := rules.Actor{Kind: "system", Name: "sluice", Reason: reason}
	err := d.change(ctx, actor, areaWebhooks, d.callTimeout, func(c *change) error {
		var row webhookRow
		if err := c.tx.Where("id = ? AND version = ?", id, version).Take(&row).Error; err != nil {
			return err
		}
		w := webhooks.object(&row)
		if !w.IsActive {
			return errUnchanged
		}
		w.IsActive = false
		if _, err := webhooks.replace(c, actionUpdate, &w, version); err != nil {
			return err
		}
		return c.tx.Model(&webhookRow{}).Where("id = ?", id).UpdateColumn("disabled", reason).Error
	})
	if errors.Is(err, rules.ErrNotFound) || errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}
