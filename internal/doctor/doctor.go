package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"sluice/internal/attention"
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
	// Past returns the versions of rules. It may be nil: then every edit of a rule restarts its figures.
	Past attention.Past
	// Set is in force.
	Set *match.Set
	Now time.Time
}

// Report is about one rule.
type Report struct {
	Findings []Finding
	// Since is the first hour of the last week of which there are figures, the zero time if there are none.
	Since time.Time
	// Same is since when the rule decides in the present way, and Version the version with which that began, 0 if
	// unknown. Seen counts its decisions since then, at most of the last day.
	Same    time.Time
	Version int64
	Seen    attention.Counts
	// Partial says why something is missing that is normally there, nil if nothing is. Then nothing is found.
	Partial error
}

// maxOverrides is the largest number of overrides of a rule that are examined: the oldest ones.
const maxOverrides = 500

// Rule examines a rule of the set. Errors wrap rules.ErrUnavailable.
func (d *Doctor) Rule(ctx context.Context, r *rules.Rule) (Report, error) {
	f := Facts{Rule: *r, Now: d.Now, Options: d.Set.Options(), Guarded: d.guarded(r)}
	var out Report
	var edits []attention.Edit
	var err error
	if f.Same, out.Version, edits, err = d.same(ctx, r); err != nil {
		return out, err
	}
	out.Same = f.Same
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
		if from, to = RecentOf(f.Same, d.Now); from.Before(to) {
			f.Recent, _ = read(history.Query{Rule: r.Name, From: from, To: to, Step: time.Minute})
			of, _, _ := f.recently()
			out.Seen = attention.CountsOf(of)
		}
		f.Edits = d.edited(r, edits, read)
		if from, to = DayOf(f.Same, d.Now); from.Before(to) {
			f.Minutes, f.Keys = read(history.Query{Rule: r.Name, By: history.ByKey, From: from, To: to, Step: time.Minute})
		}
		if len(f.Overrides) > 0 {
			to := d.Now.UTC().Truncate(history.Day)
			f.Days, f.DayKeys = read(history.Query{Rule: r.Name, By: history.ByKey, From: to.Add(-week), To: to,
				Step: history.Day})
		}
		if r.Traits().Decay == limiter.DecayAtOnce && r.WindowMS < secondsUpTo.Milliseconds() {
			if from, to = secondsOf(f.Same, d.Now); from.Before(to) {
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

// pastRead is how many versions of a rule are read.
const pastRead = 50

// same is since when a rule decides as it does, the version that began it, and the edits of the last day that could
// change decisions, newest first.
func (d *Doctor) same(ctx context.Context, r *rules.Rule) (since time.Time, version int64, edits []attention.Edit,
	err error) {
	from, _ := WeekOf(d.Now)
	if d.Past == nil || r.UpdatedAt.Before(from) {
		return r.UpdatedAt, 0, nil, nil
	}
	past, err := d.Past.RuleHistory(ctx, r.ID, pastRead, r.Version+1)
	if err != nil || len(past) == 0 {
		return r.UpdatedAt, 0, nil, err
	}
	first := slices.IndexFunc(past, func(rev rules.Revision) bool {
		for _, c := range rev.Changes {
			if c.Field == "name" { // figures are under it
				return true
			}
		}
		return rules.Decisive(rev.Changes) != nil
	})
	if first < 0 {
		first = len(past) - 1
	}
	edits = attention.EditsIn(past)
	edits = slices.DeleteFunc(edits, func(e attention.Edit) bool { return d.Now.Sub(e.At) > attention.EditsOf })
	return past[first].At, past[first].Version, edits, nil
}

// mostEdits is the largest number of edits that are examined: the newest.
const mostEdits = 5

// edited are edits of a rule with what it decided around them.
func (d *Doctor) edited(r *rules.Rule, edits []attention.Edit,
	read func(history.Query) ([]history.Point, Keys)) (out []attention.Edited) {
	edits = edits[:min(len(edits), mostEdits)]
	if len(edits) == 0 {
		return nil
	}
	last, _ := read(history.Query{Rule: r.Name, From: d.Now.Add(-justNow), To: d.Now, Step: time.Second})
	for i := range edits {
		e := attention.Edited{Edit: edits[i], Now: attention.After(&edits[i], last), Young: edits[i].IsYoung(d.Now)}
		var earlier, later time.Time
		if i+1 < len(edits) {
			earlier = edits[i+1].At
		}
		if i > 0 {
			later = edits[i-1].At
		}
		from, to, step := attention.AroundOf(&e.Edit, d.Now)
		points, _ := read(history.Query{Rule: r.Name, From: from, To: to, Step: step})
		e.Before, e.Soon = attention.Around(&e.Edit, earlier, later, points, step)
		out = append(out, e)
	}
	return out
}

// justNow is the last minute, and the seconds of which nothing is known yet.
const justNow = time.Minute + 2*time.Second

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
