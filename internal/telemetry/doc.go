// Package telemetry has the registry of metrics and creates the logger. It declares the metrics of checks, of the
// memory store, and of gateways, Envoy and plain checks, whose packages do not depend on Prometheus. The other packages
// declare their own. No key, user or address is a label; rule names are, up to the first thousand.
//
// A request of the rule charges-per-user that fail mode closed denies while Redis is
// unavailable adds one to each of
//
//	sluice_decisions_total{rule="charges-per-user",mode="enforce",outcome="denied"}
//	sluice_degraded_total{mode="closed",cause="connection"}
//	sluice_check_duration_seconds_count{op="take",outcome="denied"}
//
// docs/metrics.md lists every series, and a test of internal/app compares it with what all packages register.
package telemetry
