package rules

import (
	"errors"
	"sync"
	"time"
	_ "time/tzdata" // so that zones are known where the system has none
)

// zones caches zones by name, because loading one reads a file. Only names that loaded are kept,
// so the cache is bounded by the time zone database.
var zones sync.Map

// Zone returns the time zone with an IANA name. The error is a sentence about it without a
// subject. It is safe for concurrent use.
func Zone(name string) (*time.Location, error) { return loadZone(name) }

// loadZone returns the zone with an IANA name.
func loadZone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		if loc, ok := z.(*time.Location); ok {
			return loc, nil
		}
	}
	if name == "" || name == "Local" { // Local is another zone on every machine
		return nil, errUnknownZone
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, errUnknownZone
	}
	zones.Store(name, loc)
	return loc, nil
}

var errUnknownZone = errors.New("must be the IANA name of a time zone, such as UTC or Europe/Berlin")

func yearOf(t *time.Time) int {
	if t == nil {
		return 0
	}
	return t.UTC().Year()
}
