package rules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/rules/when"
)

// validatePolicy checks the policy fields. base is the rule's own limit, or the zero Limit if that
// is invalid; checks that depend on it are then skipped.
func (p *Parsed) validatePolicy(r *Rule, base limiter.Limit, ps *field.Problems) {
	validateThrottle(r, ps)
	validateOutcome(r, ps)
	validateBan(r, ps)
	validateHot(r, ps)
	validateLimitField(r, ps)
	validateSpan(r, ps)
	validateLife(r, ps)
	validateNotify(r, ps)
	validateDenial(r, ps)
	validateDelay(r, ps)
	validateHidden(r, ps)
	validateUnit(r, ps)
	validateWarn(r, ps)
	validateKeep(r, ps)
	validateMeter(r, ps)
	validateReplaces(r, ps)
	p.Limits = validateLimits(r, base, ps)
	p.Candidate = validateCandidate(r, base, ps)
	if r.Message != nil {
		var err error
		if p.Message, err = parseMessage(*r.Message, field.ValueOf(r.Route)); err != nil {
			ps.Add("message", "%s", err)
		}
	}
	if r.When != nil {
		var err error
		if p.When, err = when.Compile(*r.When); err != nil {
			ps.Add("when", "%s", err)
		}
	}
}

// MaxNotify is the largest number of percentages of Rule.NotifyPercent.
const MaxNotify = 4

func validateNotify(r *Rule, ps *field.Problems) {
	for i, percent := range r.NotifyPercent {
		at := fmt.Sprintf("notify_percent[%d]", i)
		if ps.Between(at, &percent, 1, 100); slices.Contains(r.NotifyPercent[:i], percent) {
			ps.Add(at, "must not be repeated")
		}
	}
}

// throttles reports whether a throttle works with an algorithm. A queue and slots have nothing
// above their limit to allow. State that is an instant cannot keep units above a limit that is
// decided again without them (limiter.Limit.Raise).
func throttles(throttle string, t *limiter.Traits) bool {
	switch throttle {
	case ThrottleSoft:
		return !t.Queues && !t.Slots
	case ThrottleElastic:
		return !t.Queues && !t.Slots && !t.Instant
	}
	return true
}

func validateThrottle(r *Rule, ps *field.Problems) {
	if !throttles(r.Throttle, r.Traits()) {
		ps.Add("throttle", "must not be %s for %s", r.Throttle, r.Algorithm)
	}
	soft, elastic := r.Throttle == ThrottleSoft, r.Throttle == ThrottleElastic
	ps.Belongs("soft_percent", r.SoftPercent != nil, soft, true, "throttle soft")
	ps.Belongs("elastic_percent", r.ElasticPercent != nil, elastic, true, "throttle elastic")
	switch {
	case r.Pool == nil && elastic:
		ps.Add("pool", "is required with throttle elastic")
	case r.Pool != nil && r.Traits().Slots:
		ps.Add("pool", "does not apply to concurrency")
	case r.Pool != nil && !field.ValidName(*r.Pool):
		ps.Add("pool", "must be the name of a pool: %s", field.NameHelp)
	}
	ps.Belongs("priority", r.Priority != nil, r.Pool != nil, false, "a pool")
}

// validateOutcome checks the fields for denials and reports.
func validateOutcome(r *Rule, ps *field.Problems) {
	concurrency := r.Traits().Slots
	if r.ChargeOn == ChargeOnReport && concurrency {
		ps.Add("charge_on", "must be request for concurrency, whose leases are not charged")
	}
	deferred := r.OverLimit == OverLimitDefer
	if deferred {
		switch {
		case r.ChargeOn == ChargeOnReport:
			ps.Add("over_limit", "must be deny with charge_on report")
		case concurrency:
			ps.Add("over_limit", "must be deny for concurrency")
		case r.Mode == ModeShadow:
			ps.Add("over_limit", "must be deny with mode shadow, which never denies")
		}
	}
	ps.Belongs("defer", r.Defer != nil, deferred, false, "over_limit defer")
	if r.Defer != nil && deferred {
		field.Bounds(deferFields, r.Defer, "defer.", ps)
	}
}

