package rules

import (
	"time"

	"sluice/limiter"
	"sluice/rules/field"
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
var poolFields = []field.Field[Pool]{
	{Name: "name", At: func(p *Pool) any { return &p.Name }, Required: true},
	{Name: "description", At: func(p *Pool) any { return &p.Description }, Bytes: field.MaxDescription},
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
func (p *Pool) Normalize() { field.Normalize(poolFields, p) }

// LimiterLimit returns the pool's capacity as a limit.
func (p *Pool) LimiterLimit() limiter.Limit {
	return limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: p.Limit, Window: p.WindowMS}
}

// ValidatePool reports every problem of a normalised pool at once; the error is
// a *field.ValidationError.
func ValidatePool(p *Pool) error {
	var ps field.Problems
	if !field.ValidName(p.Name) {
		ps.Add("name", "must be %s", field.NameHelp)
	}
	field.Bounds(poolFields, p, "", &ps)
	for _, bad := range p.LimiterLimit().Problems() {
		ps.Add(bad.Field, "%s", bad.Message)
	}
	if p.LowPercent > p.NormalPercent && p.NormalPercent >= 0 && p.LowPercent <= maxPoolPercent {
		ps.Add("low_percent", "must not be above normal_percent")
	}
	if len(ps) > 0 {
		field.Sort(poolFields, ps)
		return &field.ValidationError{Fields: ps}
	}
	return nil
}

// DiffPool is Diff for pools.
func DiffPool(was, is *Pool) []field.Change { return field.Diff(poolFields, was, is) }
