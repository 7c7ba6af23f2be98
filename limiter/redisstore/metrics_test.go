package redisstore

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/testenv"
)

func TestMetrics_SayWhatBreakersAndSlotsDo(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics{
		func() []Breaker { return []Breaker{{Node: "redis:6379", State: BreakerOpen, Opened: 4, Refused: 5}} },
		func() Stats {
			return Stats{Spanning: 9, GiveBacks: 3, GiveBacksPending: 4, GiveBacksLost: 1, Reloads: 2}
		},
	})
	testenv.Served(t, r, `sluice_breaker_state{node="redis:6379"} 2`, `sluice_breaker_opened_total{node="redis:6379"} 4`,
		`sluice_breaker_refused_total{node="redis:6379"} 5`, `sluice_cluster_spanning_requests_total 9`,
		`sluice_cluster_give_backs_total 3`, `sluice_cluster_give_backs_pending 4`, `sluice_cluster_give_backs_lost_total 1`,
		`sluice_cluster_reloads_total 2`)
}
