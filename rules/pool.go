package rules

import (
	"strings"
	"time"

	"sluice/limiter"
)

// Pool is a capacity that rules share: what they admit counts into it, and
// elastic rules go above their limits only while it has room.
type Pool struct {
	// Name is unique among pools and shaped like a rule's.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Limit is the pool's capacity in units per WindowMS, counted by
	// sliding_window_counter.
	Limit    int64 `json:"limit"`
	WindowMS int64 `json:"window_ms"`
	// NormalPercent and LowPercent are how much of the capacity may be in use
	// when a request of that priority goes above its limit, 0 to 100; critical
	// ones may use all of it.
	NormalPercent int64 `json:"normal_percent"`
	LowPercent    int64 `json:"low_percent"`
	// Version starts at 1 and grows by 1 with every edit; it is the ETag.
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// NewPool is a pool with the default shares and nothing else, to be filled in.
func NewPool() Pool {
	return Pool{NormalPercent: defaultNormalPercent, LowPercent: defaultLowPercent}
}

// Normalize removes blanks around the texts.
func (p *Pool) Normalize() {
	p.Name, p.Description = strings.TrimSpace(p.Name), strings.TrimSpace(p.Description)
}

// ValidPoolName reports whether a pool may have the name.
func ValidPoolName(name string) bool { return namePattern.MatchString(name) }

// limiterLimit is the pool's capacity in the limiter's terms.
func (p *Pool) limiterLimit() limiter.Limit {
	return limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: p.Limit, Window: p.WindowMS}
}

// ValidatePool reports every problem of a normalised pool at once; the error is
// a *ValidationError.
func ValidatePool(p *Pool) error {
	var ps problems
	if !namePattern.MatchString(p.Name) {
		ps.add("name", "must be %s", nameHelp)
	}
	validateDescription(p.Description, &ps)
	for _, bad := range p.limiterLimit().Problems() {
		ps.add(bad.Field, "%s", bad.Message)
	}
	ps.between("normal_percent", &p.NormalPercent, 0, maxPoolPercent)
	ps.between("low_percent", &p.LowPercent, 0, maxPoolPercent)
	if p.LowPercent > p.NormalPercent && p.NormalPercent >= 0 && p.LowPercent <= maxPoolPercent {
		ps.add("low_percent", "must not be above normal_percent")
	}
	if len(ps) > 0 {
		return &ValidationError{Fields: ps}
	}
	return nil
}

// CompiledPool is one pool of a Set. It must not be changed.
type CompiledPool struct {
	// Pool is the pool as Compile got it.
	Pool Pool
	// Key names the pool's bucket, Limit its whole capacity.
	Key   limiter.Key
	Limit limiter.Limit
}

// poolKey names the bucket of a pool, such as {pool:shop}||pw. No rule and no
// direct check has such a key: pool is no fact, and the rule's place is empty.
func poolKey(name string) limiter.Key {
	b := append([]byte(nil), "{pool:"...)
	return limiter.Key(append(limiter.AppendValue(b, name), "}||pw"...))
}

func compilePool(p Pool) *CompiledPool {
	return &CompiledPool{Pool: p, Key: poolKey(p.Name), Limit: p.limiterLimit()}
}

// SharePercent is how much of the capacity a priority may find in use, 0 to 100.
func (p *CompiledPool) SharePercent(priority string) int64 {
	switch priority {
	case PriorityCritical:
		return maxPoolPercent
	case PriorityLow:
		return p.Pool.LowPercent
	}
	return p.Pool.NormalPercent
}

// Share is the pool's limit for a priority: its part of the capacity, rounded
// down.
func (p *CompiledPool) Share(priority string) limiter.Limit {
	l := p.Limit
	percent := p.SharePercent(priority)
	l.Count = l.Count/wholePercent*percent + l.Count%wholePercent*percent/wholePercent
	return l
}

var poolFields = []struct {
	name string
	get  func(*Pool) any
}{
	{"name", func(p *Pool) any { return p.Name }},
	{"description", func(p *Pool) any { return p.Description }},
	{"limit", func(p *Pool) any { return p.Limit }},
	{"window_ms", func(p *Pool) any { return p.WindowMS }},
	{"normal_percent", func(p *Pool) any { return p.NormalPercent }},
	{"low_percent", func(p *Pool) any { return p.LowPercent }},
}

// DiffPool is Diff for pools.
func DiffPool(was, is *Pool) []Change {
	var changes []Change
	for _, f := range poolFields {
		var a, b any
		if was != nil {
			a = f.get(was)
		}
		if is != nil {
			b = f.get(is)
		}
		if a != b {
			changes = append(changes, Change{Field: f.name, Old: a, New: b})
		}
	}
	return changes
}
