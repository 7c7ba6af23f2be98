package main

import (
	"fmt"
	"time"
)

// phase is the stretch from one fault to the next.
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
		if h.at.After(p.lastUnwell) {
			p.lastUnwell = h.at
		}
	}
}

// back is how long after the fault the last degraded answer came.
func (p *phase) back() string {
	if p.lastUnwell.IsZero() {
		return "–"
	}
	if p.healed.IsZero() || p.lastUnwell.Before(p.healed) {
		return "at once"
	}
	return fmt.Sprintf("%.2f s", p.lastUnwell.Sub(p.healed).Seconds())
}

// turn begins a new phase and returns the one that ended.
func (l *ledger) turn(name string) *phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &phase{name: name, began: time.Now()}
	l.phase = p
	return p
}
