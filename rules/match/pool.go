package match

import (
	"fmt"

	"sluice/limiter"
	"sluice/rules"
)

// CompiledPool is one pool of a Set. It must not be changed.
type CompiledPool struct {
	// Pool is the pool that was compiled.
	Pool rules.Pool
	// Key names the pool's bucket, Limit its whole capacity.
	Key   limiter.Key
	Limit limiter.Limit
}

// poolKey returns the key of a pool's bucket, such as {pool:shop}||pw. No rule and no direct check
// has such a key: pool is no fact, and the rule's place is empty.
func poolKey(name string) limiter.Key {
	b := append([]byte(nil), "{pool:"...)
	return limiter.Key(append(limiter.AppendValue(b, name), "}||pw"...))
}

// compilePools builds the set's pools.
func (s *Set) compilePools(pools []rules.Pool) error {
	s.pools = make(map[string]*CompiledPool, len(pools))
	for i := range pools {
		p := pools[i]
		p.Normalize()
		if err := rules.ValidatePool(&p); err != nil {
			return fmt.Errorf("pool %q: %w", p.Name, err)
		}
		if s.pools[p.Name] != nil {
			return fmt.Errorf("two pools have the name %q", p.Name)
		}
		s.pools[p.Name] = compilePool(p)
	}
	return nil
}

func compilePool(p rules.Pool) *CompiledPool {
	return &CompiledPool{Pool: p, Key: poolKey(p.Name), Limit: p.LimiterLimit()}
}

// The whole capacity, in percent and in the unit of load reports.
const (
	whole      = 100
	millionths = 1_000_000
)

// SharePercent returns the part of the capacity that may be in use for a priority, 0 to 100.
func (p *CompiledPool) SharePercent(priority string) int64 {
	switch priority {
	case rules.PriorityCritical:
		return whole
	case rules.PriorityLow:
		return p.Pool.LowPercent
	}
	return p.Pool.NormalPercent
}

// Share returns the pool's limit for a priority: that part of the capacity, rounded down.
func (p *CompiledPool) Share(priority string) limiter.Limit {
	l := p.Limit
	percent := p.SharePercent(priority)
	l.Count = l.Count/whole*percent + l.Count%whole*percent/whole
	return l
}

// Room returns the number of units that a load in millionths of the capacity leaves to a priority, rounded
// down. It is below 0 if the load is above the priority's part.
func (p *CompiledPool) Room(priority string, load int64) int64 {
	free := p.SharePercent(priority)*(millionths/whole) - load
	if free < 0 {
		return -1
	}
	return p.Limit.Count/millionths*free + p.Limit.Count%millionths*free/millionths
}
