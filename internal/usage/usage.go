package usage

import (
	"context"
	"strings"

	"sluice/limiter"
	"sluice/rules/match"
)

// Row counts the units that one key of a rule has spent in one period.
type Row struct {
	// Rule is the id of the rule, and Period the start of the period in ms since the epoch.
	Rule, Period int64
	// Key is the part of the bucket's key before the rule, such as {user:42}.
	Key string
	// Spent is the count of the bucket, as it was at Seen on the clock of the counter store, ms.
	Spent, Seen int64
}

// Bucket returns the key and the limit of the row's bucket. l is the limit of the rule.
func (r *Row) Bucket(l limiter.Limit) (limiter.Key, limiter.Limit) {
	l.Anchor = r.Period
	return limiter.Key(r.Key) + limiter.Key(limiter.RuleSuffix(r.Rule, l)), l
}

// RowOf returns the row of a bucket, without its count. ok is false if the limit of the bucket is not PerPeriod.
func RowOf(key limiter.Key) (row Row, ok bool) {
	id, known := match.RuleID(key)
	_, start, kept := key.Period()
	facts, _, _ := strings.Cut(string(key), "|")
	return Row{Rule: id, Period: start, Key: facts}, known && kept
}

// Total counts the units that all keys of a rule have spent in one period.
type Total struct{ Period, Keys, Spent int64 }

// Query selects rows of a rule, ordered by key.
type Query struct {
	Rule, Period int64
	// Key selects one key, "" all.
	Key string
	// After is the key after which the page begins, "" for the first page. Most is the largest number of rows.
	After string
	Most  int
}

// Database keeps statements. It is safe for concurrent use. Errors wrap rules.ErrUnavailable.
type Database interface {
	// WriteUsage stores up to WriteBatch rows with distinct places. A row that is there with the same Seen, or a later
	// one, stays as it is. floored: no count becomes lower.
	WriteUsage(ctx context.Context, rows []Row, floored bool) error
	// Usage returns rows.
	Usage(ctx context.Context, q Query) ([]Row, error)
	// UsagePeriods returns the last periods of a rule for which there are rows, the newest first.
	UsagePeriods(ctx context.Context, rule int64, most int) ([]int64, error)
	// UsageTotals adds up the rows of periods of a rule, in no order. key selects one key, "" all.
	UsageTotals(ctx context.Context, rule int64, key string, periods []int64) ([]Total, error)
	// UsageRules returns the ids of all rules that have rows.
	UsageRules(ctx context.Context) ([]int64, error)
	// CleanUsage deletes up to limit rows of a rule whose periods began before an instant, and returns how many.
	CleanUsage(ctx context.Context, rule, before int64, limit int) (int64, error)
	// UsageLost returns when the counters were found to be lost, ms since the epoch; 0 for never.
	UsageLost(ctx context.Context) (int64, error)
	// SetUsageLost says that the counters were lost at an instant, if there are rows.
	SetUsageLost(ctx context.Context, at int64) error
	// ClearUsageLost says that the counters are restored, unless they were found to be lost at another instant.
	ClearUsageLost(ctx context.Context, at int64) error
}

// WriteBatch is the largest number of rows in one statement.
const WriteBatch = 500
