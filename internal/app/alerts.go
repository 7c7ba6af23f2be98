package app

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/alerts"
	"sluice/internal/alerts/deliver"
	"sluice/internal/config"
	"sluice/internal/database"
)

// openWebhooks prepares what people do with webhooks, and the worker that sends messages to them.
func openWebhooks(cfg *config.Alerts, nat64 []netip.Prefix, host *Host, db *database.DB, version string,
	metrics prometheus.Registerer) (*deliver.Webhooks, *deliver.Worker, error) {
	allowed, err := alerts.ParseAllowed(cfg.WebhookAllow)
	if err != nil {
		return nil, nil, err
	}
	guard := deliver.NewGuard(allowed, nat64...)
	sender := deliver.NewSender(deliver.SenderOptions{Guard: guard, Now: host.Now, Version: version})
	worker := deliver.NewWorker(deliver.WorkerOptions{Queue: db, Send: sender.Send, Now: host.Now, Log: host.Log,
		Trouble: host.trouble})
	worker.Register(metrics)
	return deliver.NewWebhooks(db, guard, sender, host.Now), worker, nil
}
