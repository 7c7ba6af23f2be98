package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// OverrideLister lists the overrides of a rule. Errors wrap rules.ErrUnavailable.
type OverrideLister interface {
	ListOverrides(ctx context.Context, q rules.OverrideQuery) (rules.OverridePage, error)
}

// Doctor reads the figures of rules. It is safe for concurrent use.
type Doctor struct {
	Stats history.Source
	// Overrides may be nil: then nothing is found that depends on them.
	Overrides OverrideLister
	// Set is in force.
	Set *match.Set
	Now time.Time
}

// Report is about one rule.
type Report struct {
	Findings []Finding
	// Since is the first hour of the last week of which there are figures, the zero time if there are none.
	Since time.Time
	// Partial says why something is missing that is normally there, nil if nothing is. Then nothing is found.
	Partial error
}

// maxOverrides is the largest number of overrides of a rule that are looked at: the oldest.
const maxOverrides = 500

// Rule examines a rule of the set. Errors wrap rules.ErrUnavailable.
func (d *Doctor) Rule(ctx context.Context, r *rules.Rule) (Report, error) {
	f := Facts{Rule: *r, Now: d.Now, Options: d.Set.Options(), Guarded: d.guarded(r)}
	var out Report
	// read answers a query, unless one before failed.
	var failed error
	read := func(q history.Query) (points []history.Point, keys Keys) {
		if failed != nil || out.Partial != nil {
			return nil, Keys{}
		}
		var answer history.Result
		if answer, failed = d.Stats.Stats(ctx, q); failed != nil {
			return nil, Keys{}
		}
		out.Partial = answer.Partial
		return answer.Series[0].Points, Keys{answer.Top, answer.TopRest, answer.Denied}
	}
	from, to := WeekOf(d.Now)
	f.Hours, _ = read(history.Query{Rule: r.Name, From: from, To: to, Step: time.Hour})
	for i := range f.Hours {
		if f.Hours[i].Known {
			out.Since = f.Hours[i].At
			break
		}
	}
	if d.Overrides != nil && failed == nil {
		page, err := d.Overrides.ListOverrides(ctx, rules.OverrideQuery{RuleID: r.ID, PageSize: maxOverrides})
		if err != nil {
			return out, err
		}
		f.Overrides = page.Overrides
	}
	if of, _ := sum(f.Hours); of.Total() > 0 {
		if from, to = DayOf(r, d.Now); from.Before(to) {
			f.Minutes, f.Keys = read(history.Query{Rule: r.Name, By: history.ByKey, From: from, To: to, Step: time.Minute})
		}
		if len(f.Overrides) > 0 {
			to := d.Now.UTC().Truncate(history.Day)
			f.Days, f.DayKeys = read(history.Query{Rule: r.Name, By: history.ByKey, From: to.Add(-week), To: to,
				Step: history.Day})
		}
		if r.Traits().Decay == limiter.DecayAtOnce && r.WindowMS < secondsUpTo.Milliseconds() {
			if from, to = secondsOf(r, d.Now); from.Before(to) {
				f.Seconds, _ = read(history.Query{Rule: r.Name, From: from, To: to, Step: time.Second})
			}
		}
		if of.Denied == 0 && of.Total() >= enoughInAWeek {
			if err := d.stricter(ctx, &f, read); err != nil {
				return out, err
			}
		}
	}
	if failed == nil && out.Partial == nil {
		out.Findings = Examine(&f)
	}
	return out, failed
}

// guarded reports whether requests without the field of a rule's weight are denied, or the rule's condition decides
// about them.
func (d *Doctor) guarded(r *rules.Rule) bool {
	if r.WeightField == nil {
		return false
	}
	for i := range d.Set.Len() {
		by := d.Set.At(i)
		denies := by.Rule.Limit == 0 && by.Rule.Mode == rules.ModeEnforce && by.Rule.When != nil &&
			strings.Contains(*by.Rule.When, *r.WeightField)
		if (by.Rule.ID == r.ID || denies) && slices.Contains(by.ConditionNames(), "fields") {
			return true
		}
	}
	return false
}

// stricter fills in the rules that are stricter.
func (d *Doctor) stricter(ctx context.Context, f *Facts, read func(history.Query) ([]history.Point, Keys)) error {
	from, to := WeekOf(d.Now)
	for i := range d.Set.Len() {
		by := &d.Set.At(i).Rule
		if !Stricter(by, &f.Rule) || d.Overrides == nil {
			continue
		}
		page, err := d.Overrides.ListOverrides(ctx, rules.OverrideQuery{RuleID: by.ID, PageSize: 1})
		if err != nil {
			return err
		}
		if len(page.Overrides) > 0 {
			continue // keys of it may have a higher limit
		}
		hours, _ := read(history.Query{Rule: by.Name, From: from, To: to, Step: time.Hour})
		of, _ := sum(hours)
		f.Stricter = append(f.Stricter, Denials{by.Name, of.Denied})
		if of.Denied > 0 {
			return nil
		}
	}
	return nil
}

// Stricter reports whether a rule applies wherever another one does, counts the same in the same way, and has a lower
// limit, so that the other one never denies what this one allows.
func Stricter(by, of *rules.Rule) bool {
	plain := func(r *rules.Rule) bool {
		return steady(r) && r.IsActive && r.Mode == rules.ModeEnforce && r.Descriptor == nil && r.Pool == nil &&
			r.Throttle == rules.ThrottleHard && r.OverLimit == rules.OverLimitDeny && !r.Traits().Slots
	}
	if by.ID == of.ID || !plain(by) || !plain(of) || by.ActiveFrom != nil || by.ActiveUntil != nil {
		return false
	}
	if by.Scope != of.Scope || by.Algorithm != of.Algorithm || by.WindowMS != of.WindowMS || !same(by.Align, of.Align) ||
		!same(by.AnchorMS, of.AnchorMS) || !same(by.Buckets, of.Buckets) ||
		!same(by.WeightField, of.WeightField) || !same(by.LimitField, of.LimitField) {
		return false
	}
	covers := func(by, of *string) bool { return by == nil || same(by, of) }
	if !covers(by.When, of.When) || !covers(by.Method, of.Method) || !covers(by.Host, of.Host) ||
		!covers(by.Route, of.Route) && !below(by.Route, of.Route) {
		return false
	}
	a, err := by.LimiterLimit()
	b, err2 := of.LimiterLimit()
	return err == nil && err2 == nil && a.Count < b.Count && a.Burst <= b.Burst
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// below reports whether a route that ends in /* and has no parameters covers another one.
func below(by, of *string) bool {
	if of == nil || strings.Contains(*by, "{") {
		return false
	}
	under, tail := strings.CutSuffix(*by, "/*")
	return tail && (*of == under || strings.HasPrefix(*of, under+"/"))
}
