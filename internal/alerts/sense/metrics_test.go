package sense

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/testenv"
)

func TestMetrics_SayWhatBecameOfReports(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(&metrics{
		func() (map[string]Count, int) { return map[string]Count{"key_usage": {Stored: 3, Dropped: 4}}, 5 },
		func() evaluate.RunnerStats {
			return evaluate.RunnerStats{Held: true, Age: time.Second, Events: 6,
				Ignored: map[alerts.Kind]int64{alerts.KindKeyUsage: 8}}
		},
		func(alerts.Kind) int { return 7 },
	})
	testenv.Served(t, r, `sluice_alert_reports_total{kind="key_usage",result="stored"} 3`,
		`sluice_alert_reports_total{kind="key_usage",result="dropped"} 4`,
		`sluice_alert_reports_total{kind="key_usage",result="ignored"} 8`, `sluice_alert_reports_waiting 5`,
		`sluice_alerts_active{kind="key_usage"} 7`, `sluice_alerts_told_total 6`, `sluice_alerts_evaluating 1`,
		`sluice_alert_evaluation_age_seconds 1`)
}
