package inspect

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/match"
	"sluice/rules/redact"
	"sluice/web/view"
)

const (
	// mostChanged is the largest number of rules that may have changed since a request that is explained by the rules of
	// its time.
	mostChanged = 1000
	// othersThen is how many rules that did not apply are shown.
	othersThen = 30
	// settles is how long a node may use an earlier version of a rule after an edit. An edit normally takes less than a
	// second.
	settles = 2 * time.Second
)

// Then is how the rules that were in force at the time of a sampled request applied to it. It is computed from stored
// versions of rules and stored facts. It names the facts that were not stored and assumes none.
type Then struct {
	// Unknown says why the rules of that time cannot be shown, "" if they can.
	Unknown string
	// Changed is the number of rules that have changed since.
	Changed int
	// TookPart are the rules that counted the request or apply to its stored facts. Unsure are rules of which that is not
	// known, Rest the closest of the others.
	TookPart, Unsure, Rest []RuleThen
}

// RuleThen is a rule at the time of a sampled request.
type RuleThen struct {
	// Name is the rule's name then, Version its version then, 0 if it is not known. ID is 0 unless the rule is in force
	// now; Now is its version now.
	Name             string
	ID, Version, Now int64
	// Part is what the rule did: denied, would deny, strictest, counted or applies; "" for rules that took no part.
	Part string
	// Key is the bucket's display name, Limit the limit for the request in units; Known is false if they are not known.
	Key   string
	Limit int64
	Known bool
	// Why explains Part, what is not known, or why the rule does not apply.
	Why string
}

// versionWords say which version of the rule was in force, and which one is now.
func (r *RuleThen) versionWords() string {
	switch {
	case r.Version == 0:
		return ""
	case r.ID == 0:
		return "version " + view.Digits(r.Version) + ", no longer in force"
	case r.Now != r.Version:
		return "version " + view.Digits(r.Version) + " then, version " + view.Digits(r.Now) + " now"
	}
	return "version " + view.Digits(r.Version)
}

// changedWords say how many rules have changed since the request.
func (t *Then) changedWords() string {
	switch t.Changed {
	case 0:
		return "No rule has changed since."
	case 1:
		return "1 rule has changed since."
	}
	return view.Count(t.Changed) + " rules have changed since."
}

// explainThen evaluates the rules of the time of a request with its stored facts.
func (p *Pages) explainThen(ctx context.Context, d *history.Request) Then {
	set := p.Sets.Load()
	switch {
	case d.Rule == rules.DirectRule:
		return Then{Unknown: "The caller sent the limit with the request, so no rule took part."}
	case set == nil:
		return Then{Unknown: "This node has no rules, so the rules of that time are not known."}
	}
	back, ok, err := p.RulesBackTo(ctx, d.Time(), mostChanged)
	switch {
	case err != nil:
		p.Logger.Warn("the console could not read earlier rules", "error", err)
		return Then{Unknown: "The rules of that time could not be read, because the rules database did not answer. " +
			"Reload to try again."}
	case !ok:
		return Then{Unknown: "More than " + view.Count(mostChanged) + " rules have changed since, so the rules of that " +
			"time are not evaluated. Their versions are in the history of each rule."}
	}
	then, err := set.Apply(back)
	if err != nil {
		p.Logger.Warn("earlier rules do not compile", "error", err)
		return Then{Unknown: "The rules of that time cannot be evaluated, because a pool or another part that they need no " +
			"longer exists. Their versions are in the history of each rule."}
	}
	e := evaluation{request: d, set: then.WithOverrides(nil), now: set, // overrides of that time are not stored
		out: Then{Changed: changedRules(back)}}
	return e.run()
}

// changedRules is the number of rules in a change.
func changedRules(d match.Delta) int {
	ids := map[int64]bool{}
	for _, id := range d.Removed {
		ids[id] = true
	}
	for i := range d.Changed {
		ids[d.Changed[i].ID] = true
	}
	return len(ids)
}

// evaluation computes a Then.
type evaluation struct {
	request *history.Request
	// set are the rules of the time of the request without overrides, now the rules in force now.
	set, now *match.Set
	out      Then
}

