package updates

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/region"
	"sluice/internal/testenv"
)

func TestMetrics_SayWhatRegionsSendEachOther(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics{func() region.Overview {
		return region.Overview{Waiting: 21, Invalid: 22,
			Rules: []region.Estimate{{Rule: "r", OverPercent: 1.5, MaxOverPercent: 2}},
			Peers: []region.Status{{Name: "us", CutOff: true, CutTotal: 90 * time.Second,
				Lags: 1, LagP99: 300 * time.Millisecond, SkewKnown: true, Skew: -3 * time.Second, LastUpdate: time.UnixMilli(1),
				Set: 7, Messages: 5, Failures: 2,
				Sent: 23, Received: 24, Accepted: 25, Here: region.Fate{Applied: 26, Repeated: 27, Shrunk: 28, Unknown: 29}}}}
	}})
	testenv.Served(t, r, `sluice_region_cut_off{region="us"} 1`, `sluice_region_cut_off_seconds_total{region="us"} 90`,
		`sluice_region_lag_seconds{region="us"} 0.3`, `sluice_region_clock_ahead_seconds{region="us"} -3`,
		`sluice_region_set_version{region="us"} 7`, `sluice_region_messages_total{region="us",result="taken"} 3`,
		`sluice_region_messages_total{region="us",result="failed"} 2`, `sluice_region_bytes_total{region="us",way="sent"} 23`,
		`sluice_region_bytes_total{region="us",way="received"} 24`, `sluice_region_buckets_total{fate="sent",region="us"} 25`,
		`sluice_region_buckets_total{fate="applied",region="us"} 26`,
		`sluice_region_buckets_total{fate="repeated",region="us"} 27`,
		`sluice_region_buckets_total{fate="shrunk",region="us"} 28`,
		`sluice_region_buckets_total{fate="unknown",region="us"} 29`, `sluice_region_waiting_buckets 21`,
		`sluice_region_invalid_messages_total 22`, `sluice_region_over_percent{rule="r"} 1.5`,
		`sluice_region_max_over_percent{rule="r"} 2`)
}
