package rules

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// clockSegment is a time, in ms since the epoch, in which a zone has one offset from UTC.
type clockSegment struct{ from, until, offset int64 }

// segmentsOf finds the offsets of a zone by reading its wall clock at every minute.
func segmentsOf(zone *time.Location, from, until time.Time) (out []clockSegment) {
	for at := from.UnixMilli(); at < until.UnixMilli(); at += 60_000 {
		_, seconds := time.UnixMilli(at).In(zone).Zone()
		offset := int64(seconds) * 1000
		if n := len(out); n > 0 && out[n-1].offset == offset {
			out[n-1].until = at + 60_000
			continue
		}
		out = append(out, clockSegment{at, at + 60_000, offset})
	}
	return out
}

// reached is the first instant at which the wall clock shows a time or a later one.
func reached(segments []clockSegment, wall int64) int64 {
	for _, s := range segments {
		if at := max(s.from, wall-s.offset); at < s.until {
			return at
		}
	}
	return MaxInstant
}

// modelStarts lists when the periods of a calendar begin, by walking over all dates.
func modelStarts(c *Calendar, segments []clockSegment) (starts []int64) {
	first, last := segments[0].from, segments[len(segments)-1].until
	if c.Every == EveryHour {
		for i, s := range segments {
			if i > 0 {
				starts = append(starts, s.from)
			}
			for at := s.from; at < s.until; at += 60_000 {
				if (at+s.offset)%3_600_000 == 0 {
					starts = append(starts, at)
				}
			}
		}
		return slices.Compact(starts)
	}
	size := map[string]int{EveryMonth: 1, EveryQuarter: 3, EveryYear: 12}[c.Every]
	at, _ := time.Parse("15:04", max(c.At, "00:00"))
	for day := time.UnixMilli(first).UTC().Truncate(24 * time.Hour); day.UnixMilli() < last; day = day.AddDate(0, 0, 1) {
		begins := true
		switch c.Every {
		case EveryWeek:
			begins = (int(day.Weekday())+6)%7+1 == max(1, int(c.AnchorDay))
		case EveryMonth, EveryQuarter, EveryYear:
			lastDay := time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
			begins = day.Day() == min(max(1, int(c.AnchorDay)), lastDay) &&
				(int(day.Month())-max(1, int(c.AnchorMonth))+12)%size == 0
		}
		if begins {
			wall := day.Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute)
			starts = append(starts, reached(segments, wall.UnixMilli()))
		}
	}
	return slices.Compact(starts)
}

// In zones whose clocks change, at instants of fifteen years and beside every beginning: the calendar and a model that
// reads the wall clock minute by minute find the same periods.
func TestCalendar_AgreesWithAModelThatReadsTheWallClock(t *testing.T) {
	calendars := []Calendar{
		{Every: EveryHour}, {Every: EveryDay}, {Every: EveryDay, At: "00:30"}, {Every: EveryDay, At: "02:00"},
		{Every: EveryDay, At: "02:15"}, {Every: EveryDay, At: "05:30"}, {Every: EveryDay, At: "23:59"},
		{Every: EveryWeek, AnchorDay: 7, At: "01:45"}, {Every: EveryWeek, AnchorDay: 1}, {Every: EveryWeek, AnchorDay: 5},
		{Every: EveryMonth, AnchorDay: 30, At: "02:30"}, {Every: EveryMonth, AnchorDay: 31}, {Every: EveryMonth, At: "05:30"},
	}
	for _, day := range []int64{1, 29, 30, 31} {
		for _, month := range []int64{1, 2, 3, 11} {
			calendars = append(calendars, Calendar{Every: EveryQuarter, AnchorDay: day, AnchorMonth: month, At: "02:30"},
				Calendar{Every: EveryYear, AnchorDay: day, AnchorMonth: month, At: "02:30"})
		}
	}
	calendars = append(calendars, Calendar{Every: EveryYear, AnchorDay: 29, AnchorMonth: 2},
		Calendar{Every: EveryYear, AnchorDay: 30, AnchorMonth: 12, At: "12:00"}, // a date that Apia skipped in 2011
		Calendar{Every: EveryQuarter, AnchorDay: 31, AnchorMonth: 12})
	random := rand.New(rand.NewPCG(51, 2)) //nolint:gosec // a fixed sequence is wanted
	for _, name := range []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu",
		"America/Havana",
	} {
		t.Run(name, func(t *testing.T) {
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			segments := segmentsOf(zone, time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC),
				time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
			for i := range calendars {
				c := calendars[i].compiled(t, zone)
				starts := modelStarts(&calendars[i], segments)
				low, _ := slices.BinarySearch(starts, time.Date(2008, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
				high, _ := slices.BinarySearch(starts, time.Date(2022, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
				try := func(at int64) {
					n, found := slices.BinarySearch(starts, at)
					if !found {
						n--
					}
					if from, until := c.around(at); from != starts[n] || until != starts[n+1] {
						t.Fatalf("%+v at %s: got %s to %s, want %s to %s", calendars[i], inZone(at, zone), inZone(from, zone),
							inZone(until, zone), inZone(starts[n], zone), inZone(starts[n+1], zone))
					}
				}
				step := 1 + (high-low)/4000 // of the many beginnings of hours, some
				for n := low; n < high; n += step {
					try(starts[n])
					try(starts[n] - 1)
					try(starts[n] + random.Int64N(starts[n+1]-starts[n]))
				}
				for _, s := range segments { // and around every change of clocks
					for at := s.from - 7_200_000; at <= s.from+7_200_000; at += 900_000 {
						if at > starts[low] && at < starts[high] {
							try(at)
							try(at - 1)
						}
					}
				}
			}
		})
	}
}

func inZone(at int64, zone *time.Location) string {
	return time.UnixMilli(at).In(zone).Format(time.RFC3339Nano)
}
