package decide

import (
	"maps"

	"sluice/limiter"
	"sluice/rules"
)

// Advice merges what the rules of enforced limits advise whose warning is reached, and returns the name of the rule
// with the strictest limit, whose members win. set is nil if no warning is reached.
func (a *Answer) Advice() (rule string, set map[string]string) {
	if a.Op != limiter.OpTake && a.Op != limiter.OpPeek && a.Op != limiter.OpCharge {
		return "", nil
	}
	strictest := -1
	for i := range a.Limits {
		la := &a.Limits[i]
		if !la.warns() {
			continue
		}
		switch {
		case strictest < 0:
			set = maps.Clone(la.Of.Warn.Set)
		case la.Decision.StricterThan(a.Limits[strictest].Decision):
			maps.Copy(set, la.Of.Warn.Set)
		default:
			for name, text := range la.Of.Warn.Set {
				if _, there := set[name]; !there {
					set[name] = text
				}
			}
			continue
		}
		strictest, rule = i, la.Rule
	}
	return rule, set
}

// warns reports whether the warning of a limit's rule is reached.
func (la *LimitAnswer) warns() bool {
	return la.Of != nil && la.Of.Warn != nil && !la.Shadow && la.Known &&
		rules.Reached(la.Decision.Used, la.Decision.Limit, la.Of.Warn.Percent)
}
