package web

import (
	"errors"
	"strings"
	"time"

	"sluice/rules"
)

// momentLayouts are how browsers and people write a moment without its zone.
var momentLayouts = []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04:05.999", "2006-01-02 15:04", "2006-01-02 15:04:05"}

var (
	errMoment = errors.New("must be a date and a time, such as 2026-11-27T08:00")
	errNoHour = errors.New("is left out in this zone: clocks go forward then")
)

// momentIn is the instant at which clocks in a zone show a text, the first one if
// they do so twice. A text in the form of RFC 3339 names its zone itself.
func momentIn(text string, zone *time.Location) (time.Time, error) {
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
		for _, back := range []time.Duration{30 * time.Minute, time.Hour} { // as far as clocks go back
			if earlier := at.Add(-back); earlier.Format(layout) == at.Format(layout) {
				at = earlier
				break
			}
		}
		return at.UTC(), nil
	}
	return time.Time{}, errMoment
}

// instant reads a moment in the zone that another field names, UTC if it is empty.
func (rd *ruleReader) instant(name, zoneName string) *time.Time {
	text := rd.text(name)
	if text == "" {
		return nil
	}
	zone, err := zoneNamed(rd.text(zoneName))
	if err != nil {
		rd.wrong(zoneName, err.Error())
		return nil
	}
	at, err := momentIn(text, zone)
	if err != nil {
		rd.wrong(name, err.Error())
		return nil
	}
	return &at
}

// zoneNamed finds a zone by what was typed; nothing is UTC.
func zoneNamed(text string) (*time.Location, error) {
	if text = strings.TrimSpace(text); text == "" {
		return time.UTC, nil
	}
	return rules.Zone(text)
}
