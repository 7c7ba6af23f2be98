package override

import (
	"unique"

	"sluice/limiter"
)

// MaxWildcard is the longest key with a wildcard, in bytes.
const MaxWildcard = 1024

// Effect is the compiled effect of an override on a limit.
type Effect struct {
	limit    int64 // negative: one of those below
	burst    int64 // -1: not given
	expires  int64 // ms since the epoch, 0: never
	calendar unique.Handle[Calendar]
}

// Values of Effect.limit for overrides that set none.
const (
	noLimit   int64 = -1 - iota // only the calendar differs
	unlimited                   // the key is unlimited
	blocked                     // the key is blocked
)

// Calendar is the part of its rule's calendar that an override replaces. A zero Zone, Day, Month or At leaves the value
// of the rule.
type Calendar struct {
	Zone       string
	Day, Month uint8
	At         string
	// From and Until, in ms since the epoch, are the period during which the calendar was last edited, 0 for none. It
	// began by what was in force before. See rules.FirstPeriod.
	From, Until int64
}

// Calendar returns what replaces the calendar of the rule, the zero Calendar for nothing.
func (e *Effect) Calendar() Calendar {
	if e == nil || e.calendar == (unique.Handle[Calendar]{}) {
		return Calendar{}
	}
	return e.calendar.Value()
}

// with returns the effect with a calendar.
func (e Effect) with(c Calendar) Effect {
	if c != (Calendar{}) {
		e.calendar = unique.Make(c)
	}
	return e
}

// Apply returns the limit that replaces l. A number that l's algorithm cannot count exactly,
// because the rule was edited since, is reduced to the largest that it can. It leaves the period to Calendar.
func (e *Effect) Apply(l limiter.Limit) limiter.Limit {
	count, burst := e.limit, e.burst
	switch e.limit {
	case noLimit:
		return l
	case blocked, unlimited:
		count, burst = 0, 0
	}
	if burst < 0 {
		burst = count
	}
	if l.Algorithm.Bucketed() {
		l.Count, l.Burst = min(count, limiter.MaxExact), min(burst, l.MaxCapacity())
	} else {
		l.Count = min(count, l.MaxCapacity())
	}
	return l
}

// ended reports whether an override has expired.
func (e *Effect) ended(now int64) bool { return e.expires != 0 && e.expires <= now }

func applied(id int64, prefix bool, f *Effect) Applied {
	return Applied{ID: id, Prefix: prefix, Unlimited: f.limit == unlimited, Blocked: f.limit == blocked,
		KeepsLimit: f.limit == noLimit, Calendar: f.calendar != unique.Handle[Calendar]{}}
}
