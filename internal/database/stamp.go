package database

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// stampLayout is the form of times in SQLite and in queries to Postgres: UTC with exactly three
// decimals, so that text order is time order.
const stampLayout = "2006-01-02T15:04:05.000Z"

// stamp is a time as the database stores it: UTC, whole milliseconds. Both dialects then return
// what was written, and equal times compare equal.
type stamp struct{ time.Time }

func newStamp(t time.Time) stamp {
	return stamp{t.UTC().Truncate(time.Millisecond)}
}

func optionalStamp(t *time.Time) *stamp {
	if t == nil {
		return nil
	}
	s := newStamp(*t)
	return &s
}

// optional returns the time for a nullable column; nil stays nil.
func (s *stamp) optional() *time.Time {
	if s == nil {
		return nil
	}
	t := s.Time
	return &t
}

// Value implements driver.Valuer.
func (s stamp) Value() (driver.Value, error) {
	return s.UTC().Format(stampLayout), nil
}

// Scan implements sql.Scanner. An invalid text becomes the zero time instead of an error: one row
// that was damaged by hand must not hide all the others.
func (s *stamp) Scan(v any) error {
	switch v := v.(type) {
	case time.Time:
		*s = newStamp(v)
	case string:
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			t = time.Time{}
		}
		*s = newStamp(t)
	case []byte:
		return s.Scan(string(v))
	case nil:
		*s = stamp{}
	default:
		return fmt.Errorf("cannot read a %T as a time", v)
	}
	return nil
}
