package rules

import (
	"time"

	"sluice/limiter"
)

// Rule is what ops edit: who and what it matches, a limit, and modes. Normalize
// fills defaults and Validate reports every problem. A nil pointer means "not
// given". What people may write is described by ruleFields, member by member.
type Rule struct {
	// ID is given by the database and never reused. It names the rule in keys,
	// so renaming a rule keeps its counters.
	ID int64 `json:"id"`
	// Name is unique: [a-z0-9][a-z0-9._-]{0,62}.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Owner is who answers for the rule, such as a team: 1 to MaxOwner characters
	// of one line. It decides nothing, and no answer to a check has it.
	Owner *string `json:"owner"`
	// Scope names the facts that identify the bucket: global, or a sum of ip,
	// user, apikey, tier, route, method and attr:<name>, such as user+ip. The
	// rule applies only to descriptors that have them all.
	Scope string `json:"scope"`
	// Route is nil for every route; else an exact path, one with {param}
	// segments, or one that ends in /* (which also matches the path before it).
	Route *string `json:"route"`
	// Method is nil for every method, else one in upper case.
	Method *string `json:"method"`

	Algorithm string  `json:"algorithm"`
	Limit     int64   `json:"limit"`
	WindowMS  int64   `json:"window_ms"`
	Burst     *int64  `json:"burst"`
	Align     *string `json:"align"`
	AnchorMS  *int64  `json:"anchor_ms"`
	Buckets   *int64  `json:"buckets"`
	// WeightField names the member of the request's fields that is the weight
	// for this rule; nil means the request's own weight.
	WeightField *string `json:"weight_field"`

	// Throttle is hard, soft (SoftPercent over the limit passes, marked) or
	// elastic (up to ElasticPercent over it passes while Pool has room).
	Throttle       string `json:"throttle"`
	SoftPercent    *int64 `json:"soft_percent"`
	ElasticPercent *int64 `json:"elastic_percent"`
	// Pool names the pool that the rule's traffic counts into, nil for none.
	// Priority, only with a pool, is critical, normal or low; nil is normal.
	Pool     *string `json:"pool"`
	Priority *string `json:"priority"`

	// Tiers are limits by the descriptor's tier; any other tier has the rule's
	// own. The bucket is the same whatever the tier.
	Tiers    map[string]TierLimit `json:"tiers"`
	Schedule *Schedule            `json:"schedule"`
	// Calendar is for fixed_window only; WindowMS is then nominal.
	Calendar *Calendar `json:"calendar"`
	// ActiveFrom (inclusive) and ActiveUntil (exclusive) bound the time in which
	// the rule applies, in whole milliseconds; nil is no bound.
	ActiveFrom  *time.Time `json:"active_from"`
	ActiveUntil *time.Time `json:"active_until"`
	// When is a condition on the descriptor, nil for none; see conditionEnv.
	When *string `json:"when"`

	// ChargeOn is request, or report: a check looks and spends nothing, a charge
	// spends.
	ChargeOn string `json:"charge_on"`
	// OverLimit is deny or defer; Defer bounds the queue and is nil for deny.
	OverLimit string     `json:"over_limit"`
	Defer     *Defer     `json:"defer"`
	Candidate *Candidate `json:"candidate"`
	// RetryJitterMS is the most by which a denial's retry-after grows at random.
	RetryJitterMS *int64 `json:"retry_jitter_ms"`
	// HotKeys is exact, leased or sharded; HotRaisePercent, only with the last
	// two, raises the limit of a hot key.
	HotKeys         string `json:"hot_keys"`
	HotRaisePercent *int64 `json:"hot_raise_percent"`

	Mode     string `json:"mode"`
	FailMode string `json:"fail_mode"`
	IsActive bool   `json:"is_active"`

	// Version starts at 1 and grows by 1 with every edit; it is the ETag.
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// ruleFields are the fields of a rule that people write, in the order of its JSON
// form. Identity, version and times are not among them.
var ruleFields = []Field[Rule]{
	{Name: "name", At: func(r *Rule) any { return &r.Name }, Required: true, Label: true},
	{Name: "description", At: func(r *Rule) any { return &r.Description }, Bytes: MaxDescription, Label: true},
	{Name: "owner", At: func(r *Rule) any { return &r.Owner }, Characters: MaxOwner, Label: true, Filter: true},
	{Name: "scope", At: func(r *Rule) any { return &r.Scope }, Required: true, Filter: true},
	{Name: "route", At: func(r *Rule) any { return &r.Route }, Filter: true},
	{Name: "method", At: func(r *Rule) any { return &r.Method }, Filter: true},
	{Name: "algorithm", At: func(r *Rule) any { return &r.Algorithm }, Default: defaultAlgorithm},
	{Name: "limit", At: func(r *Rule) any { return &r.Limit }, Required: true},
	{Name: "window_ms", At: func(r *Rule) any { return &r.WindowMS }, Millis: true},
	{Name: "burst", At: func(r *Rule) any { return &r.Burst }},
	{Name: "align", At: func(r *Rule) any { return &r.Align }},
	{Name: "anchor_ms", At: func(r *Rule) any { return &r.AnchorMS }, Millis: true},
	{Name: "buckets", At: func(r *Rule) any { return &r.Buckets }},
	{Name: "weight_field", At: func(r *Rule) any { return &r.WeightField }},
	{
		Name: "throttle", At: func(r *Rule) any { return &r.Throttle },
		Default: ThrottleHard, OneOf: []string{ThrottleHard, ThrottleSoft, ThrottleElastic},
	},
	{Name: "soft_percent", At: func(r *Rule) any { return &r.SoftPercent }, Least: 1, Most: MaxSoftPercent},
	{
		Name: "elastic_percent", At: func(r *Rule) any { return &r.ElasticPercent }, Policy: true,
		Least: 1, Most: MaxElasticPercent,
	},
	{Name: "pool", At: func(r *Rule) any { return &r.Pool }, Policy: true},
	{
		Name: "priority", At: func(r *Rule) any { return &r.Priority }, Policy: true,
		OneOf: []string{PriorityCritical, PriorityNormal, PriorityLow},
	},
	{Name: "tiers", At: func(r *Rule) any { return &r.Tiers }, Policy: true},
	{Name: "schedule", At: func(r *Rule) any { return &r.Schedule }, Policy: true},
	{Name: "calendar", At: func(r *Rule) any { return &r.Calendar }, Policy: true},
	{Name: "active_from", At: func(r *Rule) any { return &r.ActiveFrom }, Policy: true},
	{Name: "active_until", At: func(r *Rule) any { return &r.ActiveUntil }, Policy: true},
	{Name: "when", At: func(r *Rule) any { return &r.When }, Policy: true},
	{
		Name: "charge_on", At: func(r *Rule) any { return &r.ChargeOn }, Policy: true,
		Default: ChargeOnRequest, OneOf: []string{ChargeOnRequest, ChargeOnReport},
	},
	{
		Name: "over_limit", At: func(r *Rule) any { return &r.OverLimit }, Policy: true,
		Default: OverLimitDeny, OneOf: []string{OverLimitDeny, OverLimitDefer},
	},
	{Name: "defer", At: func(r *Rule) any { return &r.Defer }, Policy: true},
	{Name: "candidate", At: func(r *Rule) any { return &r.Candidate }, Policy: true},
	{
		Name: "retry_jitter_ms", At: func(r *Rule) any { return &r.RetryJitterMS }, Policy: true,
		Most: MaxRetryJitter, Millis: true,
	},
	{
		Name: "hot_keys", At: func(r *Rule) any { return &r.HotKeys }, Policy: true,
		Default: HotKeysExact, OneOf: []string{HotKeysExact, HotKeysLeased, HotKeysSharded},
	},
	{
		Name: "hot_raise_percent", At: func(r *Rule) any { return &r.HotRaisePercent }, Policy: true,
		Least: 1, Most: MaxHotRaisePercent,
	},
	{
		Name: "mode", At: func(r *Rule) any { return &r.Mode }, Filter: true,
		Default: ModeEnforce, OneOf: []string{ModeEnforce, ModeShadow},
	},
	{
		Name: "fail_mode", At: func(r *Rule) any { return &r.FailMode },
		Default: FailOpen, OneOf: []string{FailOpen, FailClosed, FailLocal},
	},
	{Name: "is_active", At: func(r *Rule) any { return &r.IsActive }, Default: true},
}

// Fields are the fields of a rule that people write, in the order of its JSON
// form. They must not be changed.
func Fields() []Field[Rule] { return ruleFields }

// FieldNamed finds one of Fields by its name, nil if there is none.
func FieldNamed(name string) *Field[Rule] { return named(ruleFields, name) }

// Filters are the names of the fields by whose value listings and exports can be
// narrowed.
func Filters() (names []string) {
	for i := range ruleFields {
		if ruleFields[i].Filter {
			names = append(names, ruleFields[i].Name)
		}
	}
	return names
}

// MaxOwner is the longest owner of a rule, in characters.
const MaxOwner = 100

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
