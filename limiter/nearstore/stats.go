package nearstore

import (
	"sync/atomic"

	"sluice/limiter"
)

// counts counts since the start.
type counts struct {
	turned, refills, leased, spent, returned, lost, probes atomic.Int64
}

// Stats is what a Store has done since its start, for metrics.
type Stats struct {
	// Denials remembered, takes answered from them, buckets dropped early because
	// something was given back, and buckets remembered right now.
	Remembered, Answered, Dropped, Held int64
	// Hot is how many buckets are hot right now, TurnedHot how often one turned.
	Hot, TurnedHot int64
	// Leases is how many leases were taken or tried. Leased counts the units that they held beyond the take that needed
	// one, Spent the units that takes got from or with leases, Returned the units given back, Lost the units neither
	// spent nor given back.
	Leases, Leased, Spent, Returned, Lost int64
	// Probes is how often a take tried another shard because one had denied.
	Probes int64
}

// Stats returns the current counts.
func (s *Store) Stats() Stats {
	c := &s.count
	out := Stats{
		TurnedHot: c.turned.Load(), Leases: c.refills.Load(), Leased: c.leased.Load(), Spent: c.spent.Load(),
		Returned: c.returned.Load(), Lost: c.lost.Load(), Probes: c.probes.Load(),
	}
	if s.deny != nil {
		out.Remembered, out.Answered, out.Dropped = s.deny.remembered.Load(), s.deny.answered.Load(), s.deny.dropped.Load()
		out.Held = int64(s.deny.cache.EstimatedSize())
	}
	for _, h := range s.all() {
		if !h.cold.Load() {
			out.Hot++
		}
	}
	return out
}

// HotKeys lists the busiest buckets of this node, at most so many, the busiest
// first. Those that are hot are marked. Nil if hot keys are disabled.
func (s *Store) HotKeys(most int) []limiter.HotKey {
	if s.sketch == nil {
		return nil
	}
	return s.sketch.top(s.tick(), most)
}
