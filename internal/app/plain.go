package app

import (
	"sluice/api"
	"sluice/api/plain"
	"sluice/internal/config"
	"sluice/internal/telemetry"
	"sluice/internal/traces"
)

// openPlain returns what answers plain checks, or nil if net/http answers all requests.
func openPlain(cfg *config.Serve, server *api.Server, ready *readiness, metrics *telemetry.Metrics,
	spans *traces.Traces, host *Host, stops *stops) (*plain.Server, error) {
	if cfg.PlainChecks == "off" {
		return nil, nil //nolint:nilnil // it is an option
	}
	metrics.HandOvers(plain.Reasons())
	checks, err := plain.New(plain.Deps{
		Check: tracePlain(server.Check, spans), MaxBody: api.MaxCheck, Idle: idleTimeout, Write: writeTimeout,
		Draining: ready.draining.Load,
		Checked:  metrics.CountPlainCheck, HandedOver: metrics.CountHandOver, Panicked: metrics.CountPanic, Logger: host.Log,
	})
	if err != nil {
		return nil, err
	}
	stops.add("plain checks", task(checks.Run))
	return checks, nil
}
