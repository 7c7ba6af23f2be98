package app

import (
	"slices"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/redact"
)

// sample describes a request that the limit la denied, or would have denied, for display. q is nil for descriptors, of
// which the key shows everything.
func (f *fleetReporter) sample(q *decide.Question, a *decide.Answer, la *decide.LimitAnswer,
	key string) history.Request {
	d := f.described(q, a)
	limited(&d, q, la, key)
	d.RetryAfter, d.Degraded, d.Shed, d.Banned = la.Decision.RetryAfter, la.Degraded, la.Shed, la.Ban > 0
	if d.Overloaded = la.Overloaded; d.Overloaded {
		d.RetryAfter, _ = a.RetryAfter()
	}
	return d
}

// sampleAllowed is sample for a request that no limit denied, with its strictest limit, or the first one if fail mode
// open decided.
func (f *fleetReporter) sampleAllowed(q *decide.Question, a *decide.Answer) history.Request {
	d := f.described(q, a)
	d.Allowed, d.Degraded, d.Mode = true, a.Degraded, rules.ModeEnforce
	shown := a.Strictest
	if shown < 0 {
		shown = slices.IndexFunc(a.Limits, func(la decide.LimitAnswer) bool {
			return !la.Returned && !la.Candidate && !la.Shadow
		})
	}
	for i := range a.Limits {
		la := &a.Limits[i]
		switch {
		case la.Returned || la.Candidate:
		case i == shown:
			limited(&d, q, la, la.Display())
			d.Remaining = la.Decision.Remaining
		default:
			d.Also = append(d.Also, la.Series())
		}
	}
	return d
}

// limited describes the limit of a sample.
func limited(d *history.Request, q *decide.Question, la *decide.LimitAnswer, key string) {
	d.Rule, d.Key, d.Mode = la.Series(), key, la.Mode()
	d.Limit, _, _ = la.Decision.InForce(la.Limit.Algorithm)
	if q == nil {
		d.Weight = la.Weight
	}
	if q == nil || !q.IsDirect {
		d.Bucket = match.BucketName(la.Key)
	}
}

// described returns the request for a sample, without API keys and values that look like credentials.
func (f *fleetReporter) described(q *decide.Question, a *decide.Answer) history.Request {
	d := history.Request{At: f.now().UnixMilli(), Status: reply.Status(a)}
	if q == nil { // descriptors
		return d
	}
	if d.Weight = q.Weight; q.IsDirect {
		return d
	}
	from := &q.Descriptor
	d.Method, d.Route, d.Host = redact.Text(from.Method), redact.Path(from.Route), redact.Text(from.Host)
	d.User, d.Tier = redact.Text(from.User), redact.Text(from.Tier)
	if from.IP.IsValid() {
		d.IP = from.IP.String()
	}
	if len(from.Attributes) > 0 {
		d.Attributes = make(map[string]string, len(from.Attributes))
		for name, v := range from.Attributes {
			d.Attributes[redact.Text(name)] = redact.Text(v)
		}
	}
	return d
}
