package decide

import (
	"sluice/limiter"
	"sluice/rules/match"
)

// ObserveReported counts requests of a bucket that a proxy has decided and reports, as decisions of a caller. They
// count once for each call, in the series of the bucket's rule, or only as requests if the rule denies nothing because
// it is unlimited or in shadow mode. A bucket without a rule counts nowhere.
func (c *Checker) ObserveReported(domain string, bucket map[string]string, reported Decisions, from Origin) {
	set := c.opt.Sets.Load()
	if set == nil || reported == (Decisions{}) {
		return
	}
	m, _, ok := set.MatchBucket(domain, bucket, c.opt.Now())
	if !ok {
		return
	}
	a := Answer{Op: limiter.OpSettle, Verdict: Allowed, Strictest: -1}
	if !m.Unlimited() && !m.Rule.Shadow {
		a.Strictest, a.Limits = 0, []LimitAnswer{reportedLimit(&m)}
	}
	c.opt.Observe.ObserveDecision(&Decision{Answer: &a, Origin: from, Untimed: true,
		Settled: &Settlement{Weight: -1, Decisions: &reported}})
}

// reportedLimit is the limit of a bucket whose requests were decided elsewhere, without figures.
func reportedLimit(m *match.Match) LimitAnswer {
	r := m.Rule
	return LimitAnswer{Rule: r.Rule.Name, Version: r.Rule.Version, Of: &r.Rule, Key: m.Key, Limit: m.Limit, Weight: 1,
		Decision: limiter.Decision{Allowed: true, Limit: m.Limit.Capacity()}}
}
