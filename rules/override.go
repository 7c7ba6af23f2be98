package rules

import (
	"errors"
	"strings"
	"time"

	"sluice/rules/field"
)

// Bounds of an override's text.
const (
	// MaxOverrideKey is the longest key as people write it, in bytes. No displayed
	// key is longer.
	MaxOverrideKey = 2560
	// MaxReason is the longest reason, in bytes.
	MaxReason = 512
	// MaxOverrideErrors bounds how many faults of one import are named.
	MaxOverrideErrors = 1000
)

// ErrOverrideExists says that the rule has an override for that key already.
var ErrOverrideExists = errors.New("the rule has an override for this key")

// Override is an exception from one rule for certain values of its scope: another limit, no limit, a block, or other
// periods. Exactly one of Limit, Unlimited and Blocked is set, or a Calendar alone. An exact key takes precedence over
// wildcards, and a longer wildcard over a shorter one.
type Override struct {
	ID     int64 `json:"id"`
	RuleID int64 `json:"rule_id"`
	// Key names the bucket or, with a * or a network, several: user:42, user:acme-*, user:42+ip:203.0.113.7,
	// ip:10.0.0.0/8.
	// See match.ParseOverrideKey. It cannot be changed.
	Key string `json:"key"`
	// Limit replaces the rule's limit, in units per window; nil if there is
	// none. It also replaces a tier's and a schedule's.
	Limit *int64 `json:"limit"`
	// Burst is allowed only with Limit and a bucket algorithm; nil means Limit.
	Burst     *int64 `json:"burst"`
	Unlimited bool   `json:"unlimited"`
	Blocked   bool   `json:"blocked"`
	// Calendar replaces parts of the rule's calendar; nil replaces nothing. Alone, without Limit, it leaves the limits of
	// the rule and its tiers.
	Calendar *OverrideCalendar `json:"calendar"`
	// Reason is for colleagues; callers never see it.
	Reason string `json:"reason"`
	// ExpiresAt is the instant at which the override ends, in whole milliseconds; nil means never.
	ExpiresAt *time.Time `json:"expires_at"`

	// Version starts at 1 and grows by 1 with every edit; it is the ETag.
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	// Match is the key as it is compared, Prefix whether it is a wildcard; match.ResolveOverride
	// sets both.
	Match  string `json:"-"`
	Prefix bool   `json:"-"`
	// First is set by BeginCalendar.
	First FirstPeriod `json:"-"`
}

// overrideFields lists the editable fields of an override, in the order of the columns of a file.
var overrideFields = []field.Field[Override]{
	{Name: "key", At: func(o *Override) any { return &o.Key }, Required: true, Bytes: MaxOverrideKey},
	{Name: "limit", At: func(o *Override) any { return &o.Limit }},
	{Name: "burst", At: func(o *Override) any { return &o.Burst }},
	{Name: "unlimited", At: func(o *Override) any { return &o.Unlimited }},
	{Name: "blocked", At: func(o *Override) any { return &o.Blocked }},
	{
		Name: "calendar", At: func(o *Override) any { return &o.Calendar },
		Composite: field.Part(overrideCalendarFields),
	},
	{Name: "reason", At: func(o *Override) any { return &o.Reason }, Bytes: MaxReason},
	{Name: "expires_at", At: func(o *Override) any { return &o.ExpiresAt }},
}

// OverrideFields is Fields for overrides.
func OverrideFields() []field.Field[Override] { return overrideFields }

// OverrideFieldNamed is FieldNamed for overrides.
func OverrideFieldNamed(name string) *field.Field[Override] { return field.Named(overrideFields, name) }

// OverrideQuery selects overrides of one rule, ordered by id.
type OverrideQuery struct {
	RuleID int64
	// AllRules selects overrides of all rules, whatever RuleID is.
	AllRules bool
	Text     string // part of key or reason, any case
	// Around is what Options.NetworksAround returns for Text.
	Around []string
	// Match and Prefix, if Match is not empty, select one key.
	Match  string
	Prefix bool
	// IncludeExpired adds expired overrides that are not deleted yet.
	IncludeExpired bool
	PageSize       int // 1 to 5000; 0 means 50
	AfterID        int64
}

// OverridePage is one page of overrides ordered by id.
type OverridePage struct {
	Overrides []Override
	// More reports that there are overrides after the last one.
	More bool
}

