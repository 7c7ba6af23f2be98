// Package telemetry counts what sluice does and builds its logger. No key, user
// or address ever becomes a label: rule names do, and only the first thousand.
//
// A denied request of the rule charges-per-user while Redis is away and the
// rule's fail mode is closed adds one to each of
//
//	sluice_decisions_total{rule="charges-per-user",mode="enforce",outcome="denied"}
//	sluice_degraded_total{mode="closed",cause="connection"}
//	sluice_check_duration_seconds_count{op="take",outcome="denied"}
//
// docs/metrics.md lists every series and a test fails when it drifts.
package telemetry
