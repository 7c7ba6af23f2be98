package fleet

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/testenv"
)

func TestMetrics_SayHowManyNodesLiveAndWhatTheySend(t *testing.T) {
	var p Presence
	var b Bus
	p.live.Store(3)
	b.sent.Store(13)
	b.received.Store(14)
	b.lost.Store(15)
	r := prometheus.NewPedanticRegistry()
	p.Register(r)
	b.Register(r)
	testenv.Served(t, r, `sluice_live_nodes 3`, `sluice_forget_total{way="told"} 13`, `sluice_forget_total{way="heard"} 14`,
		`sluice_forget_total{way="lost"} 15`)
}
