package share

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/region"
	"sluice/internal/testenv"
)

func TestMetrics_SayWhatTheRegionMaySpend(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics{func() region.Shares {
		return region.Shares{Losses: 3, Failing: true,
			Rules: []region.RuleShares{{Rule: "r", Limit: 90, Share: 45, Unused: 9}}}
	}})
	testenv.Served(t, r, `sluice_region_share_ratio{rule="r"} 0.5`, `sluice_region_share_unused_ratio{rule="r"} 0.1`,
		`sluice_region_share_losses_total 3`, `sluice_region_share_lost 1`)
}
