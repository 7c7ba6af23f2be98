package rules

import (
	"testing"
	"time"

	"sluice/rules/field"
)

// compiled is the calendar in a zone, without one that it names.
func (c *Calendar) compiled(t testing.TB, zone *time.Location) *calendar {
	t.Helper()
	var ps field.Problems
	out := c.normalized().compile(zone, "", &ps)
	if len(ps) > 0 {
		t.Fatalf("%+v: %v", c, ps)
	}
	return out
}

func calendarOf(t testing.TB, every, zone string, anchor int) *calendar {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return (&Calendar{Every: every, AnchorDay: int64(anchor)}).compiled(t, loc)
}

// Every day from 1970 to 2100 lies in the month that begins on the anchor day,
// or on the last day of a month too short for it.
func TestCalendar_MonthsFromEveryAnchorDay(t *testing.T) {
	for _, anchor := range []int{1, 15, 28, 29, 30, 31} {
		c := calendarOf(t, EveryMonth, "UTC", anchor)
		var from, until time.Time // walked by the calendar on the wall
		for day := time.Date(1970, 3, 1, 0, 0, 0, 0, time.UTC); day.Year() <= 2100; day = day.AddDate(0, 0, 1) {
			last := time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
			if day.Day() == min(anchor, last) {
				from = day
				next := time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
				nextLast := time.Date(next.Year(), next.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
				until = next.AddDate(0, 0, min(anchor, nextLast)-1)
			}
			if from.IsZero() {
				continue
			}
			for _, at := range []int64{day.UnixMilli(), day.UnixMilli() + nominalDay - 1} {
				if f, u := c.around(at); f != from.UnixMilli() || u != until.UnixMilli() {
					t.Fatalf("anchor %d, %s: got %s to %s, want %s to %s", anchor, day,
						time.UnixMilli(f).UTC(), time.UnixMilli(u).UTC(), from, until)
				}
			}
		}
	}
}

// In any zone, every few hours through years with clock changes: the instant is in
// its period, periods follow each other without a gap, and each begins with the
// first instant of a date.
func TestCalendar_PeriodsTileTimeInEveryZone(t *testing.T) {
	for _, zone := range []string{
		"Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe",
		"America/Sao_Paulo", "Africa/Cairo", "America/Havana", "Asia/Beirut", "Pacific/Apia", "America/Scoresbysund",
		"Asia/Gaza",
	} {
		for _, c := range []*calendar{
			calendarOf(t, EveryDay, zone, 0), calendarOf(t, EveryWeek, zone, 1), calendarOf(t, EveryWeek, zone, 7),
			calendarOf(t, EveryMonth, zone, 31), calendarOf(t, EveryMonth, zone, 1),
		} {
			var from, until int64
			for _, year := range []int{2011, 2018, 2024, 2026} {
				from, until = 0, 0
				for h := range 366 * 24 / 5 {
					at := time.Date(year, 1, 1, 5*h, 0, 0, 0, time.UTC).UnixMilli()
					f, u := c.around(at)
					if at < f || at >= u {
						t.Fatalf("%s %s: %d is not in %d to %d", zone, c.period.Every, at, f, u)
					}
					if until != 0 && f != until && u != until {
						t.Fatalf("%s %s at %s: a period ends at %d, the next begins at %d", zone, c.period.Every,
							time.UnixMilli(at).UTC(),
							until, f)
					}
					if f == from && u == until {
						continue // nothing below depends on the hour
					}
					if f2, u2 := c.around(f); f2 != f || u2 != u {
						t.Fatalf("%s %s: the first instant of %d to %d is in %d to %d", zone, c.period.Every, f, u, f2, u2)
					}
					if f2, u2 := c.around(u - 1); f2 != f || u2 != u {
						t.Fatalf("%s %s: the last instant of %d to %d is in %d to %d", zone, c.period.Every, f, u, f2, u2)
					}
					before, first := time.UnixMilli(f-1).In(c.zone), time.UnixMilli(f).In(c.zone)
					if before.Day() == first.Day() {
						t.Fatalf("%s %s: a period begins at %s, inside a day", zone, c.period.Every, first)
					}
					from, until = f, u
				}
			}
		}
	}
}
