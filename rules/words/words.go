package words

import (
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/rules"
)

// spanWords is rules.WindowWords with a number in any case: "1 minute".
func spanWords(ms int64) string {
	w := rules.WindowWords(ms)
	if !strings.Contains(w, " ") {
		return "1 " + w
	}
	return w
}

// Scope says what has a bucket of its own: "user and address".
func Scope(scope string) string {
	parts := strings.Split(scope, "+")
	for i, p := range parts {
		p = strings.TrimSpace(p)
		switch p {
		case "ip":
			p = "address"
		case "apikey":
			p = "API key"
		default:
			p = strings.TrimPrefix(p, "attr:")
		}
		parts[i] = p
	}
	return listWords(parts)
}

// listWords joins "a, b and c".
func listWords(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// Limit says a rule's limit in a few words: "100 per minute per user".
func Limit(r *rules.Rule) string {
	each := " per " + Scope(r.Scope)
	if r.Scope == rules.ScopeGlobal {
		each = " in all"
	}
	if r.Traits().Slots {
		return rules.CountWords(r.Limit) + " at a time" + each
	}
	s := rules.CountWords(r.Limit) + " per " + r.PeriodWords() + each
	if r.Burst != nil && *r.Burst != r.Limit {
		s += ", bursts of " + rules.CountWords(*r.Burst)
	}
	return s
}

// Match says which requests a rule is for: "POST /v1/charges".
func Match(r *rules.Rule) string {
	route, method := "every route", ""
	if r.Route != nil {
		route = *r.Route
	}
	if r.Method != nil {
		method = *r.Method + " "
		if r.Route == nil {
			method += "on "
		}
	}
	return method + route
}

// Summary says in sentences what a normalised rule does, for who has never seen
// its fields. It takes rules that are not valid yet too, and then says what they
// seem to mean. It is text, not markup: names and conditions stand in it as they
// were written.
func Summary(r *rules.Rule) string {
	s := []string{allowanceWords(r) + ".", overWords(r)}
	s = append(s, variantWords(r)...)
	s = append(s, timeWords(r)...)
	s = append(s, trialWords(r)...)
	switch r.FailMode {
	case rules.FailClosed:
		s = append(s, "While the counters cannot be reached, everything it applies to is denied.")
	case rules.FailLocal:
		s = append(s, "While the counters cannot be reached, each node counts its share by itself.")
	default:
		s = append(s, "While the counters cannot be reached, everything passes.")
	}
	if !r.IsActive {
		s = append(s, "The rule is off.")
	}
	return strings.Join(s, " ")
}

// allowanceWords is who may do how much.
func allowanceWords(r *rules.Rule) string {
	s := "Requests"
	if r.Method != nil {
		s = *r.Method + " requests"
	}
	if r.Route != nil {
		s += " to " + *r.Route
	} else {
		s += " on every route"
	}
	if r.When != nil {
		s += " for which " + *r.When + " holds"
	}
	if r.Scope == rules.ScopeGlobal {
		s += ", all together,"
	} else {
		s += " of the same " + Scope(r.Scope)
	}
	amount := "number " + rules.CountWords(r.Limit)
	if r.WeightField != nil {
		amount = "spend " + rules.CountWords(r.Limit) + " units, weighed by the field " + *r.WeightField + ","
	}
	if r.Traits().Slots {
		return s + " may " + amount + " at a time; one that is not released ends after " + spanWords(r.WindowMS)
	}
	s += " may " + amount + " per " + r.PeriodWords()
	if r.Calendar != nil {
		s += " of " + r.Calendar.Zone
	}
	if r.Burst != nil {
		s += ", at most " + rules.CountWords(*r.Burst) + " at once"
	}
	if r.Traits().Queues {
		s += ", evenly spaced by a delay"
	}
	return s
}

// overWords is what becomes of the rest.
func overWords(r *rules.Rule) string {
	var s string
	switch {
	case r.Throttle == rules.ThrottleSoft && r.SoftPercent != nil:
		s = "Up to " + rules.CountWords(*r.SoftPercent) + "% over that passes too, marked as over; what goes beyond "
	case r.Throttle == rules.ThrottleElastic && r.ElasticPercent != nil && r.Pool != nil:
		s = "Up to " + rules.CountWords(*r.ElasticPercent) + "% over that passes while the pool " + *r.Pool + " has room; what goes beyond "
	default:
		s = "What goes over "
	}
	if r.Mode == rules.ModeShadow {
		return s + "is only counted: the rule is on trial (shadow) and denies nothing."
	}
	if r.OverLimit == rules.OverLimitDefer {
		s += "waits in a queue"
		if r.Defer != nil {
			s += " of up to " + rules.CountWords(r.Defer.MaxItems) + ", for up to " + spanWords(r.Defer.MaxAgeMS)
		}
		return s + "."
	}
	s += "is denied"
	if r.RetryJitterMS != nil && *r.RetryJitterMS > 0 {
		s += ", and told to wait up to " + spanWords(*r.RetryJitterMS) + " longer at random"
	}
	return s + "."
}

// variantWords is where the limit is another one.
func variantWords(r *rules.Rule) []string {
	var s []string
	if len(r.Tiers) > 0 {
		parts := make([]string, 0, len(r.Tiers))
		for _, name := range slices.Sorted(maps.Keys(r.Tiers)) {
			t := r.Tiers[name]
			switch {
			case t.Unlimited:
				parts = append(parts, name+" is not limited")
			case t.Limit != nil:
				parts = append(parts, name+" has "+rules.CountWords(*t.Limit))
			}
		}
		if len(parts) > 0 {
			s = append(s, "By tier: "+listWords(parts)+".")
		}
	}
	if r.Pool != nil && r.Throttle != rules.ThrottleElastic {
		s = append(s, "Its traffic counts into the pool "+*r.Pool+".")
	}
	if r.ChargeOn == rules.ChargeOnReport {
		s = append(s, "A check spends nothing; only a reported charge does.")
	}
	switch r.HotKeys {
	case rules.HotKeysLeased:
		s = append(s, "For very busy keys, nodes take slices of the limit ahead of need.")
	case rules.HotKeysSharded:
		s = append(s, "Very busy keys are split over several counters.")
	}
	return s
}

// timeWords is when the limit is another one, or none.
func timeWords(r *rules.Rule) []string {
	var s []string
	if r.Schedule != nil {
		parts := make([]string, len(r.Schedule.Windows))
		for i := range r.Schedule.Windows {
			parts[i] = windowWords(&r.Schedule.Windows[i])
		}
		s = append(s, "By the clock of "+r.Schedule.Zone+": "+strings.Join(parts, "; ")+".")
	}
	const form = "2006-01-02 15:04 UTC"
	instant := func(t *time.Time) string { return t.UTC().Format(form) }
	switch {
	case r.ActiveFrom != nil && r.ActiveUntil != nil:
		s = append(s, "It is in force from "+instant(r.ActiveFrom)+" until "+instant(r.ActiveUntil)+".")
	case r.ActiveFrom != nil:
		s = append(s, "It is in force from "+instant(r.ActiveFrom)+".")
	case r.ActiveUntil != nil:
		s = append(s, "It is in force until "+instant(r.ActiveUntil)+".")
	}
	return s
}

func windowWords(w *rules.ScheduleWindow) string {
	days := "every day"
	if len(w.Days) > 0 {
		days = strings.Join(w.Days, ", ")
	}
	s := days + " from " + w.From + " to " + w.To
	switch {
	case w.Percent != nil:
		return s + " " + rules.CountWords(*w.Percent) + "% of the limit"
	case w.Limit != nil:
		return s + " " + rules.CountWords(*w.Limit)
	}
	return s
}

// trialWords is what is tried beside the limit.
func trialWords(r *rules.Rule) []string {
	c := r.Candidate
	if c == nil || c.Limit == nil {
		return nil
	}
	per := r.PeriodWords()
	if c.WindowMS != nil {
		per = rules.WindowWords(*c.WindowMS)
	}
	s := "A candidate of " + rules.CountWords(*c.Limit) + " per " + per
	if c.Algorithm != "" && c.Algorithm != r.Algorithm {
		s += " (" + strings.ReplaceAll(c.Algorithm, "_", " ") + ")"
	}
	return []string{s + " is tried beside it and denies nothing."}
}
