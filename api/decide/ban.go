package decide

import (
	"sluice/limiter"
	"sluice/rules/match"
)

// A ban is a separate ask that follows the ask of the rule's limit, whose denials it counts; see limiter.BanLimit. An
// answer shows both as one limit.

// plannedBan is the ban of a limit.
type plannedBan struct {
	ban      *limiter.Limit // the limit of the ban, whose ask follows the ask of the limit; nil for none
	lifts    bool           // only the ask of the ban is sent
	banLooks bool           // it counts no denial
}

// banOf returns the limit of the ban that an operation on a match involves, nil for none. The denials of
// an override that blocks do not count.
func banOf(m *match.Match, op limiter.Op) *limiter.Limit {
	switch op {
	case limiter.OpTake, limiter.OpPeek, limiter.OpCharge:
		if m.Override.Blocked {
			return nil
		}
		return m.Rule.Ban
	case limiter.OpReset:
		return m.Rule.Ban
	}
	return nil
}

func (p *plannedLimit) banAsk() limiter.Ask {
	return limiter.Ask{Key: limiter.BanKey(p.key), Limit: *p.ban, Look: p.banLooks}
}

// decided sets the decision of a limit from the decisions of its call, without its ban.
func (p *plannedLimit) decided(la *LimitAnswer, decisions []limiter.Decision) {
	if p.lifts {
		la.Decision = limiter.Decision{Allowed: true, Limit: la.Limit.Capacity(), Rate: la.Limit.Rate()}
		return
	}
	la.Decision, la.Known = decisions[p.ask], true
}

// addBan adds the decision of a limit's ban to the decision of the limit.
func (p *plannedLimit) addBan(la *LimitAnswer, decisions []limiter.Decision) {
	if p.ban == nil || p.lifts {
		return
	}
	ban := decisions[p.ask+1]
	if la.Decision = la.Decision.WithBan(ban); !ban.Allowed {
		la.Ban = ban.RetryAfter
	}
}

// banned reports whether a decision on a limit is a ban.
func (p *plannedLimit) banned(decisions []limiter.Decision) bool {
	return p.ban != nil && !decisions[p.ask+1].Allowed
}

// Ban returns the time in ms until all bans of enforced limits have ended, 0 if there are none.
func (a *Answer) Ban() (ms int64) {
	for i := range a.Limits {
		ms = max(ms, a.Limits[i].Ban)
	}
	return ms
}
