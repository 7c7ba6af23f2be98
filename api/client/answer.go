package client

import "encoding/json"

// Answer is the decision about a request, or the state after another operation. The figures at the top are those of
// the strictest limit.
type Answer struct {
	Allowed bool `json:"allowed"`
	// Status is the code for the program's own client: 200, 202 (deferred), 402, 403, 429 or 503.
	Status int `json:"status"`
	Figures
	// RetryAfterS is RetryAfterMS in seconds, rounded up.
	RetryAfterS *int64 `json:"retry_after_s,omitempty"`
	// DelayMS is how long to wait before an allowed request starts, or before a denial is sent.
	DelayMS int64 `json:"delay_ms"`
	// Degraded is "", or the fail mode that decided. ByClient says whose it was.
	Degraded string `json:"degraded"`
	// Rule is the strictest rule, or the name of the strictest of several direct limits; "" for a single direct limit or
	// if none applied.
	Rule string `json:"rule"`
	// Soft and Elastic: allowed above the limit of a rule with that throttle.
	Soft    bool `json:"soft,omitempty"`
	Elastic bool `json:"elastic,omitempty"`
	// Shed: denied within the limits, because a pool that sheds has no room.
	Shed bool `json:"shed,omitempty"`
	// Overloaded: denied because more arrived than the service could decide in time. Nothing was charged, and no fail mode
	// decided.
	Overloaded bool `json:"overloaded,omitempty"`
	// Replayed: the stored answer to an earlier request with the same RequestID; nothing was spent.
	Replayed bool `json:"replayed,omitempty"`
	// Advice is the advice of a rule whose key has used much of its limit; nil if there is none.
	Advice *Advice `json:"advice,omitempty"`
	// Lease is for Release and Renew, if concurrency slots were taken.
	Lease string `json:"lease,omitempty"`
	// Reservation is for Settle, if a Reserve was allowed, within ExpiresInMS.
	Reservation string `json:"reservation,omitempty"`
	ExpiresInMS int64  `json:"expires_in_ms,omitempty"`
	// OnExpirePercent is the part of the estimate that stays charged if nobody settles the Reservation; nil is all of it.
	OnExpirePercent *int64 `json:"on_expire_percent,omitempty"`
	// Granted is how many requests were charged for the caller to decide within SpendWithinMS, 0 for not at all; Shrinks
	// says that these fall evenly to 0 within that time. Near uses them.
	Granted       int64 `json:"granted,omitempty"`
	SpendWithinMS int64 `json:"spend_within_ms,omitempty"`
	Shrinks       bool  `json:"shrinks,omitempty"`
	// Ticket identifies a deferred request. Deferred is unknown if it may or may not be in the queue, so that it has no
	// Ticket. NotDeferred is why one was denied instead: full or unavailable.
	Ticket      string `json:"ticket,omitempty"`
	Deferred    string `json:"deferred,omitempty"`
	NotDeferred string `json:"not_deferred,omitempty"`
	// Refunded is in units: the most that a refund, release or settlement returned to one limit.
	Refunded int64 `json:"refunded,omitempty"`
	// Reset is the number of limits that a Reset reached, 0 if no rule applied; nil for other operations.
	Reset *int64 `json:"reset,omitempty"`
	// Ended, of a Reset of the kind close, says whether a bucket was closed until its window ends; nil for other
	// operations.
	Ended *bool `json:"ended,omitempty"`
	// Limits are all limits that applied. Only those of mode enforce can deny.
	Limits []LimitAnswer `json:"limits"`
	// Headers are for the response to the program's own client, allowed or not. They never contain what a caller sent.
	Headers map[string]string `json:"headers"`
	// Body is the problem document for a client that is denied, or the notice for one that is deferred; JSON.
	Body json.RawMessage `json:"body,omitempty"`

	// ByClient: this program decided, by the fail mode of the client while the service was unavailable, or by a Guard if
	// Degraded is "". If ByClient is false, Degraded is a fail mode of the service, whose counters were unavailable.
	ByClient bool `json:"-"`
}

// Advice are texts that the rules of a warning set, and the name of the one whose members win.
type Advice struct {
	Rule string            `json:"rule"`
	Set  map[string]string `json:"set"`
}

// Figures are the figures of a limit. Those that are unknown are nil.
type Figures struct {
	// Limit is in units per window: the limit in force, after tiers, schedules and overrides.
	Limit *int64 `json:"limit,omitempty"`
	// Burst is the most that a bucket algorithm admits at once; nil for other algorithms.
	Burst *int64 `json:"burst,omitempty"`
	// Remaining is the largest weight that would pass now.
	Remaining *int64 `json:"remaining,omitempty"`
	// Used is how many units count now, rounded up. It exceeds the limit after a charge or a settlement of more than was
	// left, above a soft or elastic limit, and while a lowered limit holds what was spent before.
	Used *int64 `json:"used,omitempty"`
	// ResetMS is the time until nothing counts as spent, -1 for never.
	ResetMS *int64 `json:"reset_ms,omitempty"`
	// RetryAfterMS is the time until the same request passes, if no other request spends before; -1 if waiting does not
	// help.
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
	// BanMS is the time until the ban of the key ends; nil if it is not banned.
	BanMS *int64 `json:"ban_ms,omitempty"`
}

