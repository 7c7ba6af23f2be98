// Package telemetry has the metrics of sluice and creates its logger. No key, user or
// address is a label; rule names are, up to the first thousand.
//
// A request of the rule charges-per-user that fail mode closed denies while Redis is
// unavailable adds one to each of
//
//	sluice_decisions_total{rule="charges-per-user",mode="enforce",outcome="denied"}
//	sluice_degraded_total{mode="closed",cause="connection"}
//	sluice_check_duration_seconds_count{op="take",outcome="denied"}
//
// docs/metrics.md lists every series, and a test compares it with the registry.
package telemetry
