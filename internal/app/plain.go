package app

import (
	"runtime"

	"sluice/api"
	"sluice/api/plain"
	"sluice/internal/config"
	"sluice/internal/telemetry"
	"sluice/internal/traces"
)

// openPlain returns what answers plain checks.
func openPlain(server *api.Server, ready *readiness, metrics *telemetry.Metrics, spans *traces.Traces, host *Host,
	stops *stops) (*plain.Server, error) {
	metrics.HandOvers(plain.Reasons())
	checks, err := plain.New(plain.Deps{
		Check: tracePlain(server.Check, spans), CheckAll: server.CheckAll, MaxBody: api.MaxCheck,
		Idle: idleTimeout, Write: writeTimeout,
		Draining: ready.draining.Load,
		Checked:  metrics.CountPlainCheck, HandedOver: metrics.CountHandOver, Panicked: metrics.CountPanic, Logger: host.Log,
	})
	if err != nil {
		return nil, err
	}
	stops.add("plain checks", task(checks.Run))
	return checks, nil
}

// loops reports whether plain checks are read in a loop. The loop is not used over TLS, which it does not support; with
// traces, because each check needs a separate span; and in a region, because a check that asks another region would
// delay the other checks of its batch.
func loops(cfg *config.Serve, spans *traces.Traces) bool {
	return runtime.GOOS == "linux" && cfg.Loop == "on" && !cfg.TLS() && spans == nil && cfg.Region == ""
}
