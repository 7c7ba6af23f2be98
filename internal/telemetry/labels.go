package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"
)

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
