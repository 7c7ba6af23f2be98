package nearstore

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/testenv"
)

func TestMetrics_SayWhatTheDenyCacheAndTheLeasesDo(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newMetrics(func() Stats {
		return Stats{Remembered: 1, Answered: 2, Dropped: 3, Held: 4, Hot: 5, TurnedHot: 6, Leases: 7, Leased: 8, Spent: 9,
			Returned: 10, Lost: 11, Probes: 12}
	}))
	testenv.Served(t, r, `sluice_deny_cache_remembered_total 1`, `sluice_deny_cache_answers_total 2`,
		`sluice_deny_cache_drops_total 3`, `sluice_deny_cache_buckets 4`, `sluice_hot_keys 5`,
		`sluice_hot_keys_turned_total 6`, `sluice_hot_slices_total 7`, `sluice_hot_units_total{fate="leased"} 8`,
		`sluice_hot_units_total{fate="spent"} 9`, `sluice_hot_units_total{fate="returned"} 10`,
		`sluice_hot_units_total{fate="lost"} 11`, `sluice_hot_shard_probes_total 12`)
}
