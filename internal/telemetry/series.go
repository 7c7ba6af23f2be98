package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// handles remembers the series of a vector by the words that choose them, in a
// key K that is compared as it stands: looking a series up by its label values
// costs a hash of them all, a lock and a comparison, four times a check. Reading
// is lock-free. Only keys from bounded lists may be used.
type handles[K comparable, S any] struct {
	mu   sync.Mutex
	seen atomic.Pointer[map[K]S]
}

// get gives the series of a key, which find looks up the first time.
func (h *handles[K, S]) get(key K, find func(K) S) S {
	if seen := h.seen.Load(); seen != nil {
		if s, ok := (*seen)[key]; ok {
			return s
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	next := map[K]S{}
	if seen := h.seen.Load(); seen != nil {
		if s, ok := (*seen)[key]; ok {
			return s
		}
		next = maps.Clone(*seen)
	}
	s := find(key)
	next[key] = s
	h.seen.Store(&next)
	return s
}

// forget drops the handles that gone picks.
func (h *handles[K, S]) forget(gone func(K) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seen := h.seen.Load(); seen != nil {
		next := maps.Clone(*seen)
		maps.DeleteFunc(next, func(k K, _ S) bool { return gone(k) })
		h.seen.Store(&next)
	}
}

// limitKey is the labels of sluice_decisions_total; rule is the label, not the
// name.
type limitKey struct{ rule, mode, outcome string }

// unitsKey is the labels of sluice_account_units_total.
type unitsKey struct{ mode, outcome, by string }

// requestKey is the labels of sluice_account_requests_total, or of
// sluice_check_duration_seconds.
type requestKey struct{ first, second string }

// series are the handles of what every check counts.
type series struct {
	decisions handles[limitKey, prometheus.Counter]
	durations handles[requestKey, prometheus.Observer]
	requests  handles[requestKey, prometheus.Counter]
	units     handles[unitsKey, prometheus.Counter]
}

// maxRuleLabels bounds how many different rule names become label values, so
// that no catalogue, however large, floods the metric store.
const maxRuleLabels = 1000

// otherRules is the label of every rule beyond the bound.
const otherRules = "other"

// names admits the first maxRuleLabels names it sees. Reading is lock-free.
type names struct {
	mu   sync.Mutex
	seen atomic.Pointer[map[string]struct{}]
}

// label gives name itself, or otherRules once the bound is reached.
func (n *names) label(name string) string {
	if seen := n.seen.Load(); seen != nil {
		if _, ok := (*seen)[name]; ok {
			return name
		}
		if len(*seen) >= maxRuleLabels {
			return otherRules
		}
	}
	return n.admit(name)
}

func (n *names) admit(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := map[string]struct{}{}
	if seen := n.seen.Load(); seen != nil {
		if _, ok := (*seen)[name]; ok {
			return name
		}
		if len(*seen) >= maxRuleLabels {
			return otherRules
		}
		next = maps.Clone(*seen)
	}
	next[name] = struct{}{}
	n.seen.Store(&next)
	return name
}

// retain forgets the names that gone picks and returns them.
func (n *names) retain(gone func(name string) bool) (forgotten []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen.Load()
	if seen == nil {
		return nil
	}
	next := make(map[string]struct{}, len(*seen))
	for name := range *seen {
		if gone(name) {
			forgotten = append(forgotten, name)
			continue
		}
		next[name] = struct{}{}
	}
	if len(forgotten) > 0 {
		n.seen.Store(&next)
	}
	return forgotten
}
