package app

import (
	"fmt"

	"sluice/internal/alerts/deliver"
	"sluice/internal/database"
)

// openWebhooks prepares what people do with webhooks.
func openWebhooks(host *Host, db *database.DB, version string) (*deliver.Webhooks, error) {
	guard, err := deliver.NewGuard(host.Alerts.WebhookAllow)
	if err != nil {
		return nil, fmt.Errorf("--webhook-allow (SLUICE_WEBHOOK_ALLOW): %w", err)
	}
	sender := deliver.NewSender(deliver.SenderOptions{Guard: guard, Now: host.Now, Version: version})
	return deliver.NewWebhooks(db, guard, sender, host.Now), nil
}
