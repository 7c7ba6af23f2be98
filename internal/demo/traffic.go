package demo

import (
	"context"
	"math/rand/v2"
	"time"

	"sluice/api/decide"
	"sluice/internal/tick"
)

// traffic sends the requests of the shop from the start on.
type traffic struct {
	now func() time.Time
	// first is how long after the start the first flood begins.
	first time.Duration
	rng   *rand.Rand
}

// run sends requests until ctx ends.
func (t *traffic) run(ctx context.Context, checker *decide.Checker) {
	var answer decide.Answer
	begun := t.now()
	for range tick.Every(ctx, time.Second/perSecond) {
		now := t.now()
		if t.rng.Float64() < wave(now.Unix()) {
			q := t.next()
			// The Checker counts errors; the next request may succeed.
			_ = checker.Do(ctx, &q, &answer)
		}
		if t.flooding(now.Sub(begun)) && t.rng.Float64() < float64(floodPerSecond)/perSecond {
			q := attempt()
			_ = checker.Do(ctx, &q, &answer)
		}
	}
}

// flooding reports whether a flood goes on so long after the start.
func (t *traffic) flooding(since time.Duration) bool {
	since -= t.first
	return since >= 0 && since%(floodMinutes*time.Minute) < floodSeconds*time.Second
}

// next is the next request that belongs to no flood.
func (t *traffic) next() decide.Question {
	at := t.rng.Float64() * 100
	f := &flows[len(flows)-1]
	for i := range flows {
		if at -= flows[i].percent; at < 0 {
			f = &flows[i]
			break
		}
	}
	return question(f, userOf(t.rng.Int64N(weights)))
}