func validateHot(r *Rule, ps *field.Problems) {
	exact := r.HotKeys == HotKeysExact
	if t := r.Traits(); !exact && t.Name != "" && !t.Divisible {
		ps.Add("hot_keys", "must be exact for %s", r.Algorithm)
	}
	ps.Belongs("hot_raise_percent", r.HotRaisePercent != nil, !exact, false, "hot_keys leased or sharded")
}

// validateLimitField checks the field that holds a key's limit, and its combinations with other members: one bucket
// keeps the limit and decides every request.
func validateLimitField(r *Rule, ps *field.Problems) {
	if r.LimitField == nil {
		return
	}
	if !chars.IsName(*r.LimitField) {
		ps.Add("limit_field", "must be 1 to %d letters, digits, _, . or -", chars.MaxName)
	}
	if r.Traits().Name != limiter.FixedWindow.String() {
		ps.Add("limit_field", "does not apply to %s, only to fixed_window", r.Algorithm)
	}
	if r.HotKeys != HotKeysExact {
		ps.Add("hot_keys", "must be exact with a limit_field, because one bucket keeps the limit of a key")
	}
	if r.Spans() {
		ps.Add("span", "must be region with a limit_field, because the bucket of a region keeps the limit of a key")
	}
	if r.Throttle != ThrottleHard {
		ps.Add("throttle", "must be hard with a limit_field, which is the most that a key may spend")
	}
	if r.Candidate != nil {
		ps.Add("candidate", "cannot be combined with a limit_field, because its bucket keeps no limits")
	}
	if r.Unlimited {
		ps.Add("limit_field", "does not apply to an unlimited rule, which has no limit")
	}
}

// validateSpan checks the span and its members. A limit that spans regions counts units, in one bucket for each key,
// and its window is long compared with the time between updates of regions.
func validateSpan(r *Rule, ps *field.Problems) {
	if r.Span == SpanGlobalExact {
		validateExact(r, ps)
	}
	global := r.Span == SpanGlobal
	ps.Belongs("max_over_percent", r.MaxOverPercent != nil, global, false, "span global")
	ps.Belongs("cold", r.Cold != nil, global, false, "span global")
	ps.Belongs("cut_off", r.CutOff != nil, global, false, "span global")
	t := r.Traits()
	switch shares := r.Span == SpanShares; {
	case shares && t.Slots:
		ps.Add("span", "must be region or global_exact for %s: a slot that is renewed counts for as long as its holder "+
			"wants, so that its part could never be lent", r.Algorithm)
	case shares && r.Unlimited:
		ps.Add("span", "must be region for an unlimited rule, which counts nothing")
	case shares && r.HotKeys == HotKeysSharded:
		ps.Add("hot_keys", "must be exact or leased with span %s", SpanShares)
	case shares && len(r.Algorithm) > 0 && r.Limit == 0:
		ps.Add("span", "must not be local_then_global for a limit of 0, of which nothing can be divided")
	}
	if !global {
		return
	}
	switch {
	case t.Slots:
		ps.Add("span", "must be region or global_exact for %s, which does not count units", r.Algorithm)
	case t.Name != "" && !t.Spans():
		ps.Add("span", "must be region, local_then_global or global_exact for %s, whose places are not counts", r.Algorithm)
	case r.Unlimited:
		ps.Add("span", "must be region for an unlimited rule, which counts nothing")
	case r.HotKeys == HotKeysSharded:
		ps.Add("hot_keys", "must be exact or leased with span global")
	}
	if r.WindowMS > 0 && r.WindowMS < MinGlobalWindow {
		ps.Add("window_ms", "must be at least %d with span global; a shorter window can have span region, "+
			"local_then_global or global_exact", MinGlobalWindow)
	}
}

