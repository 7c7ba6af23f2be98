package share

import (
	"encoding/json"
	"slices"
)

// Parse reads a state that was kept as JSON, nil if it is none.
func Parse(b []byte) *State {
	s := &State{}
	if json.Unmarshal(b, s) != nil || len(s.Regions) == 0 {
		return nil
	}
	s.init()
	return s
}

// WaitsFor reports whether this region has lost what it had lent, and a region has not yet said what it holds.
func (s *State) WaitsFor(region string) bool {
	return s.Lost != nil && !slices.Contains(s.Lost.Answered, region)
}

// Lacks reports whether it helps to ask a region before the interval is over, because this one wants more of it than it
// has.
func (s *State) Lacks(c *Config, of string, specs map[int64]Spec, now int64) bool {
	for id, sp := range specs {
		want, has := partsOf(s.plan(c, id, sp, now).borrows[of], sp.Units), int64(0)
		if r := s.Rules[id]; r != nil && r.Borrowed[of] != nil {
			has = r.Borrowed[of].Granted.Size()
		}
		if want > has+1 {
			return true
		}
	}
	return false
}

// Kept is a state as it was read.
type Kept struct {
	// At is the time of Redis then, ms.
	At int64
	// Server identifies the Redis process that has answered. Kept identifies the process to which the state was
	// written, "" if there is none: another process may have lost a later state.
	Server, Kept string
	// Version grows with each state.
	Version int64
	State   []byte
}

// Idle are the spans that nobody may spend: the spans that this region withholds, and borrowed spans that it no longer
// spends. r may be nil.
func (r *Rule) Idle() (idle Spans) {
	if r == nil {
		return nil
	}
	idle = spansOf(r.Withheld)
	for _, b := range r.Borrowed {
		idle = idle.Plus(spansOf(b.Leaving))
	}
	for _, l := range r.Lent {
		idle = idle.Plus(l.all().Minus(l.Granted))
	}
	return idle
}

// With returns the spans of this region's part that the other region holds, the spans of the other's part that this one
// may spend, and until when: 0 if there are none. r may be nil.
func (r *Rule) With(region string, now int64) (lent, borrowed Spans, until int64) {
	if r == nil {
		return nil, nil, 0
	}
	if l := r.Lent[region]; l != nil {
		lent = l.all()
		for i := range l.Leases {
			until = max(until, l.Leases[i].Until)
		}
	}
	if b := r.Borrowed[region]; b != nil && now < b.Until && len(b.used()) > 0 {
		borrowed, until = b.used(), b.Until
	}
	return lent, borrowed, until
}
