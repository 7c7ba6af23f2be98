package history

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

const (
	// maxTops is the largest number of rules whose keys, routes and tenants a node counts.
	maxTops = 1000
	// maxDrawn is how many decisions in a second a node counts by key before it halves the sampling rate. It bounds the
	// cost of counting.
	maxDrawn = 1000
)

// tops counts keys, routes and tenants by rule, of a sample of the decisions.
type tops struct {
	// A decision is counted with the probability 1/stride, and counts stride times. stride is a power of two. drawn is
	// the number of decisions that were counted in this second.
	stride, drawn atomic.Int64

	// counted are hashes of the last denied keys that were counted, so that a flood of denials costs no lock. seed is
	// the seed of the hashes, and hour a number that changes when the counts are reset.
	counted [1024]atomic.Uint64
	seed    maphash.Seed
	hour    atomic.Uint64

	// requests numbers the requests that are counted by their keys.
	requests atomic.Uint64

	mu    sync.Mutex
	rules map[string]*Sketches
	// beyond maps the rules beyond maxTops, at most maxRules, to the number of their uncounted decisions.
	beyond map[string]int64
}

// Weight decides at random whether a decision is counted by key, route and tenant. It returns the number of decisions
// for which this one counts, 0 if it is not counted. Up to a thousand requests per second, all decisions are counted.
func (r *Recorder) Weight() int64 {
	t := &r.tops
	stride := t.stride.Load()
	if stride > 1 && rand.Int64()&(stride-1) != 0 { //nolint:gosec // not a secret
		return 0
	}
	if t.drawn.Add(1) > maxDrawn && t.stride.CompareAndSwap(stride, 2*stride) {
		t.drawn.Store(0)
	}
	return stride
}

// pace begins a second. It doubles the sampling rate again if few decisions were drawn in the last one.
func (t *tops) pace() {
	if stride := t.stride.Load(); t.drawn.Swap(0) < maxDrawn/4 && stride > 1 {
		t.stride.CompareAndSwap(stride, stride/2)
	}
}

// Top counts a decision of a rule ("" for the request as a whole) by a key, route or tenant, selected by ByKey, ByRoute
// or ByTenant. weight is the result of Weight.
func (r *Recorder) Top(rule, by, value string, allowed bool, weight int64) {
	if by == ByKey && rule != "" && !allowed {
		r.keys.add(rule, value, weight)
	}
	r.tops.count(rule, weight, func(s *Sketches) { s.Add(by, value, allowed, weight) })
}

// Number returns the number of a request for TopKey.
func (r *Recorder) Number() uint64 { return r.tops.requests.Add(1) }

// TopKey counts a request as a whole by one of its keys, as denied if a limit with this key denies it. A key that
// several limits of the request share counts once. request is the result of Number, weight the result of Weight.
func (r *Recorder) TopKey(request uint64, key string, allowed bool, weight int64) {
	r.tops.count("", weight, func(s *Sketches) { s.AddRequest(request, ByKey, key, allowed, weight) })
}

// DeniedKey counts a key that a rule denied ("" for the request as a whole) among the distinct ones.
func (r *Recorder) DeniedKey(rule, key string) {
	t := &r.tops
	h := maphash.String(t.seed, key) + 3*maphash.String(t.seed, rule) + t.hour.Load()
	of := &t.counted[h%uint64(len(t.counted))]
	if of.Load() == h {
		return
	}
	of.Store(h)
	t.count(rule, 0, func(s *Sketches) { s.Denied(key) })
}

// count counts something of so many decisions in the sketches of a rule.
func (t *tops) count(rule string, decisions int64, add func(*Sketches)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rules == nil {
		t.rules, t.beyond = map[string]*Sketches{}, map[string]int64{}
	}
	s := t.rules[rule]
	if s == nil && len(t.rules) >= maxTops {
		if before, known := t.beyond[rule]; known || len(t.beyond) < maxRules {
			t.beyond[rule] = before + decisions
		}
		return
	}
	if s == nil {
		s = NewSketches()
		t.rules[rule] = s
	}
	add(s)
}

// has reports whether there are tops of a rule.
func (t *tops) has(rule string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, beyond := t.beyond[rule]
	return beyond || t.rules[rule] != nil
}

// of returns the tops of a rule, nil if there are none. Those of a rule beyond maxTops say that its keys are unknown.
func (t *tops) of(rule string) Tops {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.rules[rule]; s != nil {
		return s.Tops()
	}
	if decisions, known := t.beyond[rule]; known {
		return UnknownTops(decisions)
	}
	return nil
}

// end returns the tops of every rule, and begins an hour.
func (t *tops) end() map[string]Tops {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]Tops, len(t.rules)+len(t.beyond))
	for rule, s := range t.rules {
		out[rule] = s.Tops()
	}
	for rule, decisions := range t.beyond {
		out[rule] = UnknownTops(decisions)
	}
	t.rules, t.beyond = nil, nil
	t.hour.Add(1)
	return out
}
