package rules

import (
	"time"

	"sluice/limiter"
)

// Rule is what ops edit: who and what it matches, a limit, and modes. It is the
// one shape behind JSON, YAML and the database row; Normalize fills defaults and
// Validate reports every problem. A nil pointer means "not given".
type Rule struct {
	// ID is given by the database and never reused. It names the rule in keys,
	// so renaming a rule keeps its counters.
	ID int64 `json:"id" yaml:"-"`
	// Name is unique: [a-z0-9][a-z0-9._-]{0,62}.
	Name        string `json:"name" yaml:"name"`
	Description string `json:"description" yaml:"description,omitempty"`
	// Scope names the facts that identify the bucket: global, or a sum of ip,
	// user, apikey, tier, route, method and attr:<name>, such as user+ip. The
	// rule applies only to descriptors that have them all.
	Scope string `json:"scope" yaml:"scope"`
	// Route is nil for every route; else an exact path, one with {param}
	// segments, or one that ends in /* (which also matches the path before it).
	Route *string `json:"route" yaml:"route,omitempty"`
	// Method is nil for every method, else one in upper case.
	Method *string `json:"method" yaml:"method,omitempty"`

	Algorithm string  `json:"algorithm" yaml:"algorithm,omitempty"`
	Limit     int64   `json:"limit" yaml:"limit"`
	WindowMS  int64   `json:"window_ms" yaml:"window_ms"`
	Burst     *int64  `json:"burst" yaml:"burst,omitempty"`
	Align     *string `json:"align" yaml:"align,omitempty"`
	AnchorMS  *int64  `json:"anchor_ms" yaml:"anchor_ms,omitempty"`
	Buckets   *int64  `json:"buckets" yaml:"buckets,omitempty"`
	// WeightField names the member of the request's fields that is the weight
	// for this rule; nil means the request's own weight.
	WeightField *string `json:"weight_field" yaml:"weight_field,omitempty"`

	// Throttle is hard, soft (SoftPercent over the limit passes, marked) or
	// elastic (up to ElasticPercent over it passes while Pool has room).
	Throttle       string `json:"throttle" yaml:"throttle,omitempty"`
	SoftPercent    *int64 `json:"soft_percent" yaml:"soft_percent,omitempty"`
	ElasticPercent *int64 `json:"elastic_percent" yaml:"elastic_percent,omitempty"`
	// Pool names the pool that the rule's traffic counts into, nil for none.
	// Priority, only with a pool, is critical, normal or low; nil is normal.
	Pool     *string `json:"pool" yaml:"pool,omitempty"`
	Priority *string `json:"priority" yaml:"priority,omitempty"`

	// Tiers are limits by the descriptor's tier; any other tier has the rule's
	// own. The bucket is the same whatever the tier.
	Tiers    map[string]TierLimit `json:"tiers" yaml:"tiers,omitempty"`
	Schedule *Schedule            `json:"schedule" yaml:"schedule,omitempty"`
	// Calendar is for fixed_window only; WindowMS is then nominal.
	Calendar *Calendar `json:"calendar" yaml:"calendar,omitempty"`
	// ActiveFrom (inclusive) and ActiveUntil (exclusive) bound the time in which
	// the rule applies, in whole milliseconds; nil is no bound.
	ActiveFrom  *time.Time `json:"active_from" yaml:"active_from,omitempty"`
	ActiveUntil *time.Time `json:"active_until" yaml:"active_until,omitempty"`
	// When is a condition on the descriptor, nil for none; see conditionEnv.
	When *string `json:"when" yaml:"when,omitempty"`

	// ChargeOn is request, or report: a check looks and spends nothing, a charge
	// spends.
	ChargeOn string `json:"charge_on" yaml:"charge_on,omitempty"`
	// OverLimit is deny or defer; Defer bounds the queue and is nil for deny.
	OverLimit string     `json:"over_limit" yaml:"over_limit,omitempty"`
	Defer     *Defer     `json:"defer" yaml:"defer,omitempty"`
	Candidate *Candidate `json:"candidate" yaml:"candidate,omitempty"`
	// RetryJitterMS is the most by which a denial's retry-after grows at random.
	RetryJitterMS *int64 `json:"retry_jitter_ms" yaml:"retry_jitter_ms,omitempty"`
	// HotKeys is exact, leased or sharded; HotRaisePercent, only with the last
	// two, raises the limit of a hot key.
	HotKeys         string `json:"hot_keys" yaml:"hot_keys,omitempty"`
	HotRaisePercent *int64 `json:"hot_raise_percent" yaml:"hot_raise_percent,omitempty"`

	Mode     string `json:"mode" yaml:"mode,omitempty"`
	FailMode string `json:"fail_mode" yaml:"fail_mode,omitempty"`
	IsActive bool   `json:"is_active" yaml:"is_active"`

	// Version starts at 1 and grows by 1 with every edit; it is the ETag.
	Version   int64     `json:"version" yaml:"-"`
	CreatedAt time.Time `json:"created_at" yaml:"-"`
	UpdatedAt time.Time `json:"updated_at" yaml:"-"`
}

// Modes, throttles and fail modes of a rule, as written in JSON and SQL.
const (
	ModeEnforce = "enforce"
	ModeShadow  = "shadow"

	ThrottleHard = "hard"

	FailOpen   = "open"
	FailClosed = "closed"
	FailLocal  = "local"
)

// LimiterLimit gives the rule's limit in the limiter's terms, with defaults
// applied: burst is the limit, buckets is 60 or fewer for a tiny window. The
// error is a *ValidationError.
func (r *Rule) LimiterLimit() (limiter.Limit, error) {
	return r.spec().Resolve()
}

// DirectRule stands for the rule's name in metrics and client headers where the
// caller brought the limit.
const DirectRule = "default"
