package limiter

// Never is the retry-after or reset of something that waiting cannot bring
// about: a weight above the limit, a quota that does not refill.
const Never int64 = -1

// Decision is what one limit says of one request. All times are milliseconds
// measured from the request's own time. The zero value is a denial.
type Decision struct {
	// Allowed: the weight fitted. Of several limits taken together, each says
	// this for itself; nothing was spent unless all fitted.
	Allowed bool
	// Limit is the most the bucket ever admits at once: the count, or the burst
	// of a bucket algorithm.
	Limit int64
	// Rate is the count of a bucket algorithm's limit, units per window; 0 for
	// the others, whose Limit it is.
	Rate int64
	// Remaining is the largest weight that would be admitted right now, after
	// this decision; never negative.
	Remaining int64
	// RetryAfter is 0 if allowed, else the smallest wait after which the same
	// request is admitted if nobody else comes, or Never.
	RetryAfter int64
	// Reset is the wait until the bucket is empty: 0 if it is, or Never.
	Reset int64
	// Delay is how long a leaky_queue asks the request to wait before it starts;
	// 0 for other algorithms, Never when denied by a leaky_queue.
	Delay int64
	// Refunded is how many whole units a refund or release gave back.
	Refunded int64
}

// InForce is what people and clients are told of the limit: units per window, and
// beside it the burst where the limit has one.
func (d *Decision) InForce(a Algorithm) (limit, burst int64, bucketed bool) {
	if a.Bucketed() {
		return d.Rate, d.Limit, true
	}
	return d.Limit, 0, false
}

// StricterThan orders decisions: denied before allowed, then the longer
// retry-after (Never is the longest), then the fewer remaining.
func (d Decision) StricterThan(e Decision) bool {
	if d.Allowed != e.Allowed {
		return !d.Allowed
	}
	if d.RetryAfter != e.RetryAfter {
		if d.RetryAfter == Never || e.RetryAfter == Never {
			return d.RetryAfter == Never
		}
		return d.RetryAfter > e.RetryAfter
	}
	return d.Remaining < e.Remaining
}

// Strictest returns the index of the strictest decision, the first among
// equals, or -1 if there is none.
func Strictest(ds []Decision) int {
	best := -1
	for i := range ds {
		if best < 0 || ds[i].StricterThan(ds[best]) {
			best = i
		}
	}
	return best
}
