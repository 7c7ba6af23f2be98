package rules

import "time"

// calendar is a rule's Calendar, compiled: it cuts time into days, weeks or
// months of a zone.
type calendar struct {
	every  string
	zone   *time.Location
	anchor int
}

// apply makes the limits of p those of the period that contains an instant:
// Anchor is its beginning and Window its length. All nodes agree on both, as
// they do not depend on the instant, so the bucket's consumption is read in the
// same period by whichever node asks.
//
// The period is chosen by the node's clock and read by the store's. Where the
// store's clock is a little ahead, it is in the window after Window, which
// begins exactly where the next period does: a new, empty one. Where it is a
// little behind at the beginning of a period, it is in the window before
// Anchor, which ends exactly where the period before did and holds what was
// spent in that. The one thing that can be missed there is consumption older
// than the new period is long (a month of 31 days that is followed by a shorter
// one), for as long as the clocks differ.
func (c *calendar) apply(p *phase, now int64) {
	from, until := c.period(now)
	p.narrow(from, until)
	p.own.Anchor, p.own.Window = from, until-from
	if p.tiers == nil {
		return
	}
	tiers := make(map[string]variant, len(p.tiers))
	for name, v := range p.tiers {
		v.limit.Anchor, v.limit.Window = from, until-from
		tiers[name] = v
	}
	p.tiers = tiers
}

// period gives the beginning and the end of the period that contains an
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
