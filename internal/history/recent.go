package history

import (
	"context"
	"time"
)

// Recent is where figures are before a Writer has moved them to the rule database. Numbers of seconds, minutes and
// hours are those since 1970. Where an error comes with a result, the result is what this node alone knows.
type Recent interface {
	// Seconds returns a point for each second from first to last: of a rule, or of all requests ("").
	Seconds(ctx context.Context, rule string, first, last int64) ([]Point, error)
	// Minutes returns the minutes from first to last.
	Minutes(ctx context.Context, first, last int64) ([]RecentMinute, error)
	// Peaks returns the largest number of decisions in a second of a minute by rule, nil if it is not known any more.
	Peaks(ctx context.Context, minute int64) (map[string]int64, error)
	// Tops returns the most active keys, routes and tenants of some rules in an hour, by rule.
	Tops(ctx context.Context, hour int64, rules []string) (map[string]Tops, error)
	// Forget drops minutes before endMinute, and the tops of rules in an hour, which are in the rule database.
	Forget(ctx context.Context, firstMinute, endMinute, hour int64, rules []string) error
}

// RecentMinute are the figures of a minute.
type RecentMinute struct {
	Minute int64
	// Known: at least one node counted in this minute.
	Known bool
	// Rules are the figures by rule, of all requests under "", and of the requests of each node under NodePrefix and its
	// address.
	Rules map[string]Figures
}

// NodePrefix begins the names under which the figures of nodes are stored. No rule has such a name.
const NodePrefix = "@"

// PointAt is the point of a second of which nothing is known.
func PointAt(second int64) Point { return Point{At: time.Unix(second, 0).UTC(), Peak: -1} }
