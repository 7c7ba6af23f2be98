package rules

import (
	"strconv"
	"time"

	"sluice/limiter"
	"sluice/rules/field"
)

// Rule is what people edit: what it matches, a limit, and modes. Normalize fills in defaults and
// Validate reports every problem. A nil pointer means "not given". ruleFields describes each
// editable member.
type Rule struct {
	// ID is assigned by the database and never reused. Keys contain it, so renaming a rule keeps
	// its counters.
	ID int64 `json:"id"`
	// Name is unique: [a-z0-9][a-z0-9._-]{0,62}.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Owner is the person or team responsible for the rule: 1 to MaxOwner characters on one line.
	// It affects no decision, and no answer to a check contains it.
	Owner *string `json:"owner"`
	// Scope names the facts that identify the bucket: global, or a sum of ip, user, apikey, tier,
	// host, route, method and attr:<name>, such as user+ip. The rule applies only to descriptors that
	// have all of them. It is "" for a rule with Descriptor.
	Scope string `json:"scope"`
	// Route is nil for every route; otherwise an exact path, a path with {param} segments, or one that ends in /*
	// (which also matches the path before it).
	Route *string `json:"route"`
	// Method is nil for every method, else one in upper case.
	Method *string `json:"method"`
	// Host is nil for every host, and otherwise the name of a host in the form of host.Parse, or *.example.com for
	// every name below example.com, however deep, but not example.com itself.
	Host *string `json:"host"`
	// Descriptor makes it a rule for descriptors of Envoy, which needs no scope, route or method. It is
	// nil for an ordinary rule.
	Descriptor *RuleDescriptor `json:"descriptor"`

	Algorithm string  `json:"algorithm"`
	Limit     int64   `json:"limit"`
	WindowMS  int64   `json:"window_ms"`
	Burst     *int64  `json:"burst"`
	Align     *string `json:"align"`
	AnchorMS  *int64  `json:"anchor_ms"`
	Buckets   *int64  `json:"buckets"`
	// WeightField names the member of the request's fields that is the weight for this rule; nil
	// means the request's own weight. The rule does not apply to a request without the field.
	WeightField *string `json:"weight_field"`
	// LimitField names the member of the request's fields that is the limit of its key, at most Limit. The first request
	// that counts sets it until the window ends, and later ones may lower it. Nil means Limit. See limiter.Kept.
	LimitField *string `json:"limit_field"`

	// Throttle is hard, soft (SoftPercent over the limit passes, marked) or
	// elastic (up to ElasticPercent over it passes while Pool has room).
	Throttle       string `json:"throttle"`
	SoftPercent    *int64 `json:"soft_percent"`
	ElasticPercent *int64 `json:"elastic_percent"`
	// Pool names the pool towards which the rule's traffic counts, nil for none. Priority, only
	// with a pool, is critical, normal or low; nil is normal.
	Pool     *string `json:"pool"`
	Priority *string `json:"priority"`

	// Tiers holds limits by the descriptor's tier; any other tier has the rule's own. All tiers
	// share one bucket.
	Tiers    map[string]TierLimit `json:"tiers"`
	Schedule *Schedule            `json:"schedule"`
	// Calendar requires fixed_window; WindowMS is then nominal.
	Calendar *Calendar `json:"calendar"`
	// KeepPeriods is the number of past periods for which the rules database keeps the spent units of each key; nil for
	// none. It requires fixed_window with windows that are the same for all keys.
	KeepPeriods *int64 `json:"keep_periods"`
	// ActiveFrom (inclusive) and ActiveUntil (exclusive) bound the time in which
	// the rule applies, in whole milliseconds; nil is no bound.
	ActiveFrom  *time.Time `json:"active_from"`
	ActiveUntil *time.Time `json:"active_until"`
	// When is a condition on the descriptor, nil for none; see when.Env.
	When *string `json:"when"`

	// ChargeOn is request or report. With report a check only looks, and a charge spends.
	ChargeOn string `json:"charge_on"`
	// OverLimit is deny or defer. Defer bounds the queue and is nil for deny.
	OverLimit string     `json:"over_limit"`
	Defer     *Defer     `json:"defer"`
	Candidate *Candidate `json:"candidate"`
	// Ban denies a key for a time after too many denials; nil for none.
	Ban *Ban `json:"ban"`
	// RetryJitterMS is the most by which a denial's retry-after increases at random.
	RetryJitterMS *int64 `json:"retry_jitter_ms"`
	// LogPercent is the percentage, 0 to 100, of entities whose allowed requests the decision log records; nil for that
	// of the server.
	LogPercent *int64 `json:"log_percent"`
	// NotifyPercent are up to MaxNotify distinct percentages, 1 to 100, of the limit: a key that has used so much is an
	// alert. Nil for none.
	NotifyPercent []int64 `json:"notify_percent"`
	// Message replaces the message in the body of a denial: up to MaxMessage characters with the placeholders of
	// ParseMessage; nil for the usual one.
	Message *string `json:"message"`
	// Denial is the status of the rule's denials, and whether waiting ends them; nil for 429 and yes.
	Denial *Denial `json:"denial"`
	// Delay makes admitted requests wait before the limit denies any; nil for none. TarpitMS is how long a denied request
	// should wait for its denial, 0 to MaxTarpit ms; nil is 0. Callers and gateways wait, Sluice does not.
	Delay    *Delay `json:"delay"`
	TarpitMS *int64 `json:"tarpit_ms"`
	// Hidden keeps the rule's name and figures out of what clients see.
	Hidden bool `json:"hidden"`
	// Counts is what a unit is: CountsRequests, CountsTokens, CountsMoney or CountsConcurrency; nil is Kind's choice.
	// Unit is what people read amounts in, such as $, and UnitScale how many units of the rule are one of it: a power of
	// ten, nil is 1. None of the three changes a decision.
	Counts    *string `json:"counts"`
	Unit      *string `json:"unit"`
	UnitScale *int64  `json:"unit_scale"`
	// Warn puts advice into the answers for a key that has used so much of its limit; nil for none.
	Warn *Warn `json:"warn"`
	// HotKeys is exact, leased or sharded; HotRaisePercent, only with the last
	// two, raises the limit of a hot key.
	HotKeys         string `json:"hot_keys"`
	HotRaisePercent *int64 `json:"hot_raise_percent"`
	// Span is region, global, local_then_global or global_exact: how far the limit reaches. The other three belong to
	// global: the over-admission, in percent of the limit, from which an estimate of it is an alert (nil is
	// DefaultMaxOver); the units of a key that a region may spend before the others have received the key (open, all;
	// share, an equal part; nil is open); and while it receives no updates from one of them (share, an equal part;
	// alone or closed; nil is share).
	Span           string  `json:"span"`
	MaxOverPercent *int64  `json:"max_over_percent"`
	Cold           *string `json:"cold"`
	CutOff         *string `json:"cut_off"`

	// The members from Addend to Metadata, except for Unlimited and Replaces, belong to rules with Descriptor.

	// Addend is take or charge. With charge an explicit addend is charged whether or not it fits.
	Addend string `json:"addend"`
	// Unlimited: the rule limits nothing, and Limit may be 0. With a scope it still counts; see IsMeter.
	Unlimited bool `json:"unlimited"`
	// Quota: a call is over its limit only if every descriptor with a quota rule is.
	Quota bool `json:"quota"`
	// Replaces names up to MaxReplaces rules that do not apply to a request to which this rule applies and is enforced;
	// of a rule with Descriptor, to a call to which it applies.
	Replaces []string `json:"replaces"`
	// ShareThreshold: all values that fit a pattern of Descriptor have one bucket.
	ShareThreshold bool `json:"share_threshold"`
	// Metadata is sent to Envoy for requests that pass.
	Metadata map[string]string `json:"metadata"`

	Mode     string `json:"mode"`
	FailMode string `json:"fail_mode"`
	// FailFrom says where FailMode is from if the rule left it out: FailLeftOut, or what FailDefaults.Fill wrote. ""
	// if it was given, as in every stored rule.
	FailFrom string `json:"-"`
	// Overload is deny or wait: while the counter store is overloaded, a request is denied at once, or waits as long as
	// its caller does; nil for the setting of the server.
	Overload *string `json:"overload"`
	IsActive bool    `json:"is_active"`
	// Former is what limited the rule's keys before the last edit of its algorithm; nil for none. The rule database
	// sets it (FormerAfter).
	Former *Former `json:"-"`
	// Unknown is a member of its policies in the rules database that this version does not know, "" for none.
	Unknown string `json:"-"`

	// Version starts at 1 and grows by 1 with every edit; it is the ETag.
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// ruleFields lists the editable fields of a rule, in the order of its JSON form, without identity,
// version and times.
var ruleFields = []field.Field[Rule]{
	{Name: "name", At: func(r *Rule) any { return &r.Name }, Required: true, Label: true},
	{Name: "description", At: func(r *Rule) any { return &r.Description }, Bytes: field.MaxDescription, Label: true},
	{Name: "owner", At: func(r *Rule) any { return &r.Owner }, Characters: MaxOwner, Label: true, Filter: true},
	{
		Name: "scope", At: func(r *Rule) any { return &r.Scope }, Filter: true,
		Required: true, Waived: func(r *Rule) bool { return r.Descriptor != nil },
	},
	{Name: "route", At: func(r *Rule) any { return &r.Route }, Filter: true},
	{Name: "method", At: func(r *Rule) any { return &r.Method }, Filter: true},
	{Name: "host", At: func(r *Rule) any { return &r.Host }, Policy: true, Filter: true},
	{Name: "descriptor", At: func(r *Rule) any { return &r.Descriptor }, Policy: true,
		Composite: field.Part(descriptorFields)},
	{Name: "algorithm", At: func(r *Rule) any { return &r.Algorithm }, Default: defaultAlgorithm},
	{
		Name: "limit", At: func(r *Rule) any { return &r.Limit },
		Required: true, Waived: func(r *Rule) bool { return r.Unlimited },
	},
	{Name: "window_ms", At: func(r *Rule) any { return &r.WindowMS }, Millis: true},
	{Name: "burst", At: func(r *Rule) any { return &r.Burst }},
	{Name: "align", At: func(r *Rule) any { return &r.Align }},
	{Name: "anchor_ms", At: func(r *Rule) any { return &r.AnchorMS }, Millis: true},
	{Name: "buckets", At: func(r *Rule) any { return &r.Buckets }},
	{Name: "weight_field", At: func(r *Rule) any { return &r.WeightField }},
	{Name: "limit_field", At: func(r *Rule) any { return &r.LimitField }, Policy: true},
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
	{
		Name: "tiers", At: func(r *Rule) any { return &r.Tiers }, Policy: true,
		Damaged: map[string]TierLimit{"": {}}, Noun: "tiers", Composite: field.MapOf(decodeTier),
	},
	{Name: "schedule", At: func(r *Rule) any { return &r.Schedule }, Policy: true, Composite: field.Part(scheduleFields)},
	{Name: "calendar", At: func(r *Rule) any { return &r.Calendar }, Policy: true, Composite: field.Part(calendarFields)},
	{
		Name: "keep_periods", At: func(r *Rule) any { return &r.KeepPeriods }, Aside: true, Policy: true,
		Least: 1, Most: MaxKeepPeriods,
	},
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
	{
		Name: "defer", At: func(r *Rule) any { return &r.Defer }, Policy: true,
		Damaged: &Defer{MaxItems: -1}, Composite: field.Part(deferFields),
	},
	{Name: "candidate", At: func(r *Rule) any { return &r.Candidate }, Aside: true, Policy: true,
		Composite: field.Part(candidateFields)},
	{Name: "ban", At: func(r *Rule) any { return &r.Ban }, Policy: true, Composite: field.Part(banFields)},
	{
		Name: "retry_jitter_ms", At: func(r *Rule) any { return &r.RetryJitterMS }, Aside: true, Policy: true,
		Most: MaxRetryJitter, Millis: true,
	},
	{Name: "log_percent", At: func(r *Rule) any { return &r.LogPercent }, Policy: true, Label: true, Most: 100},
	{
		Name: "notify_percent", At: func(r *Rule) any { return &r.NotifyPercent }, Policy: true, Label: true,
		Noun: "percentages", Most: MaxNotify,
	},
	{Name: "message", At: func(r *Rule) any { return &r.Message }, Aside: true, Policy: true, Characters: MaxMessage},
	{Name: "denial", At: func(r *Rule) any { return &r.Denial }, Aside: true, Policy: true, Damaged: &Denial{Status: -1},
		Composite: field.Part(denialFields)},
	{Name: "delay", At: func(r *Rule) any { return &r.Delay }, Policy: true, Damaged: &Delay{StepMS: -1},
		Composite: field.Part(delayFields)},
	{Name: "tarpit_ms", At: func(r *Rule) any { return &r.TarpitMS }, Aside: true, Policy: true, Most: MaxTarpit,
		Millis: true},
	{Name: "hidden", At: func(r *Rule) any { return &r.Hidden }, Aside: true, Policy: true, Default: false},
	{
		Name: "counts", At: func(r *Rule) any { return &r.Counts }, Policy: true, Label: true,
		OneOf: []string{CountsRequests, CountsTokens, CountsMoney, CountsConcurrency},
	},
	{Name: "unit", At: func(r *Rule) any { return &r.Unit }, Policy: true, Label: true, Characters: MaxUnit},
	{
		Name: "unit_scale", At: func(r *Rule) any { return &r.UnitScale }, Policy: true, Label: true,
		Least: 1, Most: MaxUnitScale,
	},
	{Name: "warn", At: func(r *Rule) any { return &r.Warn }, Aside: true, Policy: true, Composite: field.Part(warnFields)},
	{
		Name: "hot_keys", At: func(r *Rule) any { return &r.HotKeys }, Policy: true,
		Default: HotKeysExact, OneOf: []string{HotKeysExact, HotKeysLeased, HotKeysSharded},
	},
	{
		Name: "hot_raise_percent", At: func(r *Rule) any { return &r.HotRaisePercent }, Policy: true,
		Least: 1, Most: MaxHotRaisePercent,
	},
	{
		Name: "span", At: func(r *Rule) any { return &r.Span }, Policy: true,
		Default: SpanRegion, OneOf: []string{SpanRegion, SpanGlobal, SpanShares, SpanGlobalExact},
	},
	{
		Name: "max_over_percent", At: func(r *Rule) any { return &r.MaxOverPercent }, Policy: true, Label: true,
		Least: 1, Most: 100,
	},
	{
		Name: "cold", At: func(r *Rule) any { return &r.Cold }, Policy: true, OneOf: []string{ColdOpen, ColdShare},
	},
	{
		Name: "cut_off", At: func(r *Rule) any { return &r.CutOff }, Policy: true,
		OneOf: []string{CutOffShare, CutOffAlone, CutOffClosed},
	},
	{
		Name: "addend", At: func(r *Rule) any { return &r.Addend }, Policy: true,
		Default: AddendTake, OneOf: []string{AddendTake, AddendCharge},
	},
	{Name: "unlimited", At: func(r *Rule) any { return &r.Unlimited }, Policy: true, Default: false},
	{Name: "quota", At: func(r *Rule) any { return &r.Quota }, Policy: true, Default: false},
	{
		Name: "replaces", At: func(r *Rule) any { return &r.Replaces }, Policy: true,
		Noun: "names of rules", Most: MaxReplaces,
	},
	{Name: "share_threshold", At: func(r *Rule) any { return &r.ShareThreshold }, Policy: true, Default: false},
	{
		Name: "metadata", At: func(r *Rule) any { return &r.Metadata }, Aside: true, Policy: true,
		Noun: "texts", Most: MaxMetadata, Composite: field.MapOf(field.DecodeText),
	},
	{
		Name: "mode", At: func(r *Rule) any { return &r.Mode }, Filter: true,
		Default: ModeEnforce, OneOf: []string{ModeEnforce, ModeShadow},
	},
	{
		Name: "fail_mode", At: func(r *Rule) any { return &r.FailMode }, Aside: true,
		Default: FailOpen, OneOf: []string{FailOpen, FailClosed, FailLocal},
		Spelled: func(r *Rule) bool { return r.FailFrom == "" },
	},
	{
		Name: "overload", At: func(r *Rule) any { return &r.Overload }, Aside: true, Policy: true,
		OneOf: []string{OverloadDeny, OverloadWait},
	},
	{Name: "is_active", At: func(r *Rule) any { return &r.IsActive }, Default: true},
}

// Fields returns the editable fields of a rule, in the order of its JSON form. Do not change them.
func Fields() []field.Field[Rule] { return ruleFields }

// FieldNamed returns the field with the given name, nil if there is none.
func FieldNamed(name string) *field.Field[Rule] { return field.Named(ruleFields, name) }

// FilterDomain filters rules by the domain of their descriptor.
const FilterDomain = "domain"

// Filters returns the names by which listings and exports can be filtered: names of fields, and FilterDomain.
func Filters() (names []string) {
	for i := range ruleFields {
		if ruleFields[i].Filter {
			names = append(names, ruleFields[i].Name)
		}
	}
	return append(names, FilterDomain)
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

// LimiterLimit returns the rule's own limit as a limiter.Limit, with defaults applied: burst is
// the limit, buckets is 60 or fewer for a tiny window. The error is a *field.ValidationError.
func (r *Rule) LimiterLimit() (limiter.Limit, error) {
	return r.spec().Resolve()
}

// DirectRule replaces the rule's name in metrics and client headers if the caller sent the limit.
const DirectRule = "default"

// FieldGuard returns the condition of a rule that denies requests without the field of this rule's weight. The rule has
// a weight_field.
func (r *Rule) FieldGuard() string { return strconv.Quote(*r.WeightField) + " not in fields" }
