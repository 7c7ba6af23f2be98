package deliver

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/alerts"
	"sluice/internal/testenv"
)

func TestMetrics_SayWhatBecameOfMessages(t *testing.T) {
	w := NewWorker(WorkerOptions{})
	w.count(func(totals *alerts.DeliveryTotals) {
		totals.Attempts[alerts.ResultGone] = 2
		totals.GivenUp = alerts.GivenUp{TooOld: 3, TooMany: 6}
		totals.Backlog = alerts.Backlog{Waiting: 4, Oldest: 5 * time.Second}
	})
	r := prometheus.NewPedanticRegistry()
	w.Register(r)
	testenv.Served(t, r, `sluice_webhook_attempts_total{result="gone"} 2`,
		`sluice_webhook_attempts_total{result="delivered"} 0`, `sluice_webhook_given_up_total{reason="too_old"} 3`,
		`sluice_webhook_given_up_total{reason="too_many"} 6`, `sluice_webhook_waiting 4`, `sluice_webhook_oldest_seconds 5`)
}
