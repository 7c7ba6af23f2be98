package rules

import (
	"fmt"
	"maps"
	"slices"

	"sluice/limiter"
	"sluice/rules/field"
	"sluice/rules/quantity"
	"sluice/rules/route"
)

// logNoted is the most units of a sliding_window_log that need no warning. A bucket may store an entry for each.
const logNoted = 10_000

// callRequests is the largest number of requests that a client with its default settings sends in one denied call:
// undici sends a GET six times, go-retryablehttp and Feign a POST five times (the table of docs/for-api-consumers.md).
const callRequests = 6

// Warnings lists what looks wrong in a normalised rule but is allowed, under the fields' JSON names.
func Warnings(r *Rule) []field.Problem {
	var out []field.Problem
	// An unregistered method is usually a typing error, but can also be the caller's own word.
	if r.Method != nil && route.IsMethod(*r.Method) && !route.IsRegistered(*r.Method) {
		out = append(out, field.Problem{Field: "method", Message: *r.Method +
			" is not a registered HTTP method. The rule applies only to requests sent with exactly this method."})
	}
	if r.Algorithm == limiter.SlidingWindowLog.String() && r.Limit > logNoted {
		out = append(out, field.Problem{Field: "limit", Message: fmt.Sprintf("%s may store an entry for each of %s requests "+
			"a key. sliding_window_counter and sliding_window_buckets store a few numbers.", r.Algorithm,
			quantity.Amount(r.Limit))})
	}
	if r.Ban != nil && r.Ban.After >= 1 && r.Ban.After <= callRequests {
		out = append(out, field.Problem{Field: "ban.after", Message: fmt.Sprintf("One call can begin a ban: some HTTP "+
			"clients send a denied request up to %d times by themselves. Ban after at least %d denials.", callRequests,
			callRequests+1)})
	}
	return append(out, unreachable(r)...)
}

// unreachable lists the limits of a rule whose rate no traffic reaches. Time is whole milliseconds, and in each of them
// a bucket admits at most its burst.
func unreachable(r *Rule) (out []field.Problem) {
	note := func(member, whose string, spec LimitSpec) {
		l, err := spec.Resolve()
		if err != nil || !l.Algorithm.Bucketed() {
			return
		}
		each := (l.Count + l.Window - 1) / l.Window // what refills in a millisecond, rounded up
		if each > l.Burst {
			out = append(out, field.Problem{Field: member, Message: fmt.Sprintf("%s rate of %s per %s cannot be reached: a "+
				"burst of %s admits at most that many in each millisecond. Set burst to at least %s.", whose,
				quantity.Amount(l.Count), quantity.Period(l.Window), quantity.Amount(l.Burst), quantity.Amount(each))})
		}
	}
	note("burst", "The", r.spec())
	for _, name := range slices.Sorted(maps.Keys(r.Tiers)) {
		if t := r.Tiers[name]; t.Limit != nil {
			note("tiers."+field.SafeKey(name)+".burst", "The tier's", r.withLimit(*t.Limit, t.Burst))
		}
	}
	if r.Schedule != nil {
		for i, w := range r.Schedule.Windows {
			if w.Limit != nil {
				note(field.Path("schedule.windows", i)+".burst", "The schedule's", r.withLimit(*w.Limit, w.Burst))
			}
		}
	}
	if r.Candidate != nil && r.Candidate.Limit != nil {
		note("candidate.burst", "The candidate's", r.candidateSpec())
	}
	return out
}

// EditWarnings lists what an edit of a rule loses, under the fields' JSON names.
func EditWarnings(was, is *Rule) (out []field.Problem) {
	if was.LimitField != nil && (is.LimitField == nil || was.Traits().Kind != is.Traits().Kind) {
		out = append(out, field.Problem{Field: "limit_field", Message: "Keys lose the limits that their requests set in " +
			"the field " + *was.LimitField + ", and have the rule's limit from now on."})
	}
	why := lossOf(was, is)
	if why == "" {
		return out
	}
	return append(out, field.Problem{Field: "algorithm", Message: fmt.Sprintf("What was spent so far no longer counts "+
		"after the "+
		"change from %s to %s, because %s.", was.Algorithm, is.Algorithm, why)})
}
