package home

import (
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/across"
)

// denied is a request that was taken at one place and denied at another. What it took was given back, or could not be.
func denied(undo error) *across.Request {
	r := across.New(&limiter.Request{Asks: []limiter.Ask{ask("{a}", 1, 1), ask("{b}", 1, 1)}},
		across.Options{Place: func(a *limiter.Ask) int { return int(a.Key[1]) }})
	across.Run([]*across.Request{r}, func(round []*across.Part) {
		for _, p := range round {
			fits := p.Place == 'a'
			p.Got = across.Answer{Took: fits, Result: &limiter.Result{Allowed: fits, Limits: make([]limiter.Decision, 1)}}
			if p.Step == across.Undo {
				p.Got.Err, p.Got.Result.Limits[0].Refunded = undo, 1
			}
		}
	})
	return r
}

func TestMetrics_SayWhatRegionsDecideForEachOther(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	observe := CountCalls(r, []string{"us"})
	observe("us", "", 80*time.Millisecond)
	observe("us", ReasonTimeout, 3*time.Second)
	s := Store{undos: across.NewUndos(across.UndoOptions[limiter.Request]{Life: time.Minute, Now: time.Now,
		Of: func(p *across.Part) (int, limiter.Request) { return p.Place, p.Request }})} // without room
	defer s.undos.Close(t.Context())
	for range 31 {
		s.undos.Keep(denied(nil), time.Now())
	}
	for range 33 {
		s.undos.Keep(denied(io.ErrUnexpectedEOF), time.Now())
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
