package rules

import (
	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/rules/tree"
)

// Words of the policy fields, as written in JSON and SQL.
const (
	ThrottleSoft    = "soft"
	ThrottleElastic = "elastic"

	PriorityCritical = "critical"
	PriorityNormal   = "normal"
	PriorityLow      = "low"

	ChargeOnRequest = "request"
	ChargeOnReport  = "report"

	OverLimitDeny  = "deny"
	OverLimitDefer = "defer"

	HotKeysExact   = "exact"
	HotKeysLeased  = "leased"
	HotKeysSharded = "sharded"

	SpanRegion = "region"
	SpanGlobal = "global"
	// SpanShares divides the limit among the regions.
	SpanShares      = "local_then_global"
	SpanGlobalExact = "global_exact"

	ColdOpen  = "open"
	ColdShare = "share"

	CutOffShare  = "share"
	CutOffAlone  = "alone"
	CutOffClosed = "closed"

	OverloadDeny = "deny"
	OverloadWait = "wait"

	EveryHour    = "hour"
	EveryDay     = "day"
	EveryWeek    = "week"
	EveryMonth   = "month"
	EveryQuarter = "quarter"
	EveryYear    = "year"

	// ZoneUTC is the zone of schedules and calendars that name none.
	ZoneUTC = "UTC"
)

// Bounds of the policy fields.
const (
	// MaxSoftPercent and MaxElasticPercent bound how far above the limit a soft
	// or elastic rule may go, in percent of the limit.
	MaxSoftPercent    int64 = 1000
	MaxElasticPercent int64 = 10_000
	// MaxTiers is the largest number of tiers of a rule, MaxTierName the longest name in bytes.
	MaxTiers    = 64
	MaxTierName = 64
	// MaxScheduleWindows is the largest number of windows of a schedule.
	MaxScheduleWindows = 32
	// MaxSchedulePercent is the largest factor of a schedule's window.
	MaxSchedulePercent int64 = 1000
	// MaxRetryJitter is the longest jitter, in milliseconds.
	MaxRetryJitter int64 = 3_600_000
	// MaxHotRaisePercent is the most by which a hot key's limit may be raised.
	MaxHotRaisePercent int64 = 400
	// MinGlobalWindow is the shortest window, in ms, of a limit that spans regions, and DefaultMaxOver the over-admission
	// in percent from which it is an alert.
	MinGlobalWindow int64 = 10_000
	DefaultMaxOver  int64 = 2
	// Bounds and defaults of a deferred queue.
	MaxDeferItems        int64 = 1_000_000
	DefaultDeferItems    int64 = 10_000
	MinDeferAge          int64 = 1000
	MaxDeferAge          int64 = 604_800_000
	DefaultDeferAge      int64 = 3_600_000
	nominalSecond        int64 = 1000
	nominalHour          int64 = 3_600_000
	nominalDay                 = 24 * nominalHour
	nominalWeek                = 7 * nominalDay
	nominalMonth               = 31 * nominalDay
	nominalQuarter             = 92 * nominalDay
	nominalYear                = 366 * nominalDay
	defaultNormalPercent int64 = 80
	defaultLowPercent    int64 = 50
	maxPoolPercent       int64 = 100
)

// TierLimit is the limit of one tier: either a limit with an optional burst (for the bucket
// algorithms; the tier's limit if nil), or no limit.
type TierLimit struct {
	Limit     *int64 `json:"limit,omitempty"`
	Burst     *int64 `json:"burst,omitempty"`
	Unlimited bool   `json:"unlimited,omitempty"`
}

var tierFields = []field.Field[TierLimit]{
	{Name: "limit", At: func(t *TierLimit) any { return &t.Limit }},
	{Name: "burst", At: func(t *TierLimit) any { return &t.Burst }},
	{Name: "unlimited", At: func(t *TierLimit) any { return &t.Unlimited }},
}

func decodeTier(d *field.Decoder, at string, v *tree.Value, dst *TierLimit) {
	field.DecodeObject(d, tierFields, at, v, dst)
}

// Schedule changes a rule's limit in weekly windows, by the wall clock of a time zone. The first
// window that contains the instant applies; outside all of them the rule's own limit does.
type Schedule struct {
	// Zone is an IANA name such as Europe/Berlin; "" is UTC.
	Zone    string           `json:"zone"`
	Windows []ScheduleWindow `json:"windows"`
}

var scheduleFields = []field.Field[Schedule]{
	{Name: "zone", At: func(s *Schedule) any { return &s.Zone }, Default: ZoneUTC},
	{
		Name: "windows", At: func(s *Schedule) any { return &s.Windows },
		Noun: "windows", Composite: field.ListOf(windowFields, MaxScheduleWindows),
	},
}

// ScheduleWindow is one window of a Schedule. A time of day that a clock change skips never
// matches; a repeated one matches twice.
type ScheduleWindow struct {
	// Days are the days on which the window starts, mon to sun; nil is every day.
	Days []string `json:"days,omitempty"`
	// From (inclusive) and To (exclusive) are HH:MM. To at or before From is a time of the next
	// day, and 24:00 is the end of the day.
	From string `json:"from"`
	To   string `json:"to"`
	// Percent scales the limit and the burst, rounded down but at least 1 unless it is 0. It
	// applies to the tiers' limits as well.
	Percent *int64 `json:"percent,omitempty"`
	// Limit and Burst replace the rule's own; tiers keep theirs.
	Limit *int64 `json:"limit,omitempty"`
	Burst *int64 `json:"burst,omitempty"`
}

