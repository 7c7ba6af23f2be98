package words

import (
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/quantity"
	"sluice/rules/scope"
)

// Summary describes in sentences what a normalized rule does. It also takes rules that are not valid yet, and then
// describes what they seem to mean. The result is text, not markup: names and conditions stand in it unescaped.
func Summary(r *rules.Rule) string {
	s := []string{allowance(r) + "; " + excess(r) + "."}
	if r.Unlimited {
		s[0] = allowance(r) + "."
	}
	if r.Descriptor != nil {
		s = append(s, envoy(r)...)
	} else if len(r.Replaces) > 0 {
		s = append(s, "Where it applies, it replaces "+list(slices.Clone(r.Replaces))+".")
	}
	s = append(s, details(r)...)
	s = append(s, exceptions(r)...)
	s = append(s, times(r)...)
	s = append(s, candidate(r)...)
	if !r.Unlimited {
		s = append(s, outage(r))
		if text := overload(r); text != "" {
			s = append(s, text)
		}
	}
	if !r.IsActive {
		s = append(s, "The rule is disabled.")
	}
	return strings.Join(s, " ")
}

// Shed describes what a pool that sheds does to the requests of a rule, "" if it is nil or does not shed.
func Shed(r *rules.Rule, p *match.CompiledPool) string {
	if p == nil || !p.Pool.Shed {
		return ""
	}
	priority := r.Priority
	if priority == nil {
		priority = new(rules.PriorityNormal)
	}
	return "The pool " + p.Pool.Name + " sheds: these requests, of " + *priority + " priority, pass only while at most " +
		quantity.Percent(p.SharePercent(*priority)) + " of it are in use. Others get status 503."
}

// Limit describes a rule's limit in a few words: "100 per minute per user".
func Limit(r *rules.Rule) string {
	if r.Unlimited && !r.IsMeter() {
		return "unlimited"
	}
	by := Scope(r.Scope)
	if r.Descriptor != nil {
		by = counted(r)
	}
	each := " per " + by
	if by == "" || r.Scope == scope.Global {
		each = " in total"
	}
	if r.IsMeter() {
		return "unlimited, counted per " + r.PeriodWords() + each
	}
	if r.Traits().Slots {
		return r.AmountWords(r.Limit) + " at a time" + each
	}
	s := r.AmountWords(r.Limit) + " per " + r.PeriodWords() + each
	if r.Burst != nil && *r.Burst != r.Limit {
		s += ", bursts up to " + r.AmountWords(*r.Burst)
	}
	return s
}

// Besides lists the other effects of a rule, to follow the text of Limit: ", a quota, replaces shop.all".
func Besides(r *rules.Rule) string {
	s := ""
	if r.Quota {
		s += ", a quota"
	}
	if r.Addend == rules.AddendCharge {
		s += ", reports are charged"
	}
	if len(r.Replaces) > 0 {
		s += ", replaces " + list(slices.Clone(r.Replaces))
	}
	return s
}

// Match describes which requests a rule applies to: "POST /v1/charges at api.example.com", or "shop: path=/pay, user"
// for a descriptor.
func Match(r *rules.Rule) string {
	switch {
	case r.Descriptor != nil:
		return r.Descriptor.String()
	case r.Route == nil && r.Method == nil:
		return "all routes" + host(r)
	case r.Route == nil:
		return *r.Method + " on all routes" + host(r)
	case r.Method == nil:
		return *r.Route + host(r)
	}
	return *r.Method + " " + *r.Route + host(r)
}

// host is the host of a rule, after a blank.
func host(r *rules.Rule) string {
	if r.Host == nil {
		return ""
	}
	return " at " + *r.Host
}

// Scope lists the facts that a rule counts by: "user and IP address".
func Scope(scope string) string { return list(facts(scope)) }

// facts are the names of the facts of a scope.
func facts(scope string) []string {
	parts := strings.Split(scope, "+")
	for i, p := range parts {
		switch p = strings.TrimSpace(p); p {
		case "ip":
			p = "IP address"
		case "apikey":
			p = "API key"
		default:
			p = strings.TrimPrefix(p, "attr:")
		}
		parts[i] = p
	}
	return parts
}

