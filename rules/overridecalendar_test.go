package rules

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/rules/field"
)

// limitsOf are the limits of a rule with a calendar.
func limitsOf(t rapid.TB, c *Calendar) (*Rule, *Limits) {
	t.Helper()
	r := &Rule{Algorithm: "fixed_window", Limit: 3, Calendar: c}
	r.Normalize()
	l, err := r.LimiterLimit()
	if err != nil {
		t.Fatal(err)
	}
	var ps field.Problems
	limits := validateLimits(r, l, &ps)
	if len(ps) > 0 {
		t.Fatalf("%+v: %v", c, ps)
	}
	return r, &limits
}

// Whatever is edited and when: the period in which an edit happens begins where it began before, and ends where the
// first period of the new calendar begins. After that, periods are those of the calendar.
func TestBeginCalendar_TheEditedPeriodGoesOn(t *testing.T) {
	calendars := map[string][]*OverrideCalendar{
		EveryDay:   {nil, {At: "05:30"}, {Zone: "Asia/Tokyo"}, {Zone: "Europe/Berlin", At: "02:30"}},
		EveryWeek:  {nil, {AnchorDay: 7}, {AnchorDay: 3, At: "23:59"}},
		EveryMonth: {nil, {AnchorDay: 15}, {AnchorDay: 31, Zone: "America/New_York"}, {At: "12:00"}},
		EveryYear:  {nil, {AnchorMonth: 4}, {AnchorMonth: 12, AnchorDay: 31}, {AnchorDay: 2}},
	}
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.SampledFrom([]string{EveryDay, EveryWeek, EveryMonth, EveryYear}).Draw(t, "every")
		r, l := limitsOf(t, &Calendar{Every: every, Zone: "UTC"})
		now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		period := func(o *Override, at int64) (from, until int64) {
			own := l.CalendarOf(l.Base(at), orEmpty(o.Calendar), o.First, at)
			return own.Anchor, own.Anchor + own.Window
		}
		var was *Override
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			now += rapid.Int64Range(1, r.WindowMS).Draw(t, "passed")
			before := was
			if before == nil {
				before = &Override{}
			}
			o := &Override{Calendar: rapid.SampledFrom(calendars[every]).Draw(t, "calendar")}
			o.BeginCalendar(was, r, time.UnixMilli(now))
			oldFrom, _ := period(before, now)
			from, until := period(o, now)
			_, next := period(&Override{Calendar: o.Calendar}, now)
			if from != oldFrom || until != next {
				t.Fatalf("%+v after %+v at %d: the period is %d to %d, want %d to %d", o.Calendar, before.Calendar, now, from,
					until, oldFrom, next)
			}
			if f, u := period(o, until-1); f != from || u != until {
				t.Fatalf("before its end the period is %d to %d, want %d to %d", f, u, from, until)
			}
			for _, at := range []int64{until, until + r.WindowMS} {
				f, u := period(o, at)
				if wantF, wantU := period(&Override{Calendar: o.Calendar}, at); f != wantF || u != wantU {
					t.Fatalf("after it: %d to %d, want %d to %d", f, u, wantF, wantU)
				}
			}
			was = o
		}
	})
}

func TestParseOverrideCalendar_ReadsWhatStringWrites(t *testing.T) {
	for _, c := range []OverrideCalendar{
		{AnchorDay: 15}, {Zone: "Europe/Berlin", AnchorDay: 31, AnchorMonth: 4, At: "05:30"}, {At: "00:00"},
	} {
		got, err := ParseOverrideCalendar(c.String())
		if err != nil || *got != c {
			t.Errorf("%q: got %+v, %v", c.String(), got, err)
		}
	}
	for _, bad := range []string{"15", "anchor_day", "anchor_day=", "anchor_day=x", "anchor_day=0", "every=month",
		"zone=UTC,at=05:30 x"} {
		if got, err := ParseOverrideCalendar(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func TestOverrideProblems_OfCalendars(t *testing.T) {
	limit := int64(5)
	monthly := &Calendar{Every: EveryMonth}
	for name, c := range map[string]struct {
		calendar *Calendar
		o        Override
		field    string
	}{
		"alone":         {monthly, Override{Calendar: &OverrideCalendar{AnchorDay: 15}}, ""},
		"with a limit":  {monthly, Override{Limit: &limit, Calendar: &OverrideCalendar{At: "05:30"}}, ""},
		"empty":         {monthly, Override{Calendar: &OverrideCalendar{}}, "calendar"},
		"unlimited":     {monthly, Override{Unlimited: true, Calendar: &OverrideCalendar{AnchorDay: 2}}, "calendar"},
		"blocked":       {monthly, Override{Blocked: true, Calendar: &OverrideCalendar{AnchorDay: 2}}, "calendar"},
		"no zone":       {monthly, Override{Calendar: &OverrideCalendar{Zone: "Mars"}}, "calendar.zone"},
		"no time":       {monthly, Override{Calendar: &OverrideCalendar{At: "24:00"}}, "calendar.at"},
		"no day":        {monthly, Override{Calendar: &OverrideCalendar{AnchorDay: 32}}, "calendar.anchor_day"},
		"below":         {monthly, Override{Calendar: &OverrideCalendar{AnchorDay: -1}}, "calendar.anchor_day"},
		"foreign month": {monthly, Override{Calendar: &OverrideCalendar{AnchorMonth: 4}}, "calendar.anchor_month"},
		"day of a day": {&Calendar{Every: EveryDay}, Override{Calendar: &OverrideCalendar{AnchorDay: 4}},
			"calendar.anchor_day"},
		"time of an hour": {&Calendar{Every: EveryHour}, Override{Calendar: &OverrideCalendar{At: "05:30"}}, "calendar.at"},
		"no calendar":     {nil, Override{Limit: &limit, Calendar: &OverrideCalendar{AnchorDay: 4}}, "calendar"},
	} {
		r := &Rule{Algorithm: "fixed_window", Limit: 3, WindowMS: 60_000, Calendar: c.calendar}
		if c.calendar != nil {
			r.WindowMS = 0
		}
		r.Normalize()
		var got string
		for _, p := range c.o.Problems(r, time.Now()) {
			got += p.Field
		}
		if got != c.field {
			t.Errorf("%s: got problems of %q, want %q", name, got, c.field)
		}
	}
}
