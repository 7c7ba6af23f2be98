package client

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// nearTable finds the questions that are near. Readers take no lock.
type nearTable struct {
	seed  maphash.Seed
	slots []atomic.Pointer[nearKey] // chains, by hash
	most  int

	mu     sync.Mutex
	keys   []*nearKey
	closed bool
}

func (t *nearTable) start(most int) {
	t.seed, t.most = maphash.MakeSeed(), most
	t.slots = make([]atomic.Pointer[nearKey], powerAbove(2*most))
}

// powerAbove is the smallest power of two that is at least n.
func powerAbove(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// hash returns a hash of all facts of a check. It does not depend on the order of maps.
func (t *nearTable) hash(q *Check) uint64 {
	h := uint64(0)
	mix := func(text string) {
		h *= 0x9e3779b97f4a7c15
		if text != "" {
			h ^= maphash.String(t.seed, text)
		}
	}
	for _, text := range [...]string{q.Key, q.Method, q.Route, q.Host, q.IP, q.User, q.APIKey, q.Tier} {
		mix(text)
	}
	for i := range q.Limits {
		mix(q.Limits[i].Key)
	}
	pairs := uint64(0)
	for name, v := range q.Attributes {
		pairs += maphash.String(t.seed, name)*31 ^ maphash.String(t.seed, v)
	}
	for name, v := range q.Fields {
		pairs += maphash.String(t.seed, name)*37 + uint64(v)*0x9e3779b97f4a7c15 //nolint:gosec // a hash
	}
	if q.Weight != nil {
		pairs += uint64(*q.Weight) * 0xff51afd7ed558ccd //nolint:gosec // a hash
	}
	if q.Limit != nil {
		pairs += uint64(q.Count)*0xc4ceb9fe1a85ec53 + uint64(q.WindowMS) //nolint:gosec // a hash
	}
	h ^= pairs
	return h ^ h>>31
}

// find returns the question, nil if it is not near.
func (t *nearTable) find(h uint64, q *Check) *nearKey {
	for k := t.slot(h).Load(); k != nil; k = k.chain.Load() {
		if k.hash == h && k.q.same(q, k.weight) {
			return k
		}
	}
	return nil
}

func (t *nearTable) slot(h uint64) *atomic.Pointer[nearKey] {
	return &t.slots[h&uint64(len(t.slots)-1)]
}

// add returns the question that is in the table after it, nil if there is no room.
func (t *nearTable) add(k *nearKey) *nearKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	if was := t.find(k.hash, &k.q); was != nil {
		return was
	}
	if len(t.keys) >= t.most || t.closed {
		return nil
	}
	k.place = len(t.keys)
	t.keys = append(t.keys, k)
	slot := t.slot(k.hash)
	k.chain.Store(slot.Load())
	slot.Store(k)
	return k
}

func (t *nearTable) remove(k *nearKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.keys) - 1
	t.keys[k.place] = t.keys[last]
	t.keys[k.place].place = k.place
	t.keys[last] = nil
	t.keys = t.keys[:last]
	at := t.slot(k.hash)
	for at.Load() != k {
		at = &at.Load().chain
	}
	at.Store(k.chain.Load())
}

// close returns the questions that are near, to which no other is added.
func (t *nearTable) close() []*nearKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return slices.Clone(t.keys)
}

func (t *nearTable) all() []*nearKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.keys)
}

// nearHeat counts how often questions were asked in the present second. Each slot counts one question at a time, the
// first that was asked in that second, so that what is asked often is found and the rest costs no memory.
type nearHeat struct{ slots []atomic.Uint64 }

// heatWays is in how many slots a question may be counted.
const heatWays = 4

func (n *nearHeat) start(most int) { n.slots = make([]atomic.Uint64, powerAbove(4*most)) }

// count counts a question and returns how often it was asked in that second, 0 if it has no slot.
func (n *nearHeat) count(h uint64, second int64) int64 {
	// The second in 12 bits, never 0, 32 bits of the hash, the count in 20.
	const seconds, counts = 1<<12 - 1, 1<<20 - 1
	name := uint64(second%seconds+1)<<52 | h>>32<<20 //nolint:gosec // not negative
	for i := range uint64(heatWays) {
		slot := &n.slots[(h+i*0x9e3779b9)&uint64(len(n.slots)-1)]
		for {
			was := slot.Load()
			is := name + 1
			if was&^counts == name {
				is = was + min(1, counts-was&counts)
			} else if was>>52 == name>>52 {
				break // it counts another question
			}
			if slot.CompareAndSwap(was, is) {
				return int64(is & counts) //nolint:gosec // 20 bits
			}
		}
	}
	return 0
}

// clone returns a copy that shares no memory with its caller.
func (q *Check) clone() Check {
	c := *q
	if q.Limit != nil {
		l := q.Limit.clone()
		c.Limit = &l
	}
	if q.Weight != nil {
		c.Weight = new(*q.Weight)
	}
	c.Limits = slices.Clone(q.Limits)
	for i := range c.Limits {
		c.Limits[i].Limit = c.Limits[i].clone()
	}
	c.Attributes, c.Fields = maps.Clone(q.Attributes), maps.Clone(q.Fields)
	return c
}

func (l *Limit) clone() Limit {
	c := *l
	if l.Burst != nil {
		c.Burst = new(*l.Burst)
	}
	return c
}

// same reports whether two checks ask the same. weight is the weight of q.
func (q *Check) same(r *Check, weight int64) bool {
	if r.Weight == nil && weight != 1 || r.Weight != nil && *r.Weight != weight {
		return false
	}
	if q.Key != r.Key || q.Method != r.Method || q.Route != r.Route || q.Host != r.Host || q.IP != r.IP ||
		q.User != r.User || q.APIKey != r.APIKey || q.Tier != r.Tier || len(q.Limits) != len(r.Limits) ||
		(q.Limit == nil) != (r.Limit == nil) || q.Limit != nil && !q.Limit.same(r.Limit) {
		return false
	}
	for i := range q.Limits {
		a, b := &q.Limits[i], &r.Limits[i]
		if a.Name != b.Name || a.Key != b.Key || !a.same(&b.Limit) {
			return false
		}
	}
	return (len(q.Attributes) == 0 && len(r.Attributes) == 0 || maps.Equal(q.Attributes, r.Attributes)) &&
		(len(q.Fields) == 0 && len(r.Fields) == 0 || maps.Equal(q.Fields, r.Fields))
}

func (l *Limit) same(m *Limit) bool {
	a, b := *l, *m
	if (a.Burst == nil) != (b.Burst == nil) || a.Burst != nil && *a.Burst != *b.Burst {
		return false
	}
	a.Burst, b.Burst = nil, nil
	return a == b
}
