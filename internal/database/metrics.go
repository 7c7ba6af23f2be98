package database

import "github.com/prometheus/client_golang/prometheus"

// Register registers the metrics of d.
func (d *DB) Register(to prometheus.Registerer) {
	for _, m := range []struct {
		name, help string
		is         func() bool
	}{
		{"sluice_rules_disk_failing",
			"1 while the embedded rules database cannot be written because its disk is full or failing, else 0.",
			d.DiskFailing},
		{"sluice_database_replica",
			"1 while the rules database is a read replica, so that this node refuses changes, else 0.", d.Replica},
	} {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.name, Help: m.help}, func() float64 {
			if m.is() {
				return 1
			}
			return 0
		}))
	}
}
