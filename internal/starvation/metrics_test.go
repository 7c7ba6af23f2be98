package starvation

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/testenv"
)

func TestMetrics_SayHowLateTheProcessIsRun(t *testing.T) {
	m := New()
	r := prometheus.NewPedanticRegistry()
	m.Register(r)
	testenv.Served(t, r, "sluice_scheduling_delay_seconds 0")
	m.delays.add(time.Second)
	testenv.Served(t, r, fmt.Sprint("sluice_scheduling_delay_seconds ", m.Delay99().Seconds()))
}
