package home

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/retry"
	"sluice/internal/testenv"
)

func TestMetrics_SayWhatRegionsDecideForEachOther(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	observe := CountCalls(r, []string{"us"})
	observe("us", "", 80*time.Millisecond)
	observe("us", ReasonTimeout, 3*time.Second)
	s := Store{undos: retry.New(retry.Options[string, *undo]{Life: time.Minute, Now: time.Now})} // without room
	defer s.undos.Close(t.Context())
	s.undone.Store(31)
	for range 33 {
		s.undos.Add("us", nil, time.Now(), time.Now())
	}
	s.Register(r)
	var a Receiver
	a.decided.Store(34)
	a.failed.Store(35)
	a.foreign.Store(36)
	a.invalid.Store(37)
	a.Register(r)
	testenv.Served(t, r, `sluice_region_calls_total{region="us",result="decided"} 1`,
		`sluice_region_calls_total{region="us",result="timeout"} 1`, `sluice_region_calls_total{region="us",result="rule"} 0`,
		`sluice_region_call_seconds_bucket{region="us",le="0.06"} 0`,
		`sluice_region_call_seconds_bucket{region="us",le="0.08"} 1`, `sluice_region_call_seconds_count{region="us"} 2`,
		`sluice_region_give_backs_total{result="done"} 31`, `sluice_region_give_backs_total{result="lost"} 33`,
		`sluice_region_give_backs_pending 0`, `sluice_region_answers_total{result="decided"} 34`,
		`sluice_region_answers_total{result="failed"} 35`, `sluice_region_answers_total{result="foreign"} 36`,
		`sluice_region_answers_total{result="invalid"} 37`)
}
