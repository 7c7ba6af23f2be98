package app

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/alerts/deliver"
	"sluice/internal/database"
	"sluice/internal/usage"
	"sluice/rules/match"
)

// openUsage starts the Recorder of statements. Local decisions are reconciled from now on, so that statements include
// them.
func openUsage(host *Host, buckets *counters, db *database.DB, sets *match.Current, metrics prometheus.Registerer,
	stops *stops) *usage.Recorder {
	r := usage.NewRecorder(usage.Options{Store: buckets.store, Lister: buckets.periods, Database: db, Sets: sets,
		Left: buckets.left, Now: host.Now, Trouble: host.trouble})
	r.Register(metrics)
	stops.add("statements", task(r.Run))
	if buckets.ledger != nil {
		stops.add("reconciliation of local decisions", task(func(ctx context.Context) {
			buckets.ledger.Reconcile(ctx, r.Watch(buckets.shared))
		}))
	}
	return r
}

// leading is what runs on the node that has the lease of alerts.
type leading struct {
	*deliver.Worker
	statements *usage.Recorder
}

// Run implements evaluate.Deliverer.
func (l leading) Run(ctx context.Context, holder string) {
	var running sync.WaitGroup
	running.Go(func() { l.statements.Lead(ctx) })
	l.Worker.Run(ctx, holder)
	running.Wait()
}
