package app

import (
	"crypto/rand"
	"strings"

	"sluice/api/decide"
	"sluice/internal/history/incident"
	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// watchTrouble creates the registry of troubles of this node, and the log of the incidents that they cause.
func watchTrouble(host *Host, region string) *incident.Log {
	incidents := incident.NewLog(strings.ToLower(rand.Text()[:12]), region, host.Now)
	host.trouble = trouble.New(host.Log, host.Now, incidents.Note)
	return incidents
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
		o.incidents.Decided(incident.CodeStarved, request, limits)
	case a.Cause.OfStore():
		o.incidents.Decided(incident.CodeRedis, request, limits)
	}
}

var redisUnavailable = trouble.Declare(trouble.Condition{Code: incident.CodeRedis, Incident: incident.Breaker,
	Of:     "node",
	Severe: true,
	Starts: "the circuit breaker of a Redis server opened; fail modes decide",
	Ends:   "a Redis server is available again; its circuit breaker closed",
	Banner: "Redis is unreachable. Rules are falling back to their fail modes."})

// breakerChanged is called for every change of the breaker of a Redis server.
func (h *Host) breakerChanged(c redisstore.BreakerChange) {
	switch c.To {
	case redisstore.BreakerOpen:
		h.trouble.Set(trouble.Trouble{Condition: redisUnavailable, Subject: c.Node, Since: h.Now(),
			Cause: breakerWords(&c)}, "cause", string(c.Cause), "error", c.Err, "advice", advice[c.Cause])
	case redisstore.BreakerClosed:
		h.trouble.Clear(redisUnavailable, c.Node)
	}
}

// breakerWords says why a breaker opened. It contains no address.
func breakerWords(c *redisstore.BreakerChange) string {
	if c.Cause == limiter.CauseConnection {
		if words := trouble.Words(c.Err); words != trouble.NoWords {
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
