package decide

import (
	"time"

	"sluice/limiter"
)

// Homes says which buckets are decided in another region (rules.SpanGlobalExact). It must not block.
type Homes interface {
	// Away reports whether a bucket is at home in another region.
	Away(key limiter.Key) bool
	// Home returns the region that has a bucket, which may be this one; "" for a bucket that each region has.
	Home(key limiter.Key) string
	// Timeout is the time for a request with such a bucket.
	Timeout() time.Duration
	// Regions is the number of regions, with this one.
	Regions() int
}

// Home returns the region that has a bucket, "" for a bucket that each region has.
func (c *Checker) Home(key limiter.Key) string {
	if c.opt.Homes == nil {
		return ""
	}
	return c.opt.Homes.Home(key)
}

func (c *Checker) away(asks []limiter.Ask) bool {
	for i := range asks {
		if c.opt.Homes.Away(asks[i].Key) {
			return true
		}
	}
	return false
}

// localShare returns the part of a limit that this node enforces while the store cannot decide. One that has a home is
// divided among all regions first, because each of them decides by itself then.
func (c *Checker) localShare(l *plannedLimit, limit limiter.Limit) limiter.Limit {
	limit = c.opt.Ledger.share(limit)
	if l.rule != nil && l.rule.Exact && c.opt.Homes != nil {
		limit = limit.Share(int64(c.opt.Homes.Regions()))
	}
	return limit
}
