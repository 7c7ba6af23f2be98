package rules

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// normalizePolicy is Normalize for the policy fields. What it changes it
// replaces, because the caller may share what a rule points to.
func (r *Rule) normalizePolicy() {
	r.ChargeOn = orDefault(r.ChargeOn, ChargeOnRequest)
	r.OverLimit = orDefault(r.OverLimit, OverLimitDeny)
	r.HotKeys = orDefault(r.HotKeys, HotKeysExact)
	r.Pool, r.Priority, r.When = trimOptional(r.Pool), trimOptional(r.Priority), trimOptional(r.When)
	r.ActiveFrom, r.ActiveUntil = wholeMillis(r.ActiveFrom), wholeMillis(r.ActiveUntil)
	if len(r.Tiers) == 0 {
		r.Tiers = nil
	}
	if r.Schedule != nil {
		r.Schedule = r.Schedule.normalized()
	}
	if r.Calendar != nil {
		r.Calendar = r.Calendar.normalized()
		if r.WindowMS == 0 {
			r.WindowMS = r.Calendar.nominalWindow()
		}
	}
	if r.OverLimit == OverLimitDefer {
		d := Defer{}
		if r.Defer != nil {
			d = *r.Defer
		}
		if d.MaxItems == 0 {
			d.MaxItems = DefaultDeferItems
		}
		if d.MaxAgeMS == 0 {
			d.MaxAgeMS = DefaultDeferAge
		}
		r.Defer = &d
	}
	if r.Candidate != nil {
		c := *r.Candidate
		c.Algorithm, c.Align = strings.TrimSpace(c.Algorithm), trimOptional(c.Align)
		r.Candidate = &c
	}
}

// wholeMillis is a time as it is stored: UTC, whole milliseconds.
func wholeMillis(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := time.UnixMilli(t.UnixMilli()).UTC()
	return &u
}

var weekdays = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

func (s *Schedule) normalized() *Schedule {
	out := Schedule{Zone: orDefault(s.Zone, ZoneUTC), Windows: slices.Clone(s.Windows)}
	for i := range out.Windows {
		w := &out.Windows[i]
		w.From, w.To = strings.TrimSpace(w.From), strings.TrimSpace(w.To)
		w.Days = normalDays(w.Days)
	}
	return &out
}

// normalDays puts the days of the week in order, Monday first, and makes all of
// them none. A list with anything else in it, or a day twice, stays for Validate
// to refuse.
func normalDays(days []string) []string {
	if len(days) == 0 {
		return nil
	}
	out := make([]string, 0, len(days))
	for _, name := range weekdays {
		for _, d := range days {
			if strings.ToLower(strings.TrimSpace(d)) == name {
				out = append(out, name)
			}
		}
	}
	if len(out) != len(days) {
		return slices.Clone(days)
	}
	if slices.Equal(out, weekdays) {
		return nil
	}
	return out
}

func (c *Calendar) normalized() *Calendar {
	out := *c
	out.Every, out.Zone = strings.TrimSpace(c.Every), orDefault(c.Zone, ZoneUTC)
	if out.AnchorDay == 0 && out.Every != EveryDay {
		out.AnchorDay = firstAnchorDay
	}
	return &out
}

// nominalWindow is the window_ms of a rule with this calendar: its longest
// period but for clock changes, 0 for an unknown one.
func (c *Calendar) nominalWindow() int64 {
	switch c.Every {
	case EveryDay:
		return nominalDay
	case EveryWeek:
		return nominalWeek
	case EveryMonth:
		return nominalMonth
	}
	return 0
}

// clonePolicy replaces every policy field that c shares with its original.
func (r *Rule) clonePolicy() {
	r.ElasticPercent, r.Pool, r.Priority = clonePtr(r.ElasticPercent), clonePtr(r.Pool), clonePtr(r.Priority)
	r.ActiveFrom, r.ActiveUntil, r.When = clonePtr(r.ActiveFrom), clonePtr(r.ActiveUntil), clonePtr(r.When)
	r.Calendar, r.Defer = clonePtr(r.Calendar), clonePtr(r.Defer)
	r.RetryJitterMS, r.HotRaisePercent = clonePtr(r.RetryJitterMS), clonePtr(r.HotRaisePercent)
	if r.Tiers != nil {
		r.Tiers = maps.Clone(r.Tiers)
		for name, t := range r.Tiers {
			t.Limit, t.Burst = clonePtr(t.Limit), clonePtr(t.Burst)
			r.Tiers[name] = t
		}
	}
	if r.Schedule != nil {
		s := Schedule{Zone: r.Schedule.Zone, Windows: slices.Clone(r.Schedule.Windows)}
		for i := range s.Windows {
			w := &s.Windows[i]
			w.Days = slices.Clone(w.Days)
			w.Percent, w.Limit, w.Burst = clonePtr(w.Percent), clonePtr(w.Limit), clonePtr(w.Burst)
		}
		r.Schedule = &s
	}
	if r.Candidate != nil {
		c := *r.Candidate
		c.Limit, c.WindowMS, c.Burst = clonePtr(c.Limit), clonePtr(c.WindowMS), clonePtr(c.Burst)
		c.Align, c.AnchorMS, c.Buckets = clonePtr(c.Align), clonePtr(c.AnchorMS), clonePtr(c.Buckets)
		r.Candidate = &c
	}
}