// list joins "a, b and c".
func list(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// allowance says who may send how many of which requests.
func allowance(r *rules.Rule) string {
	if r.Descriptor != nil {
		return described(r)
	}
	who, each := senders(r)
	if r.Unlimited {
		return capital(requests(r, each)) + " are counted per " + period(r) + metered(who) + ", and none is denied"
	}
	count := r.AmountWords(r.Limit)
	units := count + " units"
	if r.Noun() != "" {
		units = count
	}
	switch {
	case r.Traits().Slots && r.WeightField != nil:
		return who + " may hold " + units + " at a time with " + requests(r, each) + weight(r)
	case r.Traits().Slots:
		return who + " may have " + count + " " + requests(r, each) + " in progress at a time"
	case r.WeightField != nil:
		return who + " may spend " + units + " per " + period(r) + " on " + requests(r, each) + weight(r) + burst(r)
	case r.Noun() != "":
		return who + " may spend " + units + " per " + period(r) + " on " + requests(r, each) + burst(r)
	}
	return who + " may send " + count + " " + kind(r) + " per " + period(r) +
		destination(r, each) + condition(r) + burst(r)
}

// metered says for whom a meter counts, of what senders returns.
func metered(who string) string {
	if who == "All clients together" {
		return ""
	}
	return " for e" + strings.TrimPrefix(who, "E")
}

// capital makes the first letter a capital.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// senders names the senders that are limited separately. each are the parts of the scope that belong to the request
// instead: its route, its method and its host.
func senders(r *rules.Rule) (who string, each []string) {
	var senders []string
	for _, p := range facts(r.Scope) {
		switch p {
		case "route", "method", "host":
			each = append(each, p)
		default:
			senders = append(senders, p)
		}
	}
	switch {
	case len(senders) == 0, r.Scope == scope.Global:
		return "All clients together", each
	case len(senders) == 1:
		return "Each " + senders[0], each
	}
	return "Each combination of " + list(senders), each
}

// kind is the noun for the requests: "POST requests", or "POST request" if the limit is one.
func kind(r *rules.Rule) string {
	noun := "requests"
	if r.Limit == 1 && r.WeightField == nil {
		noun = "request"
	}
	if r.Method != nil {
		return *r.Method + " " + noun
	}
	return noun
}

// destination is where the requests go, after a blank.
func destination(r *rules.Rule, each []string) string {
	var s string
	switch {
	case slices.Contains(each, "route") && r.Route != nil:
		s = " to each route that matches " + *r.Route
	case slices.Contains(each, "route"):
		s = " to each route"
	case r.Route != nil:
		s = " to " + *r.Route
	default:
		s = " across all routes"
	}
	s += host(r)
	if per := slices.DeleteFunc(slices.Clone(each), func(p string) bool { return p == "route" }); len(per) > 0 {
		s += ", counted per " + list(per)
	}
	return s
}

func condition(r *rules.Rule) string {
	if r.When == nil {
		return ""
	}
	return ", if " + *r.When
}

// requests are kind, destination and condition together.
func requests(r *rules.Rule, each []string) string {
	return kind(r) + destination(r, each) + condition(r)
}

func weight(r *rules.Rule) string { return ", weighted by the field " + *r.WeightField }

// period is the time that the limit is for: "minute", "calendar month (UTC)", "calendar day (UTC, from 05:30)".
func period(r *rules.Rule) string {
	c := r.Calendar
	switch {
	case c == nil:
		return r.PeriodWords()
	case c.At != "":
		return r.PeriodWords() + " (" + c.Zone + ", from " + c.At + ")"
	}
	return r.PeriodWords() + " (" + c.Zone + ")"
}

func burst(r *rules.Rule) string {
	var s string
	if r.Burst != nil {
		s = ", in bursts of up to " + r.AmountWords(*r.Burst)
	}
	if r.Traits().Queues {
		s += ", evenly spaced by delaying early requests"
	}
	return s
}

// excess says what happens to requests over the limit.
func excess(r *rules.Rule) string {
	more, rest := "", "the rest "
	switch {
	case r.Throttle == rules.ThrottleSoft && r.SoftPercent != nil:
		more = "up to " + quantity.Percent(*r.SoftPercent) + " more pass, marked as over the limit, and "
	case r.Throttle == rules.ThrottleElastic && r.ElasticPercent != nil && r.Pool != nil:
		more = "up to " + quantity.Percent(*r.ElasticPercent) + " more pass while the pool " + *r.Pool +
			" has room, and "
	}
	switch {
	case r.Mode == rules.ModeShadow:
		rest += "would be denied, but the rule is in shadow mode: it counts and denies nothing"
	case r.OverLimit == rules.OverLimitDefer && r.Defer != nil:
		rest += "wait in a queue of up to " + quantity.Amount(r.Defer.MaxItems) + " requests" +
			" for up to " + quantity.Exactly(r.Defer.MaxAgeMS)
	case r.OverLimit == rules.OverLimitDefer:
		rest += "wait in a queue"
	default:
		rest += "are denied"
	}
	return more + rest
}

// details are sentences about how the rule counts and answers.
func details(r *rules.Rule) []string {
	var s []string
	if r.Traits().Slots {
		s = append(s, "A request that is not released stops counting after "+quantity.Exactly(r.WindowMS)+".")
	}
	denies := r.Mode != rules.ModeShadow && r.OverLimit != rules.OverLimitDefer
	if denies && r.RetryJitterMS != nil && *r.RetryJitterMS > 0 {
		s = append(s, "Denied clients are told to wait up to "+quantity.Exactly(*r.RetryJitterMS)+" longer, at random.")
	}
	if d := r.Delay; d != nil && d.After != nil && r.Mode != rules.ModeShadow {
		s = append(s, "Above "+r.AmountWords(*d.After)+" used, each request is told to wait "+quantity.Exactly(d.StepMS)+
			" for every unit more, up to "+quantity.Exactly(d.MostMS)+".")
	}
	if denies && r.TarpitMS != nil && *r.TarpitMS > 0 {
		s = append(s, "Denials are held back for "+quantity.Exactly(*r.TarpitMS)+".")
	}
	if d := r.Denial; d != nil && denies {
		wait := "."
		if d.Retry == rules.RetryNever {
			wait = " and no Retry-After."
		}
		s = append(s, "Denied clients receive the status "+quantity.Digits(d.Status)+wait)
	}
	if r.KeepPeriods != nil {
		kept := "What each key has spent is kept for " + quantity.Amount(*r.KeepPeriods) + " periods."
		s = append(s, strings.Replace(kept, " 1 periods.", " 1 period.", 1))
	}
	if r.Hidden {
		s = append(s, "Clients see neither its name nor its figures.")
	}
	if r.Pool != nil && r.Throttle != rules.ThrottleElastic {
		s = append(s, "These requests also count against the pool "+*r.Pool+".")
	}
	if r.ChargeOn == rules.ChargeOnReport {
		s = append(s, "A check uses up nothing; only reported usage counts.")
	}
	if len(r.NotifyPercent) > 0 && r.Mode == rules.ModeEnforce {
		s = append(s, "A key that has used "+percentages(r.NotifyPercent)+" of its limit is an alert.")
	}
	if r.LimitField != nil {
		s = append(s, "The field "+*r.LimitField+" of its first request sets a lower limit for a key.")
	}
	if w := r.Warn; w != nil {
		s = append(s, "From "+quantity.Percent(w.Percent)+" of the limit on, answers advise "+
			list(slices.Sorted(maps.Keys(w.Set)))+".")
	}
	if b := r.Ban; b != nil && denies {
		s = append(s, ban(b)...)
	}
	switch r.HotKeys {
	case rules.HotKeysLeased:
		s = append(s, "For very busy keys, each node leases parts of the limit in advance.")
	case rules.HotKeysSharded:
		s = append(s, "Very busy keys are split into shards.")
	}
	switch r.Span {
	case rules.SpanGlobal:
		s = append(s, span(r))
	case rules.SpanShares:
		s = append(s, "All regions have the limit together: each spends its part of it, which follows demand.")
	}
	if r.Span == rules.SpanGlobalExact {
		s = append(s, "All regions have the limit together; the home region of each key decides.")
	}
	return s
}

// span says that the limit spans regions.
func span(r *rules.Rule) string {
	const s = "All regions have the limit together; "
	cutOff := rules.CutOffShare
	if r.CutOff != nil {
		cutOff = *r.CutOff
	}
	switch cutOff {
	case rules.CutOffAlone:
		return s + "one that is cut off has all of it."
	case rules.CutOffClosed:
		return s + "one that is cut off denies."
	}
	return s + "one that is cut off has an equal part of it."
}

// percentages are numbers such as 80% or 100%.
func percentages(numbers []int64) string {
	var texts []string
	for _, n := range slices.Sorted(slices.Values(numbers)) {
		texts = append(texts, quantity.Percent(n))
	}
	return strings.Join(texts, " or ")
}

// ban are sentences about keys that are denied too often.
func ban(b *rules.Ban) []string {
	times := quantity.Amount(b.After) + " times"
	if b.After == 1 {
		times = "once"
	}
	s := []string{"A key that is denied " + times + " within " + quantity.Exactly(b.WithinMS) + " is banned for " +
		quantity.Exactly(b.ForMS) + "."}
	if b.Grow > 1 && b.MostMS > b.ForMS {
		s = append(s, "A ban that begins within "+quantity.Exactly(b.MostMS)+" after the last one is "+
			quantity.Amount(b.Grow)+" times as long, up to "+quantity.Exactly(b.MostMS)+".")
	}
	return s
}

// exceptions are sentences about requests that have another limit.
func exceptions(r *rules.Rule) []string {
	parts := make([]string, 0, len(r.Tiers))
	for _, name := range slices.Sorted(maps.Keys(r.Tiers)) {
		t := r.Tiers[name]
		switch {
		case t.Unlimited:
			parts = append(parts, name+" is unlimited")
		case t.Limit != nil && t.Burst != nil:
			parts = append(parts, name+" has "+r.AmountWords(*t.Limit)+" with bursts up to "+r.AmountWords(*t.Burst))
		case t.Limit != nil:
			parts = append(parts, name+" has "+r.AmountWords(*t.Limit))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{"Tier limits: " + list(parts) + "."}
}

// times are sentences about when the limit differs or the rule applies at all.
func times(r *rules.Rule) []string {
	var s []string
	if r.Schedule != nil {
		parts := make([]string, len(r.Schedule.Windows))
		for i := range r.Schedule.Windows {
			parts[i] = window(r, &r.Schedule.Windows[i])
		}
		s = append(s, "Schedule ("+r.Schedule.Zone+"): "+strings.Join(parts, "; ")+".")
	}
	instant := func(t *time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
	switch {
	case r.ActiveFrom != nil && r.ActiveUntil != nil:
		s = append(s, "The rule is in force from "+instant(r.ActiveFrom)+" until "+instant(r.ActiveUntil)+".")
	case r.ActiveFrom != nil:
		s = append(s, "The rule is in force from "+instant(r.ActiveFrom)+".")
	case r.ActiveUntil != nil:
		s = append(s, "The rule is in force until "+instant(r.ActiveUntil)+".")
	}
	return s
}

var dayNames = map[string]string{
	"mon": "Mon", "tue": "Tue", "wed": "Wed", "thu": "Thu", "fri": "Fri", "sat": "Sat", "sun": "Sun",
}

// window describes one window of a schedule.
func window(r *rules.Rule, w *rules.ScheduleWindow) string {
	days := "every day"
	if len(w.Days) > 0 {
		names := make([]string, len(w.Days))
		for i, d := range w.Days {
			if names[i] = dayNames[d]; names[i] == "" {
				names[i] = d
			}
		}
		days = list(names)
	}
	s := days + " from " + w.From + " to " + w.To
	switch {
	case w.Percent != nil:
		s += ", " + quantity.Percent(*w.Percent) + " of the limit"
	case w.Limit != nil:
		s += ", a limit of " + r.AmountWords(*w.Limit)
	}
	if w.Burst != nil {
		s += " with bursts up to " + r.AmountWords(*w.Burst)
	}
	return s
}

// candidate is a sentence about the limit that is tested in addition to the rule's own.
func candidate(r *rules.Rule) []string {
	c := r.Candidate
	if c == nil || c.Limit == nil {
		return nil
	}
	per := r.PeriodWords()
	if c.WindowMS != nil {
		per = quantity.Period(*c.WindowMS)
	}
	s := "A candidate limit of " + r.AmountWords(*c.Limit) + " per " + per
	if c.Algorithm != "" && c.Algorithm != r.Algorithm {
		s += " (" + (&rules.Rule{Algorithm: c.Algorithm}).Traits().Title + ")"
	}
	return []string{s + " is tested beside it and denies nothing."}
}

// outage says what happens to the requests while the counter store is unreachable.
func outage(r *rules.Rule) string {
	if r.Mode == rules.ModeShadow {
		return "If Redis is unreachable, the rule counts nothing."
	}
	what := "all of these requests pass"
	switch r.FailMode {
	case rules.FailClosed:
		what = "all of these requests are denied"
	case rules.FailLocal:
		what = "each node enforces its share of the limit"
	}
	if from := r.FailModeWords(); from != "" {
		what += ": " + from
	}
	return "If Redis is unreachable, " + what + "."
}

// overload says what happens to requests while the counter store is overloaded, "" for the setting of the server.
func overload(r *rules.Rule) string {
	if r.Mode == rules.ModeShadow || r.Overload == nil {
		return ""
	}
	if *r.Overload == rules.OverloadDeny {
		return "When more requests arrive than Redis can decide, the excess is denied after the store timeout."
	}
	return "When more requests arrive than Redis can decide, the excess waits as long as its callers do, " +
		"and is then denied."
}
