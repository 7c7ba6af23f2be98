package override

import "sluice/limiter"

// MaxWildcard is the longest key with a wildcard, in bytes.
const MaxWildcard = 1024

// Effect is the compiled effect of an override on a limit.
type Effect struct {
	limit, burst int64 // -1: not given
	expires      int64 // ms since the epoch, 0: never
	kind         effectKind
}

type effectKind uint8

const (
	effectLimit effectKind = iota
	effectUnlimited
	effectBlocked
)

// Apply returns the limit that replaces l. A number that l's algorithm cannot count exactly,
// because the rule was edited since, is reduced to the largest that it can.
func (e *Effect) Apply(l limiter.Limit) limiter.Limit {
	count, burst := e.limit, e.burst
	if e.kind == effectBlocked {
		count, burst = 0, 0
	}
	if burst < 0 {
		burst = count
	}
	if l.Algorithm.Bucketed() {
		l.Count, l.Burst = min(count, limiter.MaxExact), min(burst, l.MaxCapacity())
	} else {
		l.Count = min(count, l.MaxCapacity())
	}
	return l
}

// ended reports whether an override has expired.
func (e *Effect) ended(now int64) bool { return e.expires != 0 && e.expires <= now }

func applied(id int64, prefix bool, f *Effect) Applied {
	return Applied{ID: id, Prefix: prefix, Unlimited: f.kind == effectUnlimited, Blocked: f.kind == effectBlocked}
}
