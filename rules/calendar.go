package rules

import (
	"time"

	"sluice/rules/entries"
)

// Period is a kind of period that a calendar has. Its lengths differ: a month has 28 to 31 days, and a day with a clock
// change 23 or 25 hours. So it has the same name at any time.
type Period struct {
	// Every is the name in Calendar, which is also what people say after per: "month".
	Every string
	// Unit and Multiplier name it in the protocol and the files of envoyproxy/ratelimit: month, 1.
	Unit       entries.Unit
	Multiplier int64

	nominal   int64 // the window_ms of a rule: the longest period, ignoring clock changes
	lastStart int64 // the highest anchor_day, 0 if it has none
}

// periods lists the periods of calendars. It must not be changed.
var periods = [...]Period{
	{Every: EveryDay, Unit: entries.UnitNamed("day"), Multiplier: 1, nominal: nominalDay},
	{
		Every: EveryWeek, Unit: entries.UnitNamed("week"), Multiplier: 1, nominal: nominalWeek,
		lastStart: lastAnchorDayOfWeek,
	},
	{
		Every: EveryMonth, Unit: entries.UnitNamed("month"), Multiplier: 1, nominal: nominalMonth,
		lastStart: lastAnchorDayOfMonth,
	},
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

// calendar is the compiled Calendar of a rule: it divides time into days, weeks or months of a
// time zone.
type calendar struct {
	every  string
	zone   *time.Location
	anchor int
}

// apply sets the limits of p to those of the period that contains an instant: Anchor is its start
// and Window its length. Neither depends on the instant, so all nodes agree on both and read the
// bucket's consumption in the same period.
//
// The node's clock chooses the period, and the store's clock reads it. If the store's clock is
// a little ahead, it is in the window after Window, which starts exactly where the next period
// does: a new, empty one. If it is a little behind at the start of a period, it is in the window
// before Anchor, which ends exactly where the previous period did and holds its consumption.
// Only consumption older than the length of the new period can be missed (a month of 31 days
// followed by a shorter one), and only while the clocks differ.
func (c *calendar) apply(p *phase, now int64) {
	from, until := c.period(now)
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

// period returns the beginning and the end of the period that contains an
// instant, in ms since the epoch. Clock changes make days of 23 or 25 hours,
// or of none, and may bring a date back; the beginnings stay in order.
func (c *calendar) period(now int64) (from, until int64) {
	y, m, d := time.UnixMilli(now).In(c.zone).Date()
	n := 0 // periods from the one of that date
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

// start is the beginning of the period n after the one that a date is in.
func (c *calendar) start(y int, m time.Month, d, n int) int64 {
	switch c.every {
	case EveryDay:
		return c.midnight(y, m, d+n)
	case EveryWeek:
		weekday := (int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()) + 6) % 7
		return c.midnight(y, m, d-(weekday-(c.anchor-1)+7)%7+7*n)
	}
	first := time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	if d < min(c.anchor, daysIn(first)) {
		n--
	}
	first = first.AddDate(0, n, 0)
	return c.midnight(first.Year(), first.Month(), min(c.anchor, daysIn(first)))
}

// daysIn is the number of days of the month that begins at first.
func daysIn(first time.Time) int { return first.AddDate(0, 1, -1).Day() }

// midnight is the first instant of a date in the zone. A clock change may skip
// midnight, and then the date begins with the change; or repeat it, and then the
// first one counts.
func (c *calendar) midnight(y int, m time.Month, d int) int64 {
	wall := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).UnixMilli()
	near := time.Date(y, m, d, 0, 0, 0, 0, c.zone)
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
