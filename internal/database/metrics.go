package database

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metrics of d.
func (d *DB) Register(to prometheus.Registerer) {
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_database_replica",
		Help: "1 while the rules database is a read replica, so that this node refuses changes, else 0.",
	}, func() float64 {
		if d.Replica() {
			return 1
		}
		return 0
	}))
}
