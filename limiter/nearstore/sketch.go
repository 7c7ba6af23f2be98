package nearstore

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/limiter"
)

const (
	// sketchParts and partCounters: 1,024 counters a node, in parts so that
	// requests for different buckets seldom wait for each other.
	sketchParts  = 16
	partCounters = 64
	// second is one epoch of the sketch on the local clock, ns.
	second = int64(1e9)
	// namedFrom is the number of takes in one epoch that makes a bucket worth naming: the many buckets with a single
	// take cost no memory each.
	namedFrom = 8
)

// counter counts the takes of one bucket.
type counter struct {
	hash uint64
	key  limiter.Key // "" until namedFrom
	// count orders the counters: it is halved every second, and a counter that is taken over continues from its count,
	// so it is never too low.
	count uint64
	// cur and last are exact: takes in this second and in the previous one, since this bucket has the counter.
	cur, last uint64
	hot       *hotKey // while it is hot
}

// sketch finds the busiest buckets by the Space-Saving algorithm (Metwally,
// Agrawal and El Abbadi, 2005): a bucket that is not counted takes over the
// smallest counter. A bucket with more than 1/64 of the takes of its part always has
// a counter.
type sketch struct {
	seed  maphash.Seed
	rate  uint64           // takes per second from which a bucket is hot
	wall  func() time.Time // for hotKey.since
	parts [sketchParts]part
}

type part struct {
	mu    sync.Mutex
	index map[uint64]int
	list  []counter
	epoch int64 // of cur, in seconds of the local clock
	_     [64]byte
}

func newSketch(rate int64, wall func() time.Time) *sketch {
	s := &sketch{seed: maphash.MakeSeed(), rate: uint64(max(1, rate)), wall: wall}
	for i := range s.parts {
		s.parts[i].index = make(map[uint64]int, partCounters)
		s.parts[i].list = make([]counter, 0, partCounters)
	}
	return s
}

// touch counts one take at local time now and returns the bucket's hotKey, nil if it is not hot.
// turned reports that it has just turned hot.
func (s *sketch) touch(k limiter.Key, now int64) (h *hotKey, turned bool) {
	hash := maphash.String(s.seed, string(k))
	p := &s.parts[hash%sketchParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch := now / second; epoch > p.epoch {
		p.roll(epoch, s.rate)
	}
	i, ok := p.index[hash]
	if !ok {
		i = p.place(hash)
	}
	c := &p.list[i]
	c.count++
	c.cur++
	turned = c.hot == nil && c.cur >= s.rate
	if c.key == "" && (turned || c.cur >= namedFrom) {
		c.key = limiter.Key(strings.Clone(string(k)))
	}
	if turned {
		c.hot = &hotKey{key: c.key, since: s.wall().UnixMilli()}
	}
	return c.hot, turned
}

// place assigns a counter to a bucket: a new one, or the smallest.
func (p *part) place(hash uint64) int {
	if len(p.list) < partCounters {
		p.list = append(p.list, counter{hash: hash})
		p.index[hash] = len(p.list) - 1
		return len(p.list) - 1
	}
	least := 0
	for i := range p.list {
		if p.list[i].count < p.list[least].count {
			least = i
		}
	}
	c := &p.list[least]
	c.cool()
	delete(p.index, c.hash)
	*c = counter{hash: hash, count: c.count}
	p.index[hash] = least
	return least
}

// roll begins a new second: counts are halved, and buckets below half the rate turn
// cold.
func (p *part) roll(epoch int64, rate uint64) {
	gone := epoch - p.epoch
	if gone <= 0 {
		return
	}
	p.epoch = epoch
	for i := range p.list {
		c := &p.list[i]
		c.last, c.cur = c.cur, 0
		if gone > 1 {
			c.last = 0
		}
		c.count >>= min(gone, 63)
		if c.hot != nil && c.last < (rate+1)/2 {
			c.cool()
		}
	}
}

func (c *counter) cool() {
	if c.hot != nil {
		c.hot.cold.Store(true)
		c.hot = nil
	}
}

// roll lets buckets without further takes turn cold.
func (s *sketch) roll(now int64) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		p.roll(now/second, s.rate)
		p.mu.Unlock()
	}
}

// top lists the named buckets, the busiest first.
func (s *sketch) top(now int64, most int) []limiter.HotKey {
	var out []limiter.HotKey
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		p.roll(now/second, s.rate)
		for j := range p.list {
			c := &p.list[j]
			if rate := max(c.cur, c.last); c.key != "" && rate > 0 {
				k := limiter.HotKey{Key: c.key, Heat: limiter.Heat{Rate: int64(rate)}} //nolint:gosec // takes in one second
				if c.hot != nil {
					k.Hot, k.Since, k.State = true, c.hot.since, limiter.HotMode(c.hot.mode.Load()) //nolint:gosec // one of three
				}
				out = append(out, k)
			}
		}
		p.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b limiter.HotKey) int {
		if a.Rate != b.Rate {
			return int(b.Rate - a.Rate)
		}
		return strings.Compare(string(a.Key), string(b.Key))
	})
	return out[:min(most, len(out))]
}
