package bind

import (
	"strconv"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/web/view"
)

// Instant reads a date and time in the zone of another field, UTC if that is empty.
func (rd *Reader) Instant(name, zoneName string) *time.Time {
	text := rd.Text(name)
	if text == "" {
		return nil
	}
	zone, err := zoneNamed(rd.Text(zoneName))
	if err != nil {
		rd.Wrong(zoneName, err.Error())
		return nil
	}
	at, err := view.ParseMoment(text, zone)
	if err != nil {
		rd.Wrong(name, err.Error())
		return nil
	}
	return &at
}

// zoneNamed finds a time zone by its name; an empty name is UTC.
func zoneNamed(text string) (*time.Location, error) {
	if text = strings.TrimSpace(text); text == "" {
		return time.UTC, nil
	}
	return rules.Zone(text)
}

// timeUnits are the units of durations, in ms, with the words that people write after a number.
var timeUnits = []struct {
	name  string
	ms    int64
	short []string
}{
	{"week", 604_800_000, []string{"w", "week", "weeks"}},
	{"day", 86_400_000, []string{"d", "day", "days"}},
	{"hour", 3_600_000, []string{"h", "hour", "hours"}},
	{"minute", 60_000, []string{"m", "min", "minute", "minutes"}},
	{"second", 1000, []string{"s", "sec", "second", "seconds"}},
	{"ms", 1, []string{"ms"}},
}

// unitOf is the length of a unit in ms, 0 if the word is not a unit.
func unitOf(word string) int64 {
	for _, u := range timeUnits {
		for _, s := range u.short {
			if s == word {
				return u.ms
			}
		}
	}
	return 0
}

// Millis reads a duration: a number in the unit of the second field, which is ms by default, or a text with units, such
// as 90s, 1m30s or 2 h.
func (rd *Reader) Millis(name string) *int64 {
	text := strings.ToLower(rd.Text(name))
	if strings.ContainsAny(text, "smhdw") {
		return rd.units(name, text)
	}
	n := rd.Whole(name)
	if n == nil {
		return nil
	}
	for _, u := range timeUnits {
		if rd.Form.Get(name+UnitSuffix) == u.name {
			return rd.bounded(name, *n, u.ms)
		}
	}
	return n
}

// units adds up numbers that are followed by their units.
func (rd *Reader) units(name, text string) *int64 {
	var sum int64
	rest := strings.ReplaceAll(text, " ", "")
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		letters := len(rest) - digits - len(strings.TrimLeft(rest[digits:], "abcdefghijklmnopqrstuvwxyz"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		unit := unitOf(rest[digits : digits+letters])
		if err != nil || unit == 0 {
			rd.Wrong(name, "must be a duration, for example 10s, 1m30s or 2h")
			return nil
		}
		part := rd.bounded(name, n, unit)
		if part == nil {
			return nil
		}
		if sum += *part; sum > limiter.MaxExact {
			return rd.bounded(name, sum, 1)
		}
		rest = rest[digits+letters:]
	}
	return &sum
}

// bounded is n units in ms, or an error if that is too long.
func (rd *Reader) bounded(name string, n, unit int64) *int64 {
	if n > limiter.MaxExact/unit || n < -limiter.MaxExact/unit {
		rd.Wrong(name, "is too long")
		return nil
	}
	n *= unit
	return &n
}
