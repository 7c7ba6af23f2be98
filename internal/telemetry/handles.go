package telemetry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// The caches below find the series of a vector by their labels, which are the key K. Without them, each access would
// cost a hash of all label values, a lock and a comparison, several times per check. Reading takes no lock, and adding
// copies the cache, so keys must come from bounded lists.

// handles is a cache of many series. It is safe for concurrent use.
type handles[K comparable, S any] struct {
	mu   sync.Mutex
	seen atomic.Pointer[map[K]S]
}

// find returns the series of a key, if it is there.
func (h *handles[K, S]) find(key K) (s S, ok bool) {
	if seen := h.seen.Load(); seen != nil {
		s, ok = (*seen)[key]
	}
	return s, ok
}

// get returns the series of a key. It calls create the first time.
func (h *handles[K, S]) get(key K, create func(K) S) S {
	if s, ok := h.find(key); ok {
		return s
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.find(key); ok {
		return s
	}
	next := map[K]S{}
	if seen := h.seen.Load(); seen != nil {
		next = maps.Clone(*seen)
	}
	s := create(key)
	next[key] = s
	h.seen.Store(&next)
	return s
}

// forget drops the series of the keys that deleted selects, and returns the keys.
func (h *handles[K, S]) forget(deleted func(K) bool) (forgotten []K) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen.Load()
	if seen == nil {
		return nil
	}
	next := make(map[K]S, len(*seen))
	for key, s := range *seen {
		if deleted(key) {
			forgotten = append(forgotten, key)
			continue
		}
		next[key] = s
	}
	h.seen.Store(&next)
	return forgotten
}

// fewHandles is a cache of few series, in the order in which they were first used. Comparing the first of them is
// quicker than hashing a key of several texts. It is safe for concurrent use.
type fewHandles[K comparable, S any] struct {
	mu   sync.Mutex
	seen atomic.Pointer[[]handle[K, S]]
}

type handle[K comparable, S any] struct {
	key K
	of  S
}

// all returns the series that are there.
func (h *fewHandles[K, S]) all() []handle[K, S] {
	if seen := h.seen.Load(); seen != nil {
		return *seen
	}
	return nil
}

// get returns the series of a key. It calls create the first time.
func (h *fewHandles[K, S]) get(key K, create func(K) S) S {
	for seen, i := h.all(), 0; i < len(seen); i++ {
		if seen[i].key == key {
			return seen[i].of
		}
	}
	return h.add(key, create)
}

func (h *fewHandles[K, S]) add(key K, create func(K) S) S {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.all()
	for i := range seen {
		if seen[i].key == key {
			return seen[i].of
		}
	}
	s := create(key)
	next := append(slices.Clone(seen), handle[K, S]{key, s})
	h.seen.Store(&next)
	return s
}
