package view

import "sluice/rules"

// overrideWords says what an override makes of the limit.
func overrideWords(o *rules.Override) string {
	switch {
	case o.Blocked:
		return "blocked"
	case o.Unlimited:
		return "unlimited"
	case o.Limit == nil:
		return ""
	}
	s := Count(*o.Limit)
	if o.Burst != nil && *o.Burst != *o.Limit {
		s += ", bursts of " + Count(*o.Burst)
	}
	return s
}
