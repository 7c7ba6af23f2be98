package rules

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules/field"
)

// OverrideCalendar replaces parts of the calendar of an override's rule. An omitted member, and always Every, comes
// from the rule.
type OverrideCalendar struct {
	// Zone, AnchorDay, AnchorMonth and At are as in Calendar.
	Zone        string `json:"zone,omitempty"`
	AnchorDay   int64  `json:"anchor_day,omitempty"`
	AnchorMonth int64  `json:"anchor_month,omitempty"`
	At          string `json:"at,omitempty"`
}

var overrideCalendarFields = []field.Field[OverrideCalendar]{
	{Name: "zone", At: func(c *OverrideCalendar) any { return &c.Zone }},
	{Name: "anchor_day", At: func(c *OverrideCalendar) any { return &c.AnchorDay }, NotZero: true},
	{Name: "anchor_month", At: func(c *OverrideCalendar) any { return &c.AnchorMonth }, NotZero: true},
	{Name: "at", At: func(c *OverrideCalendar) any { return &c.At }},
}

// OverrideCalendarFields is Fields for calendars of overrides.
func OverrideCalendarFields() []field.Field[OverrideCalendar] { return overrideCalendarFields }

// FirstPeriod is the period of a key during which the calendar of its override was edited, in ms since the epoch. It
// began by what was in force before, and ends with the first period of the new calendar. So the count goes on. The zero
// value is none.
type FirstPeriod struct {
	From  int64 `json:"from"`
	Until int64 `json:"until"`
}

// over returns the calendar of a rule with the members that o replaces. Nil replaces nothing.
func (o *OverrideCalendar) over(c *Calendar) *Calendar {
	out := *c
	if o != nil {
		out.Zone, out.AnchorDay = cmp.Or(o.Zone, c.Zone), cmp.Or(o.AnchorDay, c.AnchorDay)
		out.AnchorMonth, out.At = cmp.Or(o.AnchorMonth, c.AnchorMonth), cmp.Or(o.At, c.At)
	}
	return &out
}

// validate checks the calendar of an override of a rule.
func (o *OverrideCalendar) validate(r *Rule, ps *field.Problems) {
	const at = "calendar."
	if r.Calendar.Period() == nil {
		ps.Add("calendar", "applies only to overrides of a rule with a calendar; leave it out")
		return
	}
	if *o == (OverrideCalendar{}) {
		ps.Add("calendar", "must have zone, anchor_day, anchor_month or at")
	}
	c := o.over(r.Calendar)
	zone, err := loadZone(c.Zone)
	if err != nil {
		ps.Add(at+"zone", "%s", err)
	}
	c.compile(zone, at, ps)
}

// replaced returns the calendar with the members that o replaces. Members that do not fit the rule's period, because
// the rule was edited since, are ignored.
func (c *calendar) replaced(o *OverrideCalendar) calendar {
	out := *c
	if zone, err := loadZone(o.Zone); err == nil {
		out.zone = zone
	}
	if o.AnchorDay > 0 && o.AnchorDay <= c.period.lastDay {
		out.day = int(o.AnchorDay)
	}
	if o.AnchorMonth > 0 && o.AnchorMonth <= monthsOfYear && c.period.months > 1 {
		out.month = int(o.AnchorMonth)
	}
	if minutes, ok := parseClock(o.At, false); ok {
		out.minutes = minutes
	}
	return out
}

// periodOf returns the period of a key with an override at an instant, in ms since the epoch.
func (c *calendar) periodOf(o *OverrideCalendar, first FirstPeriod, now int64) (from, until int64) {
	replaced := c.replaced(o)
	from, until = replaced.around(now)
	if first.From <= now && until == first.Until {
		from = first.From
	}
	return from, until
}

// CalendarOf returns the limit of a key, which holds at an instant (ms since the epoch), in the periods of the
// calendar of its override. Without a calendar of the rule it returns the limit as it is.
func (l *Limits) CalendarOf(limit limiter.Limit, o *OverrideCalendar, first FirstPeriod, now int64) limiter.Limit {
	if l.timed == nil || l.timed.calendar == nil {
		return limit
	}
	from, until := l.timed.calendar.periodOf(o, first, now)
	limit.Anchor, limit.Window = from, until-from
	return limit
}

// BeginCalendar sets First of an override of rule r that is stored in place of was, nil for a new one, at an instant.
// The key's period goes on until the first one of the new calendar begins: nothing that it counts is lost.
func (o *Override) BeginCalendar(was *Override, r *Rule, at time.Time) {
	o.First = FirstPeriod{}
	if r.Calendar == nil {
		return
	}
	var ps field.Problems
	c := validateCalendar(r, &ps)
	if c == nil {
		return
	}
	now := at.UnixMilli()
	if was == nil {
		was = &Override{}
	}
	from, _ := c.periodOf(orEmpty(was.Calendar), was.First, now)
	natural, until := c.periodOf(orEmpty(o.Calendar), FirstPeriod{}, now)
	if from != natural {
		o.First = FirstPeriod{From: from, Until: until}
	}
}

func orEmpty(c *OverrideCalendar) *OverrideCalendar {
	if c == nil {
		return &OverrideCalendar{}
	}
	return c
}

// String returns the members as ParseOverrideCalendar reads them: "zone=Europe/Berlin anchor_day=15".
func (o OverrideCalendar) String() string {
	var parts []string
	for i := range overrideCalendarFields {
		f := &overrideCalendarFields[i]
		if v := f.Value(&o); v != "" && v != int64(0) {
			parts = append(parts, fmt.Sprintf("%s=%v", f.Name, v))
		}
	}
	return strings.Join(parts, " ")
}

// ParseOverrideCalendar reads members in the form of files and of the command line: name=value, divided by blanks. The
// error is a sentence about the text without a subject.
func ParseOverrideCalendar(text string) (*OverrideCalendar, error) {
	out := &OverrideCalendar{}
	for _, part := range strings.Fields(text) {
		name, value, _ := strings.Cut(part, "=")
		f := field.Named(overrideCalendarFields, name)
		if f == nil || value == "" {
			return nil, errors.New("must be like zone=Europe/Berlin anchor_day=15 anchor_month=4 at=05:30")
		}
		switch p := f.At(out).(type) {
		case *string:
			*p = value
		case *int64:
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n == 0 {
				return nil, fmt.Errorf("must have a positive integer as %s", name)
			}
			*p = n
		}
	}
	return out, nil
}