// OverrideImport is a request to import overrides of one rule.
type OverrideImport struct {
	RuleID int64
	Items  []ImportedOverride
	// Prune deletes the overrides that Items does not name.
	Prune bool
	// DryRun only counts the changes.
	DryRun bool
	// Expect is the Plan of an earlier dry run. If the import would do anything else, it
	// fails with ErrStale and changes nothing. Empty disables the comparison.
	Expect string
}

// ImportedOverride is one line of a file.
type ImportedOverride struct {
	Line int // counts from 1
	Override
}

// OverrideImported counts the changes of an import, or of a dry run.
type OverrideImported struct {
	DryRun    bool  `json:"dry_run"`
	Created   int64 `json:"created"`
	Updated   int64 `json:"updated"`
	Unchanged int64 `json:"unchanged"`
	Deleted   int64 `json:"deleted"`
	// Plan is a digest of the changes and of the versions that they change.
	Plan string `json:"-"`
}

// Same reports whether two overrides of a key have the same effect, reason and expiry.
func (o *Override) Same(b *Override) bool {
	return equalPtr(o.Limit, b.Limit) && equalPtr(o.Burst, b.Burst) && o.Unlimited == b.Unlimited &&
		o.Blocked == b.Blocked && equalPtr(o.Calendar, b.Calendar) && o.Reason == b.Reason &&
		(o.ExpiresAt == nil) == (b.ExpiresAt == nil) && (o.ExpiresAt == nil || o.ExpiresAt.Equal(*b.ExpiresAt))
}

func equalPtr[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// Expired reports whether the override has ended.
func (o *Override) Expired(now time.Time) bool { return o.ExpiresAt != nil && !o.ExpiresAt.After(now) }

// Problems validates all of an override of rule r but its key, and normalises it. now is the time of the edit; the
// override must end after it.
func (o *Override) Problems(r *Rule, now time.Time) []field.Problem {
	var ps field.Problems
	o.validateEffect(r, &ps)
	if strings.TrimSpace(o.Reason) == "" {
		o.Reason = ""
	}
	OverrideFieldNamed("reason").BoundText("reason", o.Reason, &ps)
	o.validateExpiry(now, &ps)
	return ps
}

// validateEffect checks limit, burst, unlimited, blocked and calendar.
func (o *Override) validateEffect(r *Rule, ps *field.Problems) {
	said := 0
	for _, given := range []bool{o.Limit != nil, o.Unlimited, o.Blocked} {
		if given {
			said++
		}
	}
	switch {
	case said > 1 || said == 0 && o.Calendar == nil:
		ps.Add("limit", "exactly one of limit, unlimited and blocked must be given, or a calendar alone")
	case o.Calendar != nil && (o.Unlimited || o.Blocked):
		ps.Add("calendar", "does not apply to a key that is unlimited or blocked; leave it out")
	case o.Calendar != nil:
		o.Calendar.validate(r, ps)
	}
	if o.Burst != nil && o.Limit == nil {
		ps.Add("burst", "can be set only together with limit")
		return
	}
	if o.Limit == nil {
		return
	}
	l, err := r.LimiterLimit()
	if err != nil {
		ps.Add("limit", "cannot be checked, because the rule itself is not valid")
		return
	}
	l.Count = *o.Limit
	if l.Algorithm.Bucketed() {
		l.Burst = l.Count
	}
	if o.Burst != nil {
		l.Burst = *o.Burst
		if !l.Algorithm.Bucketed() {
			ps.Add("burst", "does not apply to %s", l.Algorithm)
			l.Burst = 0
		}
	}
	for _, p := range l.Problems() {
		ps.Add(p.Field, "%s", p.Message)
	}
}

// maxExpiry is the last instant that every database and format can hold.
var maxExpiry = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func (o *Override) validateExpiry(now time.Time, ps *field.Problems) {
	if o.ExpiresAt == nil {
		return
	}
	at := o.ExpiresAt.UTC().Truncate(time.Millisecond)
	o.ExpiresAt = &at
	switch {
	case !at.After(now):
		ps.Add("expires_at", "must be in the future")
	case at.After(maxExpiry):
		ps.Add("expires_at", "must not be after the year 9998")
	}
}
