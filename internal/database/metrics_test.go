package database

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/testenv"
)

func TestMetrics_SayThatItIsAReplica(t *testing.T) {
	var d DB
	r := prometheus.NewPedanticRegistry()
	d.Register(r)
	testenv.Served(t, r, "sluice_database_replica 0")
	d.replica.Store(true)
	testenv.Served(t, r, "sluice_database_replica 1")
}
