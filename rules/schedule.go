package rules

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/limiter"
	"sluice/rules/field"
)

// The minutes of a day, and the least units to which a percentage reduces a limit.
const (
	dayMinutes   = 24 * 60
	wholePercent = 100
)

// schedule is a rule's Schedule, compiled.
type schedule struct {
	zone    *time.Location
	windows []scheduleWindow
}

// scheduleWindow is one window, in minutes of the day. A window whose start is not before its end
// continues into the next day.
type scheduleWindow struct {
	days     uint8 // bit 0 is Monday
	from, to int
	// own is the rule's limit in this window, tiers the limits of its tiers; nil means unchanged.
	own   limiter.Limit
	tiers map[string]Variant
}

// contains reports whether the window contains a minute of a weekday (0 is Monday).
func (w *scheduleWindow) contains(weekday, minute int) bool {
	today := w.days>>weekday&1 != 0
	if w.from < w.to {
		return today && w.from <= minute && minute < w.to
	}
	yesterday := w.days>>((weekday+6)%7)&1 != 0
	return today && w.from <= minute || yesterday && minute < w.to
}

// parseClock parses HH:MM as minutes; 24:00 is allowed only as an end.
func parseClock(s string, end bool) (int, bool) {
	if len(s) != 5 || s[2] != ':' {
		return 0, false
	}
	digits := [4]byte{s[0], s[1], s[3], s[4]}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	m := (int(digits[0]-'0')*10+int(digits[1]-'0'))*60 + int(digits[2]-'0')*10 + int(digits[3]-'0')
	if digits[2] > '5' || m > dayMinutes || m == dayMinutes && !end {
		return 0, false
	}
	return m, true
}

func validateSchedule(r *Rule, base limiter.Limit, tiers map[string]Variant, ps *field.Problems) *schedule {
	s := r.Schedule
	if s == nil {
		return nil
	}
	before := len(*ps)
	zone, err := loadZone(s.Zone)
	if err != nil {
		ps.Add("schedule.zone", "%s", err)
	}
	if len(s.Windows) == 0 || len(s.Windows) > MaxScheduleWindows {
		ps.Add("schedule.windows", "must be a list of 1 to %d windows", MaxScheduleWindows)
		return nil
	}
	out := &schedule{zone: zone, windows: make([]scheduleWindow, len(s.Windows))}
	for i := range s.Windows {
		validateWindow(r, &s.Windows[i], &out.windows[i], base, tiers, field.Path("schedule.windows", i), ps)
	}
	if len(*ps) > before {
		return nil
	}
	return out
}

func validateWindow(r *Rule, w *ScheduleWindow, out *scheduleWindow, base limiter.Limit, tiers map[string]Variant,
	at string, ps *field.Problems) {
	out.days = 1<<len(weekdays) - 1
	if len(w.Days) > 0 {
		out.days = 0
		for _, d := range w.Days {
			bit := uint8(1) << max(0, slices.Index(weekdays, d))
			if !slices.Contains(weekdays, d) || out.days&bit != 0 {
				ps.Add(at+".days", "must list days from mon, tue, wed, thu, fri, sat and sun, each at most once")
				break
			}
			out.days |= bit
		}
	}
	var ok bool
	if out.from, ok = parseClock(w.From, false); !ok {
		ps.Add(at+".from", "must be a time of day from 00:00 to 23:59")
	}
	if out.to, ok = parseClock(w.To, true); !ok {
		ps.Add(at+".to", "must be a time of day from 00:00 to 24:00")
	}
	switch {
	case w.Percent != nil && (w.Limit != nil || w.Burst != nil):
		ps.Add(at, "must have either percent or a limit")
	case w.Percent != nil:
		ps.Between(at+".percent", w.Percent, 0, MaxSchedulePercent)
		if *w.Percent >= 0 && *w.Percent <= MaxSchedulePercent && base.Algorithm != 0 {
			out.scale(base, tiers, *w.Percent, at, ps)
		}
	case w.Limit == nil:
		ps.Add(at+".percent", "is required, unless the window has a limit")
	case base.Algorithm != 0:
		l, bad := r.replaced(*w.Limit, w.Burst)
		ps.Under(at, bad)
		out.own, out.tiers = l, tiers
	}
}

// scale fills in the limits of a window with a percentage.
func (w *scheduleWindow) scale(base limiter.Limit, tiers map[string]Variant, percent int64, at string,
	ps *field.Problems) {
	scaled := func(l limiter.Limit, whose string) limiter.Limit {
		l.Count, l.Burst = scaleUnits(l.Count, percent), scaleUnits(l.Burst, percent)
		for _, p := range l.Problems() {
			ps.Add(at+".percent", "makes %s of %s too large: %s %s", p.Field, whose, p.Field, p.Message)
		}
		return l
	}
	w.own = scaled(base, "the rule")
	if tiers == nil {
		return
	}
	w.tiers = make(map[string]Variant, len(tiers))
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		v := tiers[name]
		if !v.Unlimited && v.Limit.Algorithm != 0 {
			v.Limit = scaled(v.Limit, fmt.Sprintf("tier %q", name))
		}
		w.tiers[name] = v
	}
}

// scaleUnits returns a percentage of units, rounded down, but at least 1 if both are positive. The
// product fits: 2^53 times MaxSchedulePercent is below 2^63.
func scaleUnits(units, percent int64) int64 {
	n := units * percent / wholePercent
	if n == 0 && units > 0 && percent > 0 {
		return 1
	}
	return n
}

// apply sets p to the schedule's limits at an instant and narrows p to the period in which they do
// not change. Between two clock changes of the zone the wall clock runs evenly, so the period ends
// at the next start or end of a window, at midnight, or at the next clock change.
func (s *schedule) apply(p *phase, now int64) {
	t := time.UnixMilli(now).In(s.zone)
	weekday := (int(t.Weekday()) + 6) % 7
	ofDay := int64(t.Hour()*3600+t.Minute()*60+t.Second())*1000 + int64(t.Nanosecond()/1e6)
	minute := int(ofDay / 60_000)
	before, after := int64(0), int64(dayMinutes)*60_000
	edge := func(m int) {
		switch ms := int64(m) * 60_000; {
		case ms <= ofDay:
			before = max(before, ms)
		default:
			after = min(after, ms)
		}
	}
	for i := range s.windows {
		w := &s.windows[i]
		edge(w.from)
		edge(w.to)
		if p.window < 0 && w.contains(weekday, minute) {
			p.window, p.own, p.tiers = i, w.own, w.tiers
		}
	}
	p.narrow(now-ofDay+before, now-ofDay+after)
	p.narrow(zoneBounds(t))
}

// narrow intersects p's period with another.
func (p *phase) narrow(from, until int64) {
	p.from, p.until = max(p.from, from), min(p.until, until)
}

// zoneBounds returns the period around t without a clock change.
func zoneBounds(t time.Time) (from, until int64) {
	start, end := t.ZoneBounds()
	from, until = MinInstant, MaxInstant
	if !start.IsZero() {
		from = start.UnixMilli()
	}
	if !end.IsZero() {
		until = end.UnixMilli()
	}
	return from, until
}
