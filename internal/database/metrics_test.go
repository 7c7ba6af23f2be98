package database

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/testenv"
)

func TestMetrics_SayWhyNothingCanBeWritten(t *testing.T) {
	var d DB
	r := prometheus.NewPedanticRegistry()
	d.Register(r)
	testenv.Served(t, r, "sluice_rules_disk_failing 0", "sluice_database_replica 0")
	d.disk.failed = true
	testenv.Served(t, r, "sluice_rules_disk_failing 1", "sluice_database_replica 0")
	d.replica.Store(true)
	testenv.Served(t, r, "sluice_database_replica 1")
}