// validateExact checks what does not go with a limit that the home region of each key decides.
func validateExact(r *Rule, ps *field.Problems) {
	if r.Unlimited {
		ps.Add("span", "must be region for an unlimited rule, which counts nothing")
	}
	if r.HotKeys != HotKeysExact {
		ps.Add("hot_keys", "must be exact with span global_exact, because the home region of a key decides every request")
	}
}

func validateLife(r *Rule, ps *field.Problems) {
	for _, b := range []struct {
		field string
		year  int
		given bool
	}{{"active_from", yearOf(r.ActiveFrom), r.ActiveFrom != nil}, {"active_until", yearOf(r.ActiveUntil),
		r.ActiveUntil != nil}} {
		if b.given && (b.year < 1 || b.year > 9999) {
			ps.Add(b.field, "must be in a year from 0001 to 9999")
		}
	}
	if r.ActiveFrom != nil && r.ActiveUntil != nil && !r.ActiveFrom.Before(*r.ActiveUntil) {
		ps.Add("active_until", "must be after active_from")
	}
}

// replaced returns the rule's limit with another count and burst; a nil burst means the count.
// Problems have the fields limit and burst.
func (r *Rule) replaced(limit int64, burst *int64) (limiter.Limit, []field.Problem) {
	l, err := r.withLimit(limit, burst).Resolve()
	var ve *field.ValidationError
	if errors.As(err, &ve) {
		return l, ve.Fields
	}
	return l, nil
}

// withLimit returns the rule's limit as written, with another count and burst.
func (r *Rule) withLimit(limit int64, burst *int64) LimitSpec {
	spec := r.spec()
	spec.Limit, spec.Burst = limit, burst
	return spec
}

func validateTiers(r *Rule, base limiter.Limit, ps *field.Problems) map[string]Variant {
	if len(r.Tiers) == 0 {
		return nil
	}
	if len(r.Tiers) > MaxTiers {
		ps.Add("tiers", "must not have more than %d tiers", MaxTiers)
		return nil
	}
	out := make(map[string]Variant, len(r.Tiers))
	for _, name := range slices.Sorted(maps.Keys(r.Tiers)) {
		t := r.Tiers[name]
		path := "tiers." + field.SafeField(name)
		if name == "" || len(name) > MaxTierName || !utf8.ValidString(name) ||
			strings.ContainsFunc(name, chars.Unsafe) || strings.TrimSpace(name) != name {
			ps.Add(path, "must have a name of 1 to %d bytes of printable text, without blanks at either end", MaxTierName)
			continue
		}
		switch {
		case t.Unlimited && (t.Limit != nil || t.Burst != nil):
			ps.Add(path, "must either have a limit or be unlimited")
		case t.Unlimited:
			out[name] = Variant{Unlimited: true}
		case t.Limit == nil:
			ps.Add(path+".limit", "is required, unless the tier is unlimited")
		case base.Algorithm != 0:
			l, bad := r.replaced(*t.Limit, t.Burst)
			ps.Under(path, bad)
			out[name] = Variant{Limit: l}
		}
	}
	return out
}

func validateCalendar(r *Rule, ps *field.Problems) *calendar {
	c := r.Calendar
	if c == nil {
		return nil
	}
	before := len(*ps)
	field.Bounds(calendarFields, c, "calendar.", ps)
	zone, err := loadZone(c.Zone)
	if err != nil {
		ps.Add("calendar.zone", "%s", err)
	}
	period := c.Period()
	out := c.compile(zone, "calendar.", ps)
	if r.Traits().Setting != limiter.SettingAlign {
		ps.Add("calendar", "does not apply to %s, only to fixed_window", r.Algorithm)
	}
	if r.Align != nil && *r.Align != limiter.AlignCalendar.String() {
		ps.Add("align", "must be calendar or left out with a calendar")
	}
	if r.AnchorMS != nil {
		ps.Add("anchor_ms", "does not apply to a rule with a calendar; leave it out")
	}
	if period != nil && r.WindowMS != period.nominal {
		ps.Add("window_ms", "must be left out or be %d with a calendar of every %s", period.nominal, c.Every)
	}
	if len(*ps) > before {
		return nil
	}
	return out
}