// LimitAnswer is the decision of one limit.
type LimitAnswer struct {
	// Rule is the name of the rule, or of one of several direct limits; "" for a single direct limit.
	Rule string `json:"rule"`
	// Key names the bucket. Credentials in it are hashed.
	Key     string `json:"key"`
	Allowed bool   `json:"allowed"`
	Figures
	DelayMS  int64 `json:"delay_ms,omitempty"`
	Refunded int64 `json:"refunded,omitempty"`
	// Mode is enforce, shadow (a rule that counts but never denies) or candidate (the second limit of the rule before).
	Mode    string `json:"mode"`
	Soft    bool   `json:"soft,omitempty"`
	Elastic bool   `json:"elastic,omitempty"`
	Shed    bool   `json:"shed,omitempty"`
	// Overloaded: the service had no turn for this limit, so that nothing was decided on it.
	Overloaded bool `json:"overloaded,omitempty"`
	// ConditionFailed: the rule applies because its condition could not be evaluated, which counts as true.
	ConditionFailed bool `json:"condition_failed,omitempty"`
	// Degraded is "", or the fail mode of the service that decided.
	Degraded string `json:"degraded,omitempty"`
}

// Explanation says which rules apply to a request and why the others do not.
type Explanation struct {
	// SetVersion is the version of the rules, ActiveRules their number.
	SetVersion  int64 `json:"set_version"`
	ActiveRules int   `json:"active_rules"`
	// Decision is what a check would get now.
	Decision Answer           `json:"decision"`
	Rules    []ConsideredRule `json:"rules"`
	// Profile is the profile that read the descriptors of a call of Envoy as one request, and Message describes its
	// result. Both are "" in other explanations.
	Profile string `json:"profile,omitempty"`
	Message string `json:"message,omitempty"`
}

// ConsideredRule is one rule of an Explanation.
type ConsideredRule struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Matched bool   `json:"matched"`
	// Reason is a word, such as matched, route or missing_fact; Message says it in a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// ReplacedBy are the rules that replace it, with the reason replaced.
	ReplacedBy []string `json:"replaced_by,omitempty"`
	Mode       string   `json:"mode"`
	// Summary describes the rule in a sentence.
	Summary string `json:"summary"`
	// Key and Weight are set for a rule that matched. Bucket and Candidate are the state of its limits.
	Key string `json:"key,omitempty"`
	// Home is the region whose Redis has the bucket, of a rule with span global_exact.
	Home      string        `json:"home,omitempty"`
	Weight    *int64        `json:"weight,omitempty"`
	Bucket    *Bucket       `json:"bucket,omitempty"`
	Candidate *Bucket       `json:"candidate,omitempty"`
	Override  *UsedOverride `json:"override,omitempty"`
	Pool      *UsedPool     `json:"pool,omitempty"`
}

// Bucket is the state of one limit.
type Bucket struct {
	Allowed bool `json:"allowed"`
	// Shed: within the limit, and the pool has no room.
	Shed bool `json:"shed,omitempty"`
	// Held: within the limit, and this region has spent its share of what is left, of a rule with span global.
	Held bool `json:"held,omitempty"`
	// WholeLimit is the whole limit of which Limit is the part of this region: with span local_then_global, and while
	// the region is cut off and cut_off is share.
	WholeLimit *int64 `json:"whole_limit,omitempty"`
	// Regions is what each region has spent, of a rule with span global.
	Regions []RegionUnits `json:"regions,omitempty"`
	// HeldBy is who holds units that are charged and may be unspent, of a rule whose units Envoys hold.
	HeldBy []HeldUnits `json:"held_by,omitempty"`
	Figures
}

// HeldUnits is what callers of one kind hold of a bucket.
type HeldUnits struct {
	// Kind is envoy_quota: streams of Envoy's quota service.
	Kind    string `json:"kind"`
	Holders int    `json:"holders"`
	Units   int64  `json:"units"`
}

// RegionUnits is how many units one region has spent of a limit, less those it gave back, in windows that still count.
type RegionUnits struct {
	Region string `json:"region"`
	Units  int64  `json:"units"`
}

// UsedOverride is the override that applied.
type UsedOverride struct {
	ID        int64 `json:"id"`
	Wildcard  bool  `json:"wildcard"`
	Unlimited bool  `json:"unlimited"`
	Blocked   bool  `json:"blocked"`
	// Network is set if the key of the override names a network, such as 10.0.0.0/8.
	Network string `json:"network,omitempty"`
}

// UsedPool is the pool that an elastic rule draws on.
type UsedPool struct {
	Name     string `json:"name"`
	Priority string `json:"priority"`
	// SharePercent is the highest usage of the pool at which this priority may exceed its limit.
	// Shed: the pool denies requests for which it has no room.
	Shed         bool  `json:"shed,omitempty"`
	SharePercent int64 `json:"share_percent"`
	// Used and Capacity are in units. Used is nil while the counters are unavailable.
	Used     *int64    `json:"used"`
	Capacity int64     `json:"capacity"`
	Load     *PoolLoad `json:"load"`
}

// PoolLoad is a reported load, which replaces the counted traffic of a pool: 0 is idle, 1 fully used.
type PoolLoad struct {
	Utilization float64 `json:"utilization"`
	ExpiresInMS int64   `json:"expires_in_ms"`
}
