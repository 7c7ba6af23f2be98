package rules

import (
	"fmt"

	"sluice/limiter"
	"sluice/rules/route"
)

// logNoted is the most units of a sliding_window_log that need no warning. A bucket may store an entry for each.
const logNoted = 10_000

// Warnings lists what looks wrong in a normalised rule but is allowed, under the fields' JSON names.
func Warnings(r *Rule) []FieldError {
	var out []FieldError
	// An unregistered method is usually a typing error, but can also be the caller's own word.
	if r.Method != nil && route.IsMethod(*r.Method) && !route.IsRegistered(*r.Method) {
		out = append(out, FieldError{Field: "method", Message: *r.Method +
			" is not a registered HTTP method. The rule applies only to requests sent with exactly this method."})
	}
	if r.Algorithm == limiter.SlidingWindowLog.String() && r.Limit > logNoted {
		out = append(out, FieldError{Field: "limit", Message: fmt.Sprintf("%s may store an entry for each of %d requests "+
			"a key. sliding_window_counter and sliding_window_buckets store a few numbers.", r.Algorithm, r.Limit)})
	}
	return out
}
