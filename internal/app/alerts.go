package app

import (
	"sluice/internal/alerts"
	"sluice/internal/alerts/deliver"
	"sluice/internal/config"
	"sluice/internal/database"
)

// openWebhooks prepares what people do with webhooks, and the sender of messages to them.
func openWebhooks(cfg *config.Alerts, host *Host, db *database.DB, version string) (*deliver.Webhooks, *deliver.Sender,
	error) {
	allowed, err := alerts.ParseAllowed(cfg.WebhookAllow)
	if err != nil {
		return nil, nil, err
	}
	guard := deliver.NewGuard(allowed)
	sender := deliver.NewSender(deliver.SenderOptions{Guard: guard, Now: host.Now, Version: version})
	return deliver.NewWebhooks(db, guard, sender, host.Now), sender, nil
}
