package rules

import (
	"cmp"
	"time"

	"sluice/rules/entries"
	"sluice/rules/field"
)

// Period is a kind of period that a calendar has. Its lengths differ: a month has 28 to 31 days, and a day with a clock
// change 23 or 25 hours. So it has the same name at any time.
type Period struct {
	// Every is the name in Calendar, which is also what people say after per: "month".
	Every string
	// Unit and Multiplier name it in the protocol and the files of envoyproxy/ratelimit: month, 1.
	Unit       entries.Unit
	Multiplier int64

	nominal int64 // the window_ms of a rule: the longest period, ignoring clock changes
	lastDay int64 // the highest anchor_day, 0 if it has none
	months  int   // how many months it has, 0 if it is shorter
}

// periods lists the periods of calendars. It must not be changed.
var periods = [...]Period{
	{Every: EveryHour, Unit: entries.UnitNamed("hour"), Multiplier: 1, nominal: nominalHour},
	{Every: EveryDay, Unit: entries.UnitNamed("day"), Multiplier: 1, nominal: nominalDay},
	{Every: EveryWeek, Unit: entries.UnitNamed("week"), Multiplier: 1, nominal: nominalWeek, lastDay: 7},
	{Every: EveryMonth, Unit: entries.UnitNamed("month"), Multiplier: 1, nominal: nominalMonth, lastDay: 31, months: 1},
	{
		Every: EveryQuarter, Unit: entries.UnitNamed("month"), Multiplier: 3, nominal: nominalQuarter, lastDay: 31,
		months: 3,
	},
	{Every: EveryYear, Unit: entries.UnitNamed("year"), Multiplier: 1, nominal: nominalYear, lastDay: 31, months: 12},
}

// everyNames lists the names of the periods.
func everyNames() []string {
	names := make([]string, len(periods))
	for i := range periods {
		names[i] = periods[i].Every
	}
	return names
}

// Period returns the period of a calendar, nil for no calendar and for an unknown one.
func (c *Calendar) Period() *Period {
	for i := range periods {
		if c != nil && periods[i].Every == c.Every {
			return &periods[i]
		}
	}
	return nil
}

const (
	monthsOfYear = 12
	// midnight is the At of a calendar that leaves it out.
	midnight = "00:00"
)

// compile validates the anchors of a calendar and returns it compiled, nil if its period is unknown, which is reported
// elsewhere. The names of fields in problems begin with at.
func (c *Calendar) compile(zone *time.Location, at string, ps *field.Problems) *calendar {
	p := c.Period()
	if p == nil {
		return nil
	}
	out := &calendar{period: p, zone: zone, day: int(c.AnchorDay), month: int(c.AnchorMonth)}
	foreign := func(name string, given bool) {
		if given {
			ps.Add(at+name, "does not apply to every %s; leave it out", p.Every)
		}
	}
	if p.lastDay > 0 {
		ps.Between(at+"anchor_day", &c.AnchorDay, 1, p.lastDay)
	} else {
		foreign("anchor_day", c.AnchorDay != 0)
	}
	if p.months > 1 {
		ps.Between(at+"anchor_month", &c.AnchorMonth, 1, monthsOfYear)
	} else {
		foreign("anchor_month", c.AnchorMonth != 0)
	}
	if p.Every == EveryHour {
		foreign("at", c.At != "")
		return out
	}
	minutes, ok := parseClock(cmp.Or(c.At, midnight), false)
	if !ok {
		ps.Add(at+"at", "must be a time of day from 00:00 to 23:59")
	}
	out.minutes = minutes
	return out
}

// calendar is the compiled Calendar of a rule: it divides time into periods of a time zone.
type calendar struct {
	period     *Period
	zone       *time.Location
	day, month int // anchors; 0 if the period has none
	minutes    int // the time of day at which a period begins
}

// apply sets the limits of p to the period that contains an instant: Anchor is its start and Window its length. Neither
// depends on the instant, so all nodes agree on both and read the bucket's consumption in the same period.
//
// The node's clock chooses the period, and the store's clock reads it. If the store's clock is
// a little ahead, it is in the window after Window, which starts exactly where the next period
// does: a new, empty one. If it is a little behind at the start of a period, it is in the window
// before Anchor, which ends exactly where the previous period did and holds its consumption.
// Only consumption older than the length of the new period can be missed (a month of 31 days
// followed by a shorter one), and only while the clocks differ.
func (c *calendar) apply(p *phase, now int64) {
	from, until := c.around(now)
	p.narrow(from, until)
	p.own.Anchor, p.own.Window = from, until-from
	if p.tiers == nil {
		return
	}
	tiers := make(map[string]Variant, len(p.tiers))
	for name, v := range p.tiers {
		v.Limit.Anchor, v.Limit.Window = from, until-from
		tiers[name] = v
	}
	p.tiers = tiers
}