func (e *evaluation) run() Then {
	d := e.request
	of := match.Descriptor{Method: d.Method, Route: d.Route, Host: d.Host, User: d.User, Tier: d.Tier,
		Attributes: d.Attributes}
	of.IP, _ = netip.ParseAddr(d.IP) // the address may be missing
	seen := map[string]bool{}
	for _, c := range e.set.ExplainSome(&of, d.Weight, d.Time(), e.set.Len()) {
		seen[c.Rule.Rule.Name] = true
		e.add(&c)
	}
	for _, name := range append([]string{d.Rule}, d.Also...) {
		if name != "" && !seen[name] {
			e.out.TookPart = append(e.out.TookPart, e.stored(name))
		}
	}
	slices.SortStableFunc(e.out.TookPart, func(a, b RuleThen) int {
		return cmp.Compare(partOrder(a.Part), partOrder(b.Part))
	})
	return e.out
}

// partOrder puts the rule that decided first.
func partOrder(part string) int {
	return slices.Index([]string{partDenied, partWould, partStrictest, partCounted, partApplies}, part)
}

// The parts that rules take in a request.
const (
	partDenied    = "denied"
	partWould     = "would deny"
	partStrictest = "strictest"
	partCounted   = "counted"
	partApplies   = "applies"
)

// limitOf is the limit of a request in units, as requests store it.
func limitOf(l limiter.Limit) int64 {
	d := limiter.Decision{Limit: l.Capacity(), Rate: l.Rate()}
	n, _, _ := d.InForce(l.Algorithm)
	return n
}

// limitWords writes a limit of a request.
func limitWords(n int64) string {
	if n == limiter.MaxExact {
		return "No limit"
	}
	return "Limit " + view.Count(n)
}

// part is what the stored request says about a rule, "" for nothing.
func (e *evaluation) part(name string) string {
	d := e.request
	switch {
	case name == d.Rule && d.Allowed:
		return partStrictest
	case name == d.Rule && d.Outcome() == history.Denied:
		return partDenied
	case name == d.Rule:
		return partWould
	case slices.Contains(d.Also, name):
		return partCounted
	}
	return ""
}

// add puts a rule of that time into its list.
func (e *evaluation) add(c *match.Considered) {
	d, r := e.request, e.ruleThen(c.Rule)
	missing := e.missing(c)
	r.Part = e.part(r.Name)
	switch {
	case r.Name == d.Rule:
		r.Key, r.Limit, r.Known, r.Why = d.Key, d.Limit, true, e.decidedWhy(c, missing)
		e.out.TookPart = append(e.out.TookPart, r)
	case r.Part != "":
		if c.Matched && missing == "" {
			r.Key, r.Limit, r.Known = c.Display, limitOf(c.Limit), true
		}
		r.Why = cmp.Or(missing, "The request stores that the rule counted it.")
		e.out.TookPart = append(e.out.TookPart, r)
	case missing != "":
		r.Why = missing
		e.out.Unsure = append(e.out.Unsure, r)
	case c.Matched && d.Allowed:
		r.Why = "This version applies to the stored facts, but the request does not name it among the rules that counted. " +
			"An override may have made the key unlimited then."
		e.out.Unsure = append(e.out.Unsure, r)
	case c.Matched:
		r.Part, r.Key, r.Limit, r.Known = partApplies, c.Display, limitOf(c.Limit), true
		r.Why = c.Sentence + " A denial stores only the rule that denied, so what this rule had left is not known."
		e.out.TookPart = append(e.out.TookPart, r)
	case len(e.out.Rest) < othersThen:
		r.Why = c.Sentence
		e.out.Rest = append(e.out.Rest, r)
	}
}

// ruleThen is a rule of that time, with its version now.
func (e *evaluation) ruleThen(c *match.Compiled) RuleThen {
	r := RuleThen{Name: c.Rule.Name, Version: c.Rule.Version}
	if now := e.now.Get(c.Rule.ID); now != nil {
		r.ID, r.Now = now.Rule.ID, now.Rule.Version
	}
	return r
}

