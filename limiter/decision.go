package limiter

// Never is the retry-after or reset if waiting does not help: for a weight above
// the limit, or a quota that does not refill.
const Never int64 = -1

// Decision is the decision of one limit on one request. All times are milliseconds
// measured from the request's own time. The zero value is a denial.
type Decision struct {
	// Allowed: the weight fits. Of several limits taken together, each has its own
	// answer; nothing was spent unless all of them allowed.
	Allowed bool
	// Limit is the largest weight that the bucket ever admits: the count, or the
	// burst of a bucket algorithm.
	Limit int64
	// Rate is the count of a bucket algorithm's limit, units per window; 0 for
	// the others, whose Limit it is.
	Rate int64
	// Remaining is the largest weight that would be admitted right now, after
	// this decision; never negative.
	Remaining int64
	// RetryAfter is 0 if allowed, else the smallest wait after which the same
	// request is admitted if there are no others, or Never.
	RetryAfter int64
	// Reset is the wait until nothing counts as spent: 0 if nothing does, or Never.
	Reset int64
	// Delay is the wait that leaky_queue imposes on an admitted request; Never if it
	// denied the request, and 0 for other algorithms.
	Delay int64
	// Refunded is how many whole units a refund or release gave back.
	Refunded int64
}

// InForce is the limit as people and clients see it: units per window, and the
// burst if the algorithm has one.
func (d *Decision) InForce(a Algorithm) (limit, burst int64, bucketed bool) {
	if a.Traits().Setting == SettingBurst {
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