// around returns the beginning and the end of the period that contains an
// instant, in ms since the epoch. Clock changes make days of 23 or 25 hours,
// or of none, and may bring a date back; the beginnings stay in order.
func (c *calendar) around(now int64) (from, until int64) {
	if c.period.Every == EveryHour {
		return c.hour(now)
	}
	y, m, d := time.UnixMilli(now).In(c.zone).Date()
	n := 0 // periods counted from the period of that date
	for {
		from, until = c.start(y, m, d, n), c.start(y, m, d, n+1)
		switch {
		case now < from:
			n--
		case now >= until:
			n++
		default:
			return from, until
		}
	}
}

// hour is around for hours. They begin where the wall clock shows a full hour, and where it is changed: an hour that
// comes twice is two periods, and none is longer than 60 minutes.
func (c *calendar) hour(now int64) (from, until int64) {
	t := time.UnixMilli(now)
	offset := offsetAt(t, c.zone)
	wall := now + offset
	from = now - ((wall%nominalHour)+nominalHour)%nominalHour
	until = from + nominalHour
	for at := t; ; {
		start, _ := at.In(c.zone).ZoneBounds()
		if start.IsZero() || start.UnixMilli() <= from {
			break
		}
		if at = start.Add(-1); offsetAt(at, c.zone) != offset {
			from = start.UnixMilli()
			break
		}
	}
	for at := t; ; {
		_, end := at.In(c.zone).ZoneBounds()
		if end.IsZero() || end.UnixMilli() >= until {
			return from, until
		}
		if at = end; offsetAt(at, c.zone) != offset {
			return from, end.UnixMilli()
		}
	}
}

// start returns the beginning of the nth period after the period of a date, or of a neighbouring one.
func (c *calendar) start(y int, m time.Month, d, n int) int64 {
	switch c.period.Every {
	case EveryDay:
		return c.begin(y, m, d+n)
	case EveryWeek:
		weekday := (int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()) + 6) % 7
		return c.begin(y, m, d-(weekday-(c.day-1)+7)%7+7*n)
	}
	into := 0 // months since one with which a period begins
	if c.month > 0 {
		into = (int(m) - c.month + monthsOfYear) % c.period.months
	}
	first := time.Date(y, m-time.Month(into), 1, 0, 0, 0, 0, time.UTC)
	if into == 0 && d < min(c.day, daysIn(first)) {
		n--
	}
	first = first.AddDate(0, n*c.period.months, 0)
	return c.begin(first.Year(), first.Month(), min(c.day, daysIn(first)))
}

// daysIn is the number of days of the month that begins at first.
func daysIn(first time.Time) int { return first.AddDate(0, 1, -1).Day() }

// begin returns the instant at which a period begins on a date. If a clock change skips that time of the wall clock,
// the period begins with the change. If the time occurs twice, the first one counts.
func (c *calendar) begin(y int, m time.Month, d int) int64 {
	wall := time.Date(y, m, d, 0, c.minutes, 0, 0, time.UTC).UnixMilli()
	near := time.Date(y, m, d, 0, c.minutes, 0, 0, c.zone)
	start, end := near.ZoneBounds()
	first, found := int64(0), false
	for _, t := range []time.Time{near, start, start.Add(-1), end} {
		if t.IsZero() { // no clock change on that side
			continue
		}
		at := wall - offsetAt(t, c.zone)
		if wallAt(at, c.zone) == wall && (!found || at < first) {
			first, found = at, true
		}
	}
	if found {
		return first
	}
	for _, change := range []time.Time{start, end} {
		if !change.IsZero() && wallAt(change.UnixMilli(), c.zone) >= wall && wallAt(change.UnixMilli()-1, c.zone) < wall {
			return change.UnixMilli()
		}
	}
	return near.UnixMilli()
}

// offsetAt is a zone's offset from UTC at t, in ms.
func offsetAt(t time.Time, zone *time.Location) int64 {
	_, seconds := t.In(zone).Zone()
	return int64(seconds) * 1000
}

// wallAt is what the wall clock shows at an instant, as ms since the epoch of a
// clock that is on UTC.
func wallAt(at int64, zone *time.Location) int64 {
	return at + offsetAt(time.UnixMilli(at), zone)
}