func validateCandidate(r *Rule, base limiter.Limit, ps *field.Problems) *limiter.Limit {
	c := r.Candidate
	if c == nil {
		return nil
	}
	if r.Mode == ModeShadow {
		ps.Add("candidate", "cannot be combined with mode shadow, because a shadow rule is itself a trial")
	}
	if c.Limit == nil {
		ps.Add("candidate.limit", "is required")
		return nil
	}
	if base.Algorithm == 0 {
		return nil
	}
	l, err := r.candidateSpec().Resolve()
	var ve *field.ValidationError
	if errors.As(err, &ve) {
		ps.Under("candidate", ve.Fields)
		return nil
	}
	if base.Algorithm.Traits().Slots || l.Algorithm.Traits().Slots {
		ps.Add("candidate", "does not apply to concurrency")
		return nil
	}
	if t := l.Algorithm.Traits(); !throttles(r.Throttle, t) {
		ps.Add("candidate.algorithm", "must not be %s with throttle %s", t.Name, r.Throttle)
		return nil
	}
	switch { // otherwise it could not be promoted
	case r.Span == SpanGlobal && !l.Algorithm.Traits().Spans():
		ps.Add("candidate.algorithm", "must not be %s with span global", l.Algorithm)
	case r.Span == SpanGlobal && l.Window < MinGlobalWindow:
		ps.Add("candidate.window_ms", "must be at least %d with span global", MinGlobalWindow)
	case r.Span == SpanShares && l.Count == 0:
		ps.Add("candidate.limit", "must not be 0 with span local_then_global")
	default:
		return &l
	}
	return nil
}

// Traits returns the traits of the rule's algorithm, empty ones if it names none.
func (r *Rule) Traits() *limiter.Traits {
	a, _ := limiter.ParseAlgorithm(r.Algorithm) // Resolve reports a bad name
	return a.Traits()
}

// spec returns the rule's own limit as written.
func (r *Rule) spec() LimitSpec {
	s := LimitSpec{
		Algorithm: r.Algorithm, Limit: r.Limit, WindowMS: r.WindowMS,
		Burst: r.Burst, Align: r.Align, AnchorMS: r.AnchorMS, Buckets: r.Buckets, PerPeriod: r.KeepPeriods != nil,
	}
	if r.IsMeter() && r.Traits().Setting == limiter.SettingAlign {
		s.Limit = limiter.MaxExact
	}
	return s
}

// candidateSpec returns the whole candidate: fields that it leaves out are the rule's own, if they
// apply to the candidate's algorithm.
func (r *Rule) candidateSpec() LimitSpec {
	c := r.Candidate
	s := LimitSpec{
		Algorithm: orDefault(c.Algorithm, r.Algorithm), Limit: *c.Limit, WindowMS: r.WindowMS,
		Burst: c.Burst, Align: c.Align, AnchorMS: c.AnchorMS, Buckets: c.Buckets,
	}
	if c.WindowMS != nil {
		s.WindowMS = *c.WindowMS
	}
	a, err := limiter.ParseAlgorithm(s.Algorithm)
	if err != nil {
		return s // Resolve says so
	}
	switch a.Traits().Setting {
	case limiter.SettingBurst:
		s.Burst = cmp.Or(s.Burst, r.Burst)
	case limiter.SettingBuckets:
		s.Buckets = cmp.Or(s.Buckets, r.Buckets)
	case limiter.SettingAlign:
		s.Align = cmp.Or(s.Align, r.Align)
		if s.AnchorMS == nil && (s.Align == nil || *s.Align != limiter.AlignFirstHit.String()) {
			s.AnchorMS = r.AnchorMS
		}
	}
	return s
}

// CandidateFollows reports whether the candidate uses the windows of the rule's calendar.
func (r *Rule) CandidateFollows() bool {
	c := r.Candidate
	return r.Calendar != nil && c != nil && (c.Algorithm == "" || c.Algorithm == r.Algorithm) &&
		c.WindowMS == nil && c.Align == nil && c.AnchorMS == nil
}
