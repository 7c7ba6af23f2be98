package memstore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"sluice/limiter"
)

var _ limiter.HighWaterReader = (*Store)(nil)

// highWater keeps the high-water marks. Requests that have one are decided under its lock.
type highWater struct {
	mu    sync.Mutex
	marks map[string]limiter.Water
}

// hasHighWater reports whether a request is covered by high-water marks.
func hasHighWater(req *limiter.Request) bool {
	return slices.ContainsFunc(req.Asks, func(a limiter.Ask) bool { return a.HighWater != nil })
}

// note writes what a request has spent into the marks. The caller holds h.mu.
func (h *highWater) note(req *limiter.Request, res *limiter.Result, now int64) {
	if res.Replayed {
		return
	}
	for i := range req.Asks {
		a := &req.Asks[i]
		if a.HighWater == nil {
			continue
		}
		if h.marks == nil {
			h.marks = map[string]limiter.Water{}
		}
		h.marks[a.HighWater.Name] = h.marks[a.HighWater.Name].Note(req.Op, a, &res.Limits[i], res.Allowed, now)
	}
}

// HighWater implements limiter.HighWaterReader.
func (s *Store) HighWater(context.Context) (map[string]int64, error) {
	s.high.mu.Lock()
	defer s.high.mu.Unlock()
	now, out := s.instant().now, map[string]int64{}
	maps.DeleteFunc(s.high.marks, func(name string, m limiter.Water) bool {
		if level := m.At(now); level > 0 {
			out[name] = level
			return false
		}
		return true
	})
	return out, nil
}
