package database

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// rowTimeLayout is the form of times in SQLite and in queries to Postgres: UTC with exactly three
// decimals, so that text order is time order.
const rowTimeLayout = "2006-01-02T15:04:05.000Z"

// rowTime is a time as the database stores it: UTC, whole milliseconds. Both dialects then return
// what was written, and equal times compare equal.
type rowTime struct{ time.Time }

func newRowTime(t time.Time) rowTime {
	return rowTime{t.UTC().Truncate(time.Millisecond)}
}

func optionalRowTime(t *time.Time) *rowTime {
	if t == nil {
		return nil
	}
	s := newRowTime(*t)
	return &s
}

// optional returns the time for a nullable column; nil stays nil.
func (s *rowTime) optional() *time.Time {
	if s == nil {
		return nil
	}
	t := s.Time
	return &t
}

// Value implements driver.Valuer.
func (s rowTime) Value() (driver.Value, error) {
	return s.UTC().Format(rowTimeLayout), nil
}

// Scan implements sql.Scanner. An invalid text becomes the zero time instead of an error: one row
// that was damaged by hand must not hide all the others.
func (s *rowTime) Scan(v any) error {
	switch v := v.(type) {
	case time.Time:
		*s = newRowTime(v)
	case string:
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			t = time.Time{}
		}
		*s = newRowTime(t)
	case []byte:
		return s.Scan(string(v))
	case nil:
		*s = rowTime{}
	default:
		return fmt.Errorf("cannot read a %T as a time", v)
	}
	return nil
}