// stored is a rule that the request names, and that was not evaluated.
func (e *evaluation) stored(name string) RuleThen {
	r := RuleThen{Name: name, Part: e.part(name)}
	if c := e.set.Named(name); c != nil { // a rule for descriptors
		r = e.ruleThen(c)
		r.Part, r.Why = e.part(name), "The descriptors of the call are not stored. The key shows what the rule counted by."
	} else {
		r.Why = "No rule had this name at that time. It was created, renamed or deleted just then."
	}
	if name == e.request.Rule {
		r.Key, r.Limit, r.Known = e.request.Key, e.request.Limit, true
	}
	return r
}

// decidedWhy explains the rule whose limit the request stores.
func (e *evaluation) decidedWhy(c *match.Considered, missing string) string {
	d := e.request
	switch {
	case d.Mode == candidate:
		return "The candidate of this version decided."
	case missing != "":
		return missing
	case !c.Matched:
		return "By the stored facts this version does not apply. What it counted by is not stored. " + c.Sentence
	case limitOf(c.Limit) != d.Limit:
		return "This version has the limit " + view.Count(limitOf(c.Limit)) + ". Another one was in force, for example by " +
			"an override or for a part of the regions; why is not stored."
	}
	return c.Sentence
}

// missing says what is not known about whether and how a rule applied, "" if everything is.
func (e *evaluation) missing(c *match.Considered) string {
	switch c.Reason {
	case match.ReasonMethod, match.ReasonHost, match.ReasonLifeSpan:
		return e.recent(c)
	case match.ReasonRoute:
		if strings.Contains(e.request.Route, redact.Hidden) {
			return "A part of the route is hidden, so it is not known whether the rule applied."
		}
		return e.recent(c)
	}
	if facts := e.unstored(c.Rule); facts != nil {
		return "The request does not store " + strings.Join(facts, " and ") + ", which the rule uses."
	}
	return e.recent(c)
}

// recent says that a rule was saved so shortly before the request that its node may have used the version before.
func (e *evaluation) recent(c *match.Considered) string {
	age := e.request.Time().Sub(c.Rule.Rule.UpdatedAt)
	if age < 0 || age >= settles {
		return ""
	}
	return "Version " + view.Digits(c.Rule.Rule.Version) + " was saved less than " + view.Length(settles) +
		" before the request. The node may have used the rules before it."
}

// unstored names the facts that a rule uses and that the request does not store, nil if there are none.
func (e *evaluation) unstored(c *match.Compiled) (facts []string) {
	add := func(name string) {
		if !slices.Contains(facts, name) {
			facts = append(facts, name)
		}
	}
	r, hidden := &c.Rule, hiddenFacts(e.request)
	for fact := range strings.SplitSeq(r.Scope, "+") {
		switch {
		case fact == "apikey":
			add("the API key")
		case hidden[fact], hidden["attr:"] && strings.HasPrefix(fact, "attr:"):
			add("the fact " + chars.Shown(fact))
		}
	}
	if r.Tiers != nil && hidden["tier"] {
		add("the fact tier")
	}
	if r.When != nil {
		if strings.Contains(*r.When, "api_key") {
			add("the API key")
		}
		if strings.Contains(*r.When, "fields") {
			add("fields")
		}
		if len(hidden) > 0 {
			add("facts that looked like credentials")
		}
	}
	if r.WeightField != nil || r.LimitField != nil {
		add("fields")
	}
	return facts
}

// hiddenFacts are the facts of a request that are not stored because they looked like credentials, by their name in a
// scope. attr: stands for an attribute whose name is hidden.
func hiddenFacts(d *history.Request) map[string]bool {
	hidden := map[string]bool{}
	for name, value := range map[string]string{"method": d.Method, "route": d.Route, "host": d.Host, "user": d.User,
		"tier": d.Tier} {
		if strings.Contains(value, redact.Hidden) {
			hidden[name] = true
		}
	}
	for name, value := range d.Attributes {
		if name == redact.Hidden {
			hidden["attr:"] = true
		} else if value == redact.Hidden {
			hidden["attr:"+name] = true
		}
	}
	return hidden
}