var windowFields = []field.Field[ScheduleWindow]{
	{
		Name: "days", At: func(w *ScheduleWindow) any { return &w.Days },
		Noun: "days of the week, such as [sat, sun]", Least: 1, Most: int64(len(weekdays)),
	},
	{Name: "from", At: func(w *ScheduleWindow) any { return &w.From }, Required: true},
	{Name: "to", At: func(w *ScheduleWindow) any { return &w.To }, Required: true},
	{Name: "percent", At: func(w *ScheduleWindow) any { return &w.Percent }},
	{Name: "limit", At: func(w *ScheduleWindow) any { return &w.Limit }},
	{Name: "burst", At: func(w *ScheduleWindow) any { return &w.Burst }},
}

// Calendar sets the windows of fixed_window to hours, days, weeks, months, quarters or years, by the wall clock of a
// time zone.
type Calendar struct {
	Every string `json:"every"`
	// Zone is an IANA name; "" is UTC.
	Zone string `json:"zone"`
	// AnchorDay is the day on which a period starts: 1 (Monday) to 7 for weeks; 1 to 31 for months, quarters and years,
	// where the last day replaces it in shorter months. 0 means 1. Hours and days have none.
	AnchorDay int64 `json:"anchor_day,omitempty"`
	// AnchorMonth is the month in which a year starts, or one in which a quarter does: 1 to 12. 0 means 1. Other periods
	// have none.
	AnchorMonth int64 `json:"anchor_month,omitempty"`
	// At is the time of day at which a period starts, 00:00 to 23:59; "" is midnight. One that a clock change skips is the
	// next that exists, and of one that comes twice the first counts. Hours have none.
	At string `json:"at,omitempty"`
}

var calendarFields = []field.Field[Calendar]{
	{Name: "every", At: func(c *Calendar) any { return &c.Every }, OneOf: everyNames()},
	{Name: "zone", At: func(c *Calendar) any { return &c.Zone }, Default: ZoneUTC},
	{Name: "anchor_day", At: func(c *Calendar) any { return &c.AnchorDay }, NotZero: true},
	{Name: "anchor_month", At: func(c *Calendar) any { return &c.AnchorMonth }, NotZero: true},
	{Name: "at", At: func(c *Calendar) any { return &c.At }},
}

// Defer bounds the queue of requests that a rule defers.
type Defer struct {
	// MaxItems is 1 to MaxDeferItems; 0 is DefaultDeferItems.
	MaxItems int64 `json:"max_items,omitempty"`
	// MaxAgeMS is the longest time that an item waits, MinDeferAge to MaxDeferAge; 0 is
	// DefaultDeferAge.
	MaxAgeMS int64 `json:"max_age_ms,omitempty"`
}

var deferFields = []field.Field[Defer]{
	{Name: "max_items", At: func(d *Defer) any { return &d.MaxItems }, Least: 1, Most: MaxDeferItems, NotZero: true},
	{
		Name: "max_age_ms", At: func(d *Defer) any { return &d.MaxAgeMS },
		Least: MinDeferAge, Most: MaxDeferAge, NotZero: true, Millis: true,
	},
}

// Candidate is a second limit that is evaluated in addition to the rule's own, on separate buckets, and never denies. A
// nil or empty field means the value of the rule.
type Candidate struct {
	Algorithm string  `json:"algorithm,omitempty"`
	Limit     *int64  `json:"limit"`
	WindowMS  *int64  `json:"window_ms,omitempty"`
	Burst     *int64  `json:"burst,omitempty"`
	Align     *string `json:"align,omitempty"`
	AnchorMS  *int64  `json:"anchor_ms,omitempty"`
	Buckets   *int64  `json:"buckets,omitempty"`
}

var candidateFields = []field.Field[Candidate]{
	{Name: "algorithm", At: func(c *Candidate) any { return &c.Algorithm }},
	{Name: "limit", At: func(c *Candidate) any { return &c.Limit }, Required: true},
	{Name: "window_ms", At: func(c *Candidate) any { return &c.WindowMS }, Millis: true},
	{Name: "burst", At: func(c *Candidate) any { return &c.Burst }},
	{Name: "align", At: func(c *Candidate) any { return &c.Align }},
	{Name: "anchor_ms", At: func(c *Candidate) any { return &c.AnchorMS }, Millis: true},
	{Name: "buckets", At: func(c *Candidate) any { return &c.Buckets }},
}

// Source is the input of a set: rules, pools and profiles as of one moment.
type Source struct {
	Rules    []Rule
	Pools    []Pool
	Profiles []profile.Profile
	// Version counts the changes of all of them. Stamp distinguishes two states with one Version, of
	// which a database has lost one.
	Version int64
	Stamp   string
}

// TierFields is Fields for the limit of a tier.
func TierFields() []field.Field[TierLimit] { return tierFields }

// WindowFields is Fields for a window of a schedule.
func WindowFields() []field.Field[ScheduleWindow] { return windowFields }

// CandidateFields is Fields for a candidate.
func CandidateFields() []field.Field[Candidate] { return candidateFields }
