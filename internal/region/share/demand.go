package share

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"sluice/limiter"
)

// cells is how many groups the keys of a rule are divided into. The demand for a rule is the demand of its busiest
// group. For a rule with one or a few busy keys this is the busiest key.
const cells = 256

var seed = maphash.MakeSeed()

// demand counts the units of one rule that callers ask this node for, and keeps the values that its checks need for an
// interval. ask and marks are safe for concurrent use.
type demand struct {
	cells [cells]atomic.Int64
	sent  int64
	marks sync.Map // *limiter.HighWater by limiter.Limit
}

func (d *demand) ask(key limiter.Key, units int64) {
	d.cells[maphash.String(seed, string(key))%cells].Add(min(units, 1<<40))
}

// more is by how much the busiest group has grown since the last call.
func (d *demand) more() int64 {
	most := int64(0)
	for i := range d.cells {
		most = max(most, d.cells[i].Load())
	}
	n := most - d.sent
	d.sent = most
	return n
}

// count returns the demand that was not reported yet, and begins to count the rules that have shares now.
func (x *Shares) count(specs map[int64]Spec) map[int64]int64 {
	out, next := map[int64]int64{}, make(map[int64]*demand, len(specs))
	x.mu.Lock()
	defer x.mu.Unlock()
	last := x.demand
	if now := x.opt.Now(); now.Sub(x.since) >= x.opt.Interval {
		x.since, last = now, nil
	}
	for id := range specs {
		if d := x.demand[id]; d != nil {
			if n := d.more(); n > 0 {
				out[id] = n
			}
		}
		if next[id] = last[id]; next[id] == nil {
			next[id] = &demand{}
		}
	}
	if len(next) > 0 || len(x.demand) > 0 {
		x.demand = next
		x.counting.Store(&next)
	}
	return out
}
