package rules

import (
	"time"

	"sluice/limiter"
)

// Pool is capacity that rules share: requests that they admit count towards it, and elastic rules
// exceed their limits only while it has room. A pool that sheds denies requests for which it has no room.
type Pool struct {
	// Name is unique among pools and has the form of a rule's name.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Limit is the pool's capacity in units per WindowMS, counted by
	// sliding_window_counter.
	Limit    int64 `json:"limit"`
	WindowMS int64 `json:"window_ms"`
	// NormalPercent and LowPercent are the parts of the capacity that may be in use when a request
	// of that priority exceeds its limit, 0 to 100; critical requests may use all of it.
	NormalPercent int64 `json:"normal_percent"`
	LowPercent    int64 `json:"low_percent"`
	// Shed: requests pass only while the pool has room for their priority, also within their own limits.
	Shed bool `json:"shed"`
	// Version starts at 1 and grows by 1 with every edit; it is the ETag.
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// poolFields are the fields of a pool that people write, in the order of its JSON
// form.
var poolFields = []Field[Pool]{
	{Name: "name", At: func(p *Pool) any { return &p.Name }, Required: true},
	{Name: "description", At: func(p *Pool) any { return &p.Description }, Bytes: MaxDescription},
	{Name: "limit", At: func(p *Pool) any { return &p.Limit }, Required: true},
	{Name: "window_ms", At: func(p *Pool) any { return &p.WindowMS }, Required: true, Millis: true},
	{Name: "normal_percent", At: func(p *Pool) any { return &p.NormalPercent }, Default: defaultNormalPercent,
		Most: maxPoolPercent},
	{Name: "low_percent", At: func(p *Pool) any { return &p.LowPercent }, Default: defaultLowPercent,
		Most: maxPoolPercent},
	{Name: "shed", At: func(p *Pool) any { return &p.Shed }, Default: false},
}

// NewPool returns a pool with the default percentages and nothing else.
func NewPool() Pool {
	return Pool{NormalPercent: defaultNormalPercent, LowPercent: defaultLowPercent}
}

// Normalize trims the texts.
func (p *Pool) Normalize() { normalize(poolFields, p) }

// ValidName reports whether name is a valid name of a rule, a pool or a direct limit.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// limiterLimit returns the pool's capacity as a limit.
func (p *Pool) limiterLimit() limiter.Limit {
	return limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: p.Limit, Window: p.WindowMS}
}

// ValidatePool reports every problem of a normalised pool at once; the error is
// a *ValidationError.
func ValidatePool(p *Pool) error {
	var ps problems
	if !namePattern.MatchString(p.Name) {
		ps.add("name", "must be %s", NameHelp)
	}
	bounds(poolFields, p, "", &ps)
	for _, bad := range p.limiterLimit().Problems() {
		ps.add(bad.Field, "%s", bad.Message)
	}
	if p.LowPercent > p.NormalPercent && p.NormalPercent >= 0 && p.LowPercent <= maxPoolPercent {
		ps.add("low_percent", "must not be above normal_percent")
	}
	if len(ps) > 0 {
		inOrder(poolFields, ps)
		return &ValidationError{Fields: ps}
	}
	return nil
}

// CompiledPool is one pool of a Set. It must not be changed.
type CompiledPool struct {
	// Pool is the pool that was compiled.
	Pool Pool
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

func compilePool(p Pool) *CompiledPool {
	return &CompiledPool{Pool: p, Key: poolKey(p.Name), Limit: p.limiterLimit()}
}

// SharePercent returns the part of the capacity that may be in use for a priority, 0 to 100.
func (p *CompiledPool) SharePercent(priority string) int64 {
	switch priority {
	case PriorityCritical:
		return maxPoolPercent
	case PriorityLow:
		return p.Pool.LowPercent
	}
	return p.Pool.NormalPercent
}

// Share returns the pool's limit for a priority: that part of the capacity, rounded down.
func (p *CompiledPool) Share(priority string) limiter.Limit {
	l := p.Limit
	percent := p.SharePercent(priority)
	l.Count = l.Count/wholePercent*percent + l.Count%wholePercent*percent/wholePercent
	return l
}

// millionths is the whole capacity in the unit of load reports.
const millionths = 1_000_000

// Room returns the number of units that a load in millionths of the capacity leaves to a priority, rounded
// down. It is below 0 if the load is above the priority's part.
func (p *CompiledPool) Room(priority string, load int64) int64 {
	free := p.SharePercent(priority)*(millionths/wholePercent) - load
	if free < 0 {
		return -1
	}
	return p.Limit.Count/millionths*free + p.Limit.Count%millionths*free/millionths
}

// DiffPool is Diff for pools.
func DiffPool(was, is *Pool) []Change { return diff(poolFields, was, is) }
