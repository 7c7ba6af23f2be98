package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/access"
	"sluice/internal/alerts/deliver"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/alerts/sense"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/history"
	"sluice/internal/usage"
	"sluice/rules/match"
)

const (
	// alertQuiet is the time after an alert in which further ones about its subject are only counted. A quarter of an
	// hour reminds people often enough of a lasting condition and does not flood a channel.
	alertQuiet = 15 * time.Minute
	// alertLease is how long a node evaluates alerts without renewing its lease, and so how long they wait when it dies.
	// The embedded database has one node, whose successor has the same name: nobody waits for the end of its lease, and
	// it is written rarely.
	alertLease, embeddedLease = 5 * time.Second, time.Minute
	embeddedHolder            = "embedded"
)

// openAlerts starts what evaluates alerts on one of the nodes, and returns what every node knows of them.
func openAlerts(cfg *config.Serve, host *Host, db *database.DB, sets *match.Current,
	tokens *access.Current, figures *fleetReporter,
	past history.Source, sensor *sense.Sensor, worker *deliver.Worker, statements *usage.Recorder,
	metrics prometheus.Registerer, stops *stops) *evaluate.Board {
	holder, lease := figures.node, alertLease
	if !cfg.Postgres() {
		holder, lease = embeddedHolder, embeddedLease
	}
	facts := &alertFacts{webhooks: db.Webhooks(), silences: db.Silences, sets: sets, tokens: tokens,
		live: figures.live.Live, stats: past, now: host.Now}
	runner := evaluate.NewRunner(evaluate.RunnerOptions{Store: db, Holder: holder, Lease: lease, Facts: facts.gather,
		Deliver: leading{worker, statements}, Quiet: alertQuiet, Now: host.Now, Log: host.Log,
		Trouble: host.trouble})
	board := evaluate.NewBoard(db, host.Now, host.trouble)
	sensor.Register(metrics, runner, board)
	stops.add("alerts that are on", task(board.Run))
	stops.add("alerts", task(runner.Run))
	return board
}
