package main

import (
	"fmt"
	"time"
)

// phase is the time from one fault to the next.
type phase struct {
	name, what string
	began      time.Time
	healed     time.Time // when the fault was over
	lastUnwell time.Time // the last degraded answer
	lat        []time.Duration
	degraded   map[string]int
	failed     int
	excused    int
	err        error
}

func (p *phase) note(h heard) {
	if !h.answered {
		return
	}
	p.lat = append(p.lat, h.took)
	if h.degraded != "" {
		if p.degraded == nil {
			p.degraded = map[string]int{}
		}
		p.degraded[h.degraded]++
		p.unwell(h.at)
	}
}

// calm is the time without a degraded answer after which a fault is over. Later degraded answers
// are noise of the machine, but still counted.
const calm = time.Second

// unwell records the time of a degraded answer.
func (p *phase) unwell(at time.Time) {
	since := p.healed
	if p.lastUnwell.After(since) {
		since = p.lastUnwell
	}
	if at.After(p.lastUnwell) && (p.healed.IsZero() || at.Sub(since) < calm) {
		p.lastUnwell = at
	}
}

// back returns the time between the end of the fault and its last degraded answer.
func (p *phase) back() string {
	if p.lastUnwell.IsZero() {
		return "–"
	}
	if p.healed.IsZero() || p.lastUnwell.Before(p.healed) {
		return "at once"
	}
	return fmt.Sprintf("%.2f s", p.lastUnwell.Sub(p.healed).Seconds())
}

// turn begins a new phase and returns the previous one.
func (l *ledger) turn(name string) *phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &phase{name: name, began: time.Now()}
	l.phase = p
	return p
}
