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

// LiveRow is what one process decided in an hour by one rule. The store does not look into Data and Tops.
type LiveRow struct {
	// Writer is the random number of the process.
	Writer int64
	// Rule is the name of a rule, "" for all requests, NodePrefix and the address of a node for what that node decided,
	// or the name of a trial.
	Rule string
	// Hour is the number of the hour since 1970.
	Hour int64
	// Data are the packed minutes. Tops are the packed most active keys, routes and tenants; nil leaves those of the
	// store.
	Data, Tops []byte
}

// StoredRow is a row of the store that was added up over processes.
type StoredRow struct {
	Kind Kind
	// Writer is that of a LiveRow, else 0.
	Writer int64
	// Rule is that of a LiveRow.
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
	// Sums: of Data only the beginning is needed, which has the sum of the periods of a row.
	Sums bool
}

// Columns are what is read of rows.
type Columns int

// The columns that are read of rows.
const (
	// OnlyData leaves Tops nil, OnlyTops leaves Data nil.
	OnlyData Columns = iota
	OnlyTops
	Both
)

// Store keeps packed rows in the rule database. Errors wrap rules.ErrUnavailable. It is safe for concurrent use.
type Store interface {
	// WriteStats stores rows in place of those of the same writer, rule and hour, at most MaxWritten of them, in one
	// transaction. By the clock of the database, it stores rows of the running hour, the one before, and the next one,
	// which a clock that is ahead has begun. It leaves out the others, and returns how many: they may have been added up
	// already.
	WriteStats(ctx context.Context, rows []LiveRow) (leftOut int, err error)
	// ReadStats visits the rows of some parts as they are at one moment: of the named rules, or of all if rules is nil (""
	// names all requests). A row is valid during its visit only.
	ReadStats(ctx context.Context, rules []string, parts []Part, columns Columns, see func(*StoredRow)) error
	// FoldStats adds up to limit rows of processes, of hours that ended more than FoldAfter ago by the clock of the
	// database and by that of this process, to the rows of the other kinds, and deletes them, in one transaction. It
	// returns how many they were: 0 too if another node does so at this moment.
	FoldStats(ctx context.Context, limit int) (int, error)
	// CleanStats deletes up to limit rows of a kind with a period before one, and returns how many.
	CleanStats(ctx context.Context, kind Kind, before int64, limit int) (int64, error)
}

const (
	// MaxWritten is the largest number of rows that are written at once.
	MaxWritten = 200
	// FoldAfter is the number of whole hours after its end from which on rows of an hour are added up. A process writes
	// only the running hour, the one before and the next, so that no row is written again after that.
	FoldAfter = 3
)

// NodePrefix begins the names under which the figures of nodes are stored. No rule has such a name.
const NodePrefix = "@"
