package quantity

import "time"

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Length writes a length of time in at most two units: "216 ms", "2.6 s", "48 s", "1 min 35 s", "2 h 5 min", "3 days
// 4 h". What is below the last unit is left out.
func Length(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Millisecond:
		return "under 1 ms"
	case d < time.Second:
		return Amount(d.Milliseconds()) + " ms"
	case d < 10*time.Second:
		return Decimal(d.Truncate(100*time.Millisecond).Seconds()) + " s"
	case d < time.Minute:
		return two(d, time.Second, "s", 0, "")
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "min")
	case d < 2*day:
		return two(d, day, "day", time.Hour, "h")
	}
	return two(d, day, "days", time.Hour, "h")
}

// two writes a length in a unit, and the rest in a smaller one if there is one. A smaller unit of 0 is left out.
func two(d, unit time.Duration, name string, smaller time.Duration, its string) string {
	s := Amount(int64(d/unit)) + " " + name
	if smaller == 0 || d%unit < smaller {
		return s
	}
	return s + " " + Amount(int64(d%unit/smaller)) + " " + its
}

// Wait is Length rounded up: who waits that long does not come too early.
func Wait(d time.Duration) string {
	d = (d + time.Millisecond - 1).Truncate(time.Millisecond)
	for _, u := range []struct{ below, step time.Duration }{{10 * time.Second, 100 * time.Millisecond},
		{time.Hour, time.Second}, {day, time.Minute}} {
		if d >= time.Second && d < u.below {
			return Length((d + u.step - 1).Truncate(u.step))
		}
	}
	if d < time.Second {
		return Length(d)
	}
	return Length((d + time.Hour - 1).Truncate(time.Hour))
}

// periods are the units of Period, in ms.
var periods = []struct {
	ms   int64
	name string
}{{week.Milliseconds(), "week"}, {day.Milliseconds(), "day"}, {3_600_000, "hour"}, {60_000, "minute"}, {1000, "second"}}

// Period writes milliseconds as people say them after per: "minute", "15 minutes", or "1,500 ms" if they are no whole
// number of any larger unit.
func Period(ms int64) string {
	for _, u := range periods {
		switch {
		case ms == u.ms:
			return u.name
		case ms > u.ms && ms%u.ms == 0:
			return Plural(ms/u.ms, u.name)
		}
	}
	return Amount(ms) + " ms"
}

// Exactly is Period that always has a number: "1 minute".
func Exactly(ms int64) string {
	for _, u := range periods {
		if ms == u.ms {
			return "1 " + u.name
		}
	}
	return Period(ms)
}
