package app

import (
	"crypto/rand"
	"strings"

	"sluice/api/decide"
	"sluice/internal/history/incident"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// newIncidentLog creates the log of the incidents of this node.
func newIncidentLog(host *Host) *incident.Log {
	return incident.NewLog(strings.ToLower(rand.Text()[:12]), host.Now)
}

// ObserveDecision notes what fail modes decided. Like the figures, it counts only takes.
func (o *outageLog) ObserveDecision(d *decide.Decision) {
	if a := d.Answer; decide.ByFailMode(a.Degraded) && a.Op == limiter.OpTake {
		o.noteDecision(a)
	}
}

func (o *outageLog) noteDecision(a *decide.Answer) {
	var few [8]incident.ByFailMode
	limits := few[:0]
	for i := range a.Limits {
		if la := &a.Limits[i]; decide.ByFailMode(la.Degraded) && !la.Shadow && !la.Returned {
			limits = append(limits, incident.ByFailMode{Rule: la.Series(), Mode: la.Degraded, Denied: !la.Decision.Allowed})
		}
	}
	request := incident.ByFailMode{Mode: a.Degraded, Denied: !a.Allowed()}
	switch {
	case a.Cause == limiter.CauseStarved:
		o.incidents.DecidedStarved(request, limits)
	case a.Cause.OfStore():
		o.incidents.Decided(request, limits)
	}
}

// note notes the change of a breaker.
func (b *breakerLog) note(c *redisstore.BreakerChange) {
	switch c.To {
	case redisstore.BreakerOpen:
		b.incidents.Breaker(c.Node, true, breakerWords(c))
	case redisstore.BreakerClosed:
		b.incidents.Breaker(c.Node, false, "")
	}
}

// breakerWords says why a breaker opened. It contains no address.
func breakerWords(c *redisstore.BreakerChange) string {
	if c.Cause == limiter.CauseConnection {
		if words := incident.ErrorWords(c.Err); words != incident.NoWords {
			return words
		}
	}
	return causeWords(c.Cause)
}

// causeWords says for people why Redis could not decide.
func causeWords(cause limiter.Cause) string {
	switch cause {
	case limiter.CauseConnection:
		return "connection lost"
	case limiter.CauseReadOnly:
		return "read-only"
	case limiter.CauseMemory:
		return "out of memory"
	case limiter.CauseAuth:
		return "credentials rejected"
	case limiter.CauseCluster:
		return "slot not served"
	case limiter.CauseWrongType, limiter.CauseBadState:
		return "keys of another program"
	case limiter.CauseHome:
		return "the home region did not decide"
	case limiter.CauseBreaker:
		return "" // the incident knows
	}
	return string(cause)
}
