package app

import (
	"context"

	"sluice/internal/backtest"
	"sluice/internal/config"
	"sluice/internal/records"
	"sluice/internal/records/kafkasink"
	"sluice/internal/secretfile"
	"sluice/rules/quantity"
)

// openReplays returns what reads the decision log of this node for the console: its files or, if it has none, the
// topic, which has the events of all nodes.
func openReplays(cfg *config.Serve, host *Host, password *secretfile.File, stops *stops) *backtest.Jobs {
	opt := backtest.JobOptions{Now: host.Now, Logger: host.Log, Has: logHas(cfg), OneNode: cfg.RecordsToFile()}
	switch {
	case cfg.RecordsToFile():
		dir := cfg.RecordsDir()
		opt.Source = "the files in " + dir
		opt.Open = func(_ context.Context, from int64) (*backtest.Log, func(), error) {
			return backtest.OpenFiles([]string{dir}, from)
		}
	case cfg.RecordsToKafka():
		opt.Source = "the topic " + cfg.KafkaTopic
		opt.Open = func(ctx context.Context, from int64) (*backtest.Log, func(), error) {
			connection, err := kafkaConnection(&cfg.Kafka, password)
			if err != nil {
				return nil, nil, err
			}
			return OpenKafkaLog(ctx, connection, from)
		}
	}
	jobs := backtest.NewJobs(opt)
	stops.add("replays of the decision log", jobs.Close)
	return jobs
}

// logHas says which requests the decision log has.
func logHas(cfg *config.Serve) string {
	rate := quantity.Decimal(cfg.LogRate) + "%"
	const more = " SLUICE_DECISION_LOG_RATE=100 records all, and log_percent of a rule those of the rule."
	switch {
	case cfg.LogRate == 100:
		return "The log has all requests."
	case cfg.LogRate == 0:
		return "The log has denials only." + more
	case cfg.Embedded():
		return "The log has all denials. It has all allowed requests of times with at most " +
			quantity.Amount(records.QuietRate) + " per second, else those of " + rate + " of the users." + more
	}
	return "The log has all denials, and the allowed requests of " + rate + " of the users." + more
}

// OpenKafkaLog opens what the topic of a connection has now, from an instant on, in ms since the epoch; 0 is all.
func OpenKafkaLog(ctx context.Context, connection kafkasink.Connection, from int64) (*backtest.Log, func(), error) {
	r, err := kafkasink.OpenReader(ctx, connection, from)
	if err != nil {
		return nil, nil, err
	}
	var places []backtest.Lines
	for _, p := range r.Partitions() {
		places = append(places, p)
	}
	return backtest.NewLog(places...), r.Close, nil
}
