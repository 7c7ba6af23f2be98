package fleet

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers the metric of p.
func (p *Presence) Register(to prometheus.Registerer) {
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_live_nodes",
		Help: "Nodes that share the counter store. Fail mode local divides limits by this number. While the store is " +
			"unavailable, the last known number."}, func() float64 { return float64(p.Live()) }))
}

// Register registers the metric of b: the buckets that were sent, received, and lost because too many waited or the
// message failed.
func (b *Bus) Register(to prometheus.Registerer) {
	for way, n := range map[string]*atomic.Int64{"told": &b.sent, "heard": &b.received, "lost": &b.lost} {
		to.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "sluice_forget_total",
			Help:        "Messages between nodes to forget a bucket, by way: told (sent), heard (received), lost (not sent).",
			ConstLabels: prometheus.Labels{"way": way}}, func() float64 { return float64(n.Load()) }))
	}
}
