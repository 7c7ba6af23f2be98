package history

import (
	"context"
	"time"
)

// Kind is what a stored row holds.
type Kind int16

// The kinds of rows, by period.
const (
	// KindMinutes are the minutes of an hour, kept for MinutesKept.
	KindMinutes Kind = 1
	// KindHours are the hours of a day (of UTC), kept for SLUICE_STATS_DAYS.
	KindHours Kind = 2
	// KindHourTops and KindDayTops are the most active keys, routes and tenants of an hour and of a day, kept as long as
	// minutes and hours.
	KindHourTops Kind = 3
	KindDayTops  Kind = 4
	// KindDays are the days of 32 days, kept as long as hours.
	KindDays Kind = 5
)

// StoredRow is a packed row. The store does not look into Data.
type StoredRow struct {
	Kind Kind
	// Rule is the name of a rule, "" for all requests, or "@" and the address of a node for what that node decided.
	Rule string
	// Period is the number of the hour, day, or 32 days since 1970.
	Period int64
	Data   []byte
}

// Store keeps packed rows in the rule database. Errors wrap rules.ErrUnavailable. It is safe for concurrent use.
type Store interface {
	// ClaimStats takes or keeps the lease of the writer for a node for a lifetime from now on, unless another node holds
	// it. Its time is that of the database. written is the instant until which figures have been written, the zero time
	// if none were.
	ClaimStats(ctx context.Context, node string, lifetime time.Duration) (held bool, written time.Time, err error)
	// WriteStats replaces rows and notes until when figures are written, in one transaction, if node still holds the
	// lease; held is false, and nothing is written, if it does not.
	WriteStats(ctx context.Context, node string, rows []StoredRow, written time.Time) (held bool, err error)
	// ReadStats returns the rows of a kind whose period is from first to last: of the named rules, or of all if rules is
	// nil ("" names all requests). Sorted by rule and period.
	ReadStats(ctx context.Context, kind Kind, rules []string, first, last int64) ([]StoredRow, error)
	// WrittenStats is the instant until which figures have been written, the zero time if none were.
	WrittenStats(ctx context.Context) (time.Time, error)
	// CleanStats deletes up to limit rows of a kind with a period before one, and returns how many.
	CleanStats(ctx context.Context, kind Kind, before int64, limit int) (int64, error)
}
