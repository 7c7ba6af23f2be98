package view

import (
	"errors"
	"time"
)

// momentLayouts are the accepted formats of a date and time without a zone.
var momentLayouts = []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04:05.999", "2006-01-02 15:04",
	"2006-01-02 15:04:05"}

var (
	errMoment = errors.New("must be a date and time, for example 2026-11-27T08:00")
	errNoHour = errors.New("does not exist in this time zone: clocks go forward then")
)

// ParseMoment is the instant at which clocks in a zone show a text, the first one if they do so twice. A text in
// RFC 3339 has its own zone. Errors are for people.
func ParseMoment(text string, zone *time.Location) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.UTC(), nil
	}
	for _, layout := range momentLayouts {
		at, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			continue
		}
		if wall, _ := time.Parse(layout, text); wall.Format(layout) != at.Format(layout) {
			return time.Time{}, errNoHour
		}
		for _, back := range []time.Duration{30 * time.Minute, time.Hour} { // clocks go back by one of these
			if earlier := at.Add(-back); earlier.Format(layout) == at.Format(layout) {
				at = earlier
				break
			}
		}
		return at.UTC(), nil
	}
	return time.Time{}, errMoment
}
