package doctor

import (
	"time"

	"sluice/internal/attention"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/scope"
)

// Facts are the figures of a rule. Times are of UTC.
type Facts struct {
	Rule rules.Rule
	// Same is since when the rule decides in the present way: the time of its last edit that could change decisions.
	// Zero means that only the last edit of any kind is known.
	Same time.Time
	// Edits are the edits of the last day that could change decisions, newest first.
	Edits []attention.Edited
	// Now is the time of the examination.
	Now time.Time
	// Recent are the minutes of the time that RecentOf returns; empty if that is.
	Recent []history.Point
	// Hours are the hours that WeekOf returns, oldest first.
	Hours []history.Point
	// Minutes and Keys are of the time that DayOf returns; both are empty if that is.
	Minutes []history.Point
	Keys    Keys
	// Seconds are of the time that secondsOf returns; empty if nobody asked for them.
	Seconds []history.Point
	// Days are seven whole days, with DayKeys; both are empty if nobody asked for them.
	Days    []history.Point
	DayKeys Keys
	// Overrides are the overrides of the rule, with Match and Prefix. Options are the options of the set in force.
	Overrides []rules.Override
	Options   match.Options
	// Guarded: requests without the field of the rule's weight are denied, or its condition decides about them.
	Guarded bool
	// Stricter are rules that are stricter and apply wherever this one does, with what they denied in the week.
	Stricter []Denials
}

// Keys are the most active keys of a time.
type Keys struct {
	Rows []history.Row
	// Rest is the largest number of decisions that any other key may have had.
	Rest int64
	// Denied are the distinct keys that were denied.
	Denied history.Distinct
}

// Denials describes the denials of a rule.
type Denials struct {
	Rule   string
	Denied int64
}

// WeekOf is a week of whole hours, and the hour that has begun.
func WeekOf(now time.Time) (from, to time.Time) {
	return now.UTC().Truncate(time.Hour).Add(-week), now.UTC()
}

// DayOf is the last day of whole hours in which a rule decided as it does since an instant: the time of which keys are
// known. It is empty if to is not after from.
func DayOf(same, now time.Time) (from, to time.Time) {
	to = now.UTC().Truncate(time.Hour)
	return unchanged(same, to.Add(-day), time.Hour), to
}

// RecentOf is the time of whole minutes until now in which a rule decided as it does since an instant, at most that of
// DayOf and the hour that has begun. It is empty if to is not after from.
func RecentOf(same, now time.Time) (from, to time.Time) {
	to = now.UTC().Truncate(time.Minute)
	return unchanged(same, to.Truncate(time.Hour).Add(-day), time.Minute), to
}

// secondsOf is the time of which seconds are known and in which a rule decided as it does since an instant. It is empty
// if to is not after from.
func secondsOf(same, now time.Time) (from, to time.Time) {
	to = now.UTC()
	return unchanged(same, to.Add(-history.SecondsKept), time.Second), to
}

// unchanged is the first whole step from an instant on in which a rule decides as it does since same.
func unchanged(same, from time.Time, step time.Duration) time.Time {
	if changed := same.UTC().Add(step - 1).Truncate(step); changed.After(from) {
		return changed
	}
	return from
}

// sum adds up what is known. known is false if anything is not, or if there is nothing.
func sum(points []history.Point) (of history.Figures, known bool) {
	known = len(points) > 0
	for i := range points {
		if points[i].Known {
			of.Add(points[i].Figures)
		} else {
			known = false
		}
	}
	return of, known
}

// wholeWeek returns the figures of a week. ok is false if any hour is unknown, or if the rule changed within the week.
func (f *Facts) wholeWeek() (of history.Figures, since time.Time, ok bool) {
	const whole = int(week / time.Hour)
	if len(f.Hours) < whole || !f.sameSince(f.Hours[0].At) {
		return of, since, false
	}
	of, ok = sum(f.Hours[:whole])
	since = f.Hours[0].At
	rest, _ := sum(f.Hours[whole:])
	of.Add(rest)
	return of, since, ok
}

// sameSince reports whether the rule is in force as it is since an instant.
func (f *Facts) sameSince(at time.Time) bool {
	r := &f.Rule
	return !f.same().After(at) && (r.ActiveFrom == nil || !r.ActiveFrom.After(at)) &&
		(r.ActiveUntil == nil || r.ActiveUntil.After(f.Now))
}

// same is since when the rule decides as it does.
func (f *Facts) same() time.Time {
	if f.Same.IsZero() {
		return f.Rule.UpdatedAt
	}
	return f.Same
}

// recently are the figures of the last day until now, as far as they are known, and since when that is. ok is false if
// nothing is.
func (f *Facts) recently() (of history.Figures, since time.Time, ok bool) { return knownOf(f.Recent) }

// lastDay are the figures of the last day of whole hours, as far as they are known, and since when that is. ok is false
// if nothing is.
func (f *Facts) lastDay() (of history.Figures, since time.Time, ok bool) {
	return knownOf(f.Minutes)
}

// knownOf adds up what is known, and says since when that is. ok is false if nothing is.
func knownOf(points []history.Point) (of history.Figures, since time.Time, ok bool) {
	for i := range points {
		if points[i].Known {
			of, _ = sum(points)
			return of, points[i].At, true
		}
	}
	return of, since, false
}

// count is the number of keys that made some figures, 0 if it is not known: then keys may be missing.
func (k *Keys) count(r *rules.Rule, of history.Figures) int64 {
	if r.Scope == scope.Global {
		return 1
	}
	var seen int64
	for i := range k.Rows {
		if k.Rows[i].Error > 0 {
			return 0
		}
		seen += k.Rows[i].Allowed + k.Rows[i].Denied
	}
	if k.Rest > 0 || seen != of.Total() {
		return 0
	}
	return int64(len(k.Rows))
}
