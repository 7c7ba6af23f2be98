package history

import "context"

// Kind is what a stored row holds.
type Kind int16

// The kinds of rows, by period.
const (
	// KindLive are the minutes of an hour that one process decided. Only its process writes such a row.
	KindLive Kind = 0
	// KindMinutes are the minutes of an hour, kept for MinutesKept.
	KindMinutes Kind = 1
	// KindHours are the hours of a day (of UTC), kept for SLUICE_STATS_DAYS.
	KindHours Kind = 2
	// KindDays are the days of 32 days, kept as long.
	KindDays Kind = 3
	// KindTrials is what a limit on trial decided in a day, kept as long.
	KindTrials Kind = 4
)

// Periods of rows.
const (
	minutesAnHour = 60
	hoursADay     = 24
	daysABlock    = 32
)

// LiveRow contains the figures of one process for one rule in an hour. The store does not interpret Data and Tops.
type LiveRow struct {
	// Writer is the random number of the process.
	Writer int64
	// Rule is the name of a rule, "" for all requests, NodePrefix and the address of a node for the decisions of that
	// node, or the name of a trial.
	Rule string
	// Hour is the number of the hour since 1970.
	Hour int64
	// Data are the packed minutes. Tops are the packed most active keys, routes and tenants; nil keeps the stored ones.
	Data, Tops []byte
}

// StoredRow is a row of the store that was added up over processes.
type StoredRow struct {
	Kind Kind
	// Writer is the Writer of a LiveRow, 0 for other kinds.
	Writer int64
	// Rule has the same meaning as in LiveRow.
	Rule string
	// Period is the number of the hour, day, or 32 days since 1970.
	Period int64
	// Data is packed. Tops is nil if it was not asked for, and if there are none.
	Data, Tops []byte
}

// Part are the rows of a kind whose period is from First to Last.
type Part struct {
	Kind        Kind
	First, Last int64
	// Sums: only the beginning of Data is needed, which contains the sum of the periods of a row.
	Sums bool
}

// Columns selects the columns that are read.
type Columns int

// The selections of columns.
const (
	// OnlyData leaves Tops nil, OnlyTops leaves Data nil.
	OnlyData Columns = iota
	OnlyTops
	Both
)

// Store keeps packed rows in the rule database. Errors wrap rules.ErrUnavailable. It is safe for concurrent use.
type Store interface {
	// WriteStats stores at most MaxWritten rows in one transaction. A row replaces the stored row of the same writer,
	// rule and hour. By the clock of the database, WriteStats stores rows of the running hour, the previous one, and
	// the next one, which a fast clock may have begun. It leaves out other rows, because they may already have been
	// added up, and returns their number.
	WriteStats(ctx context.Context, rows []LiveRow) (leftOut int, err error)
	// ReadStats visits the rows of some parts as they are at one moment, of the named rules or of all if rules is nil.
	// The name "" means all requests. A row is valid during its visit only.
	ReadStats(ctx context.Context, rules []string, parts []Part, columns Columns, see func(*StoredRow)) error
	// FoldStats adds up to limit rows of processes to the rows of the other kinds and deletes them, in one transaction.
	// It covers hours that ended more than FoldAfter ago by the clocks of both the database and this process. It
	// returns the number of these rows, 0 also if another node is folding at this moment.
	FoldStats(ctx context.Context, limit int) (int, error)
	// CleanStats deletes up to limit rows of a kind whose period is before before, and returns their number.
	CleanStats(ctx context.Context, kind Kind, before int64, limit int) (int64, error)
}

const (
	// MaxWritten is the largest number of rows in one write.
	MaxWritten = 200
	// FoldAfter is the number of whole hours after the end of an hour from which its rows are added up. A process
	// writes only the running hour, the previous one and the next one, so that no row is written again after it was
	// added up.
	FoldAfter = 3
)

// NodePrefix begins the names under which the figures of nodes are stored. No rule has such a name.
const NodePrefix = "@"
