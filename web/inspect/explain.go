package inspect

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/redact"
	"sluice/rules/scope"
	"sluice/web/kit"
	"sluice/web/view"
)

// attributesHint is under the field of attributes.
const attributesHint = "One per line, for example tenant=acme. `%25` stands for %."

// lineFacts are the fields of one line that hold what callers wrote.
var lineFacts = []string{"method", "route", "host", "user", "ip", "api_key", "tier"}

// escapedFacts is the form field with the names of the one-line fields that the form shows with %XX, because browsers
// change line ends in such fields.
const escapedFacts = "escaped"

// escapeFacts returns a form as the page shows it: the fields of one line whose text is not all visible have %XX.
func escapeFacts(form url.Values) url.Values {
	form = maps.Clone(form)
	form.Del(escapedFacts)
	for _, name := range lineFacts {
		if text := form.Get(name); chars.Shown(text) != text {
			form.Set(name, chars.Escape(text, ""))
			form.Add(escapedFacts, name)
		}
	}
	return form
}

// unescapeFacts is the opposite of escapeFacts.
func unescapeFacts(form url.Values) url.Values {
	form = maps.Clone(form)
	for _, name := range form[escapedFacts] {
		if slices.Contains(lineFacts, name) {
			form.Set(name, chars.Unescape(form.Get(name)))
		}
	}
	form.Del(escapedFacts)
	return form
}

// maxFact bounds each field of the form, in bytes, as the API bounds its members.
const maxFact = 8 << 10

// explainForm is the form for a request. For a sampled request it is filled in and explained at once.
func (p *Pages) explainForm(v *kit.Visit) error {
	m := Explain{Form: view.NewForm(url.Values{"weight": {"1"}}, nil)}
	id := v.QueryParam("denial")
	if id == "" {
		for _, fact := range append([]string{"method", "route"}, namedFacts...) { // as other pages link here
			if text := v.QueryParam(fact); len(text) <= maxFact {
				m.Form.Values.Set(fact, text)
			}
		}
		if text := strings.Join(v.QueryParams()["attribute"], "\n"); len(text) <= maxFact {
			m.Form.Values.Set("attributes", text)
		}
		p.fillCall(v.QueryParam("rule"), &m)
		return v.Page(http.StatusOK, p.explainPage(v, m))
	}
	d, found, err := p.Denials.Request(v.Ctx, id)
	switch {
	case err != nil:
		return p.countersUnavailable(err)
	case !found:
		m.Notes = []string{"This request is no longer stored. Describe the request below."}
		return v.Page(http.StatusNotFound, p.explainPage(v, m))
	}
	form, notes := fromSample(&d)
	m.Sample, m.Notes = &explained{d}, notes
	return p.showExplained(v, form, m)
}

// explainPage renders the page, with the profiles in force.
func (p *Pages) explainPage(v *kit.Visit, m Explain) templ.Component {
	if set := p.Sets.Load(); set != nil {
		for _, profile := range set.Profiles() {
			m.Profiles = append(m.Profiles, view.Choice{profile.Name, profile.Name})
		}
	}
	m.Form.Values = escapeFacts(m.Form.Values)
	return explainPage(v.Frame("Explain", kit.PathExplain), m)
}

// explain shows the effect of the rules on the described or pasted request. It charges nothing.
func (p *Pages) explain(v *kit.Visit, form url.Values) error {
	switch {
	case form.Get("profile") != "":
		return p.explainGateway(v, form)
	case form.Has("domain"):
		return p.explainCall(v, form)
	}
	var m Explain
	form = unescapeFacts(form)
	if paste := form.Get("paste"); paste != "" {
		filled, notes, err := fromPaste(paste)
		if err != nil {
			form.Set("weight", "1")
			m.Form = view.NewForm(form, []field.Problem{{Field: "paste", Message: err.Error()}})
			return v.Page(http.StatusUnprocessableEntity, p.explainPage(v, m))
		}
		if filled.Get("weight") == "" {
			filled.Set("weight", "1")
		}
		form, m.Notes = filled, notes
	}
	return p.showExplained(v, form, m)
}

// showExplained shows the form with the explanation.
func (p *Pages) showExplained(v *kit.Visit, form url.Values, m Explain) error {
	d, weight, errs := descriptorOf(form)
	errs = append(errs, tooLong(form)...)
	m.Form = view.NewForm(form, errs)
	if len(errs) > 0 {
		return v.Page(http.StatusUnprocessableEntity, p.explainPage(v, m))
	}
	e, err := p.Explain(v.Ctx, &d, weight)
	if err != nil {
		return err
	}
	m.Result = &e
	return v.Page(http.StatusOK, p.explainPage(v, m))
}

// tooLong returns an error for each field that is longer than maxFact.
func tooLong(form url.Values) (errs []field.Problem) {
	for name := range form {
		if len(form.Get(name)) > maxFact {
			errs = append(errs, field.Problem{Field: name, Message: "must be at most 8 KiB"})
		}
	}
	return errs
}

// fromSample fills in the form from a sampled request, as far as it was stored.
func fromSample(d *history.Request) (url.Values, []string) {
	form := url.Values{
		"method": {d.Method}, "route": {d.Route}, "host": {d.Host}, "ip": {d.IP}, "user": {d.User}, "tier": {d.Tier},
		"weight":     {view.Digits(d.Weight)},
		"attributes": {lines(d.Attributes, escapeValue)},
	}
	notes := []string{"API keys and fields are not stored. Re-enter them if a rule uses them."}
	if d.User == redact.Hidden || d.Tier == redact.Hidden {
		for _, name := range []string{"user", "tier"} {
			if form.Get(name) == redact.Hidden {
				form.Del(name)
			}
		}
		notes = append(notes, "Values that looked like credentials were removed.")
	}
	return form, notes
}

// Wait writes a duration in ms as text: "1 min 46 s", "never".
func Wait(ms int64) string {
	switch {
	case ms == limiter.Never:
		return "never"
	case ms <= 0:
		return "now"
	}
	return view.LengthUp(time.Duration(ms) * time.Millisecond)
}

// Explanation is the effect of the rules in force on a request. Nothing is charged.
type Explanation struct {
	// SetVersion is the version of the rules, Active their number.
	SetVersion int64
	Active     int
	// Allowed and Status are the answer that a check would get now, Degraded the fail mode that would decide. Soft and
	// Elastic mean that the request is allowed over a limit.
	Allowed       bool
	Status        int
	Degraded      string
	Soft, Elastic bool
	// Shed: denied within the limits, because a pool that sheds has no room.
	Shed bool
	// Overloaded: the counter store had no turn for the request, so nothing is known of its limits.
	Overloaded bool
	// Strictest is the rule whose numbers the answer would show, "" for none. RetryAfter is the Retry-After of that
	// rule in ms.
	Strictest  string
	RetryAfter int64
	// Rules are the rules that apply and the closest of the others.
	Rules []ConsideredRule
	// Descriptors are the descriptors of a call of Envoy. Such a call has no Rules.
	Descriptors []ExplainedDescriptor
}

// ConsideredRule is a rule that was considered for the request.
type ConsideredRule struct {
	match.Considered
	// Bucket is the rule's bucket, Candidate its candidate's, Pool its pool; nil if there is none or it is unknown.
	Bucket, Candidate *BucketFigures
	Pool              *PoolShare
}

// BucketFigures is a bucket before and after a request.
type BucketFigures struct {
	Allowed bool
	// Limit is the limit in force, Before what remains now, After what would remain afterwards, all in units. Burst, of a
	// bucket algorithm, is the most that can remain. Known is false if a fail mode decides without numbers.
	Limit, Before, After int64
	Burst                *int64
	Known                bool
	// Used is how many units count now. It may exceed the limit.
	Used int64
	// NoLimit: units are counted up to the largest number that stores hold, as for a meter.
	NoLimit bool
	// Whole is the limit of all regions together if Limit is a part of it, else 0.
	Whole int64
	// Reset and RetryAfter are waits in ms, -1 for never.
	Reset, RetryAfter int64
	// Soft and Elastic mean allowed over the limit. Degraded is the fail mode that decided, if any.
	Soft, Elastic bool
	Degraded      string
	// Home is the region that has the bucket, "" if each region has one.
	Home string
	// Banned: the key is banned.
	Banned bool
	// Held: within the limit, but the region has spent its share of the remaining units until the next update from
	// other regions.
	Held bool
	// Shed: within the limit, and the pool has no room.
	Shed bool
	// Overloaded: the counter store had no turn for the limit.
	Overloaded bool
	// Regions are the spent units of each region, for a limit that spans regions; nil if they are unknown.
	Regions []limiter.RegionUnits
	// HeldBy is who holds units of the bucket.
	HeldBy []Held
}

// Held is units of a bucket that callers of one kind hold and have not spent as far as it is known.
type Held struct {
	// Kind is envoy_quota, for the streams of Envoy's quota service.
	Kind    string
	Holders int
	Units   int64
}

// heldWords say who holds units, as in "950 by 2 Envoys".
func (b *BucketFigures) heldWords() string {
	var out []string
	for _, h := range b.HeldBy {
		out = append(out, view.Count(h.Units)+" by "+view.Plural(int64(h.Holders), "Envoy"))
	}
	return strings.Join(out, ", ")
}

// regionWords is what each region has spent, as in "eu 4, us 2".
func (b *BucketFigures) regionWords() string {
	var out []string
	for _, r := range b.Regions {
		out = append(out, r.Region+" "+view.Count(r.Units))
	}
	return strings.Join(out, ", ")
}

// FiguresOf are the numbers of a store's decision on a limit.
func FiguresOf(l limiter.Limit, d limiter.Decision) *BucketFigures {
	f := &BucketFigures{
		Allowed: d.Allowed, Before: d.Remaining, After: d.Remaining, Known: true, Reset: d.Reset, RetryAfter: d.RetryAfter,
		Held: d.Held, Used: d.Used, NoLimit: l.Count == limiter.MaxExact,
	}
	limit, burst, bucketed := d.InForce(l.Algorithm)
	if f.Limit = limit; bucketed {
		f.Burst = &burst
	}
	return f
}

// limitWords is the limit in force, with its burst.
func (b *BucketFigures) limitWords() string {
	if b.NoLimit {
		return "no limit"
	}
	if b.Burst == nil {
		return view.Count(b.Limit)
	}
	return view.Count(b.Limit) + ", burst " + view.Count(*b.Burst)
}

// countLeft writes what remains, "–" without a limit.
func (b *BucketFigures) countLeft(n int64) string {
	if b.NoLimit {
		return "–"
	}
	return view.Count(n)
}

// leftWords is what remains, as in "3 of 100". A limit of 0 leaves nothing to count.
func (b *BucketFigures) leftWords() string {
	switch {
	case b.NoLimit:
		return b.limitWords()
	case b.most() == 0:
		return "blocked, limit 0"
	case b.Burst == nil:
		return view.Count(b.Before) + " of " + view.Count(b.Limit)
	}
	return view.Count(b.Before) + " (limit " + b.limitWords() + ")"
}

// PoolShare is the state of a rule's pool.
type PoolShare struct {
	Name, Priority string
	// SharePercent is how full the pool may be for the rule's priority.
	SharePercent int64
	// Used and Capacity are in units; Used is -1 if unknown.
	Used, Capacity int64
	// Load is a fresh report of utilization in percent, -1 for none.
	Load int64
}

// matched returns the rules that apply, or would apply without an override or a tier, and the others.
func (e *Explanation) matched() (apply, rest []ConsideredRule) {
	for i := range e.Rules {
		if e.Rules[i].Matched || e.Rules[i].Reason == match.ReasonUnlimited {
			apply = append(apply, e.Rules[i])
		} else {
			rest = append(rest, e.Rules[i])
		}
	}
	return apply, rest
}

// applying is the number of rules that apply to descriptors.
func (e *Explanation) applying() int {
	found := map[*match.Compiled]bool{}
	for i := range e.Descriptors {
		if d := &e.Descriptors[i]; d.applies() {
			found[d.Rule] = true
		}
	}
	return len(found)
}

// Explain is the page that explains a request.
type Explain struct {
	Form view.Form
	// Notes say what was left out of the pasted request or the denial.
	Notes []string
	// Sample is the sampled request that the form was filled in from, nil for none.
	Sample *explained
	// Asked is the call of Envoy that Result is about, nil for a request.
	Asked *AskedCall
	// Rule is the name of the rule for which the call of the form was filled in, "" for none.
	Rule string
	// Result is nil until there is one.
	Result *Explanation
	// Profiles are the names of the profiles in force.
	Profiles []view.Choice
}

// passesWords says when a denied request would pass.
func passesWords(ms int64) string {
	if ms == limiter.Never {
		return "Retrying will not help."
	}
	return "The same request would pass " + waitWords(ms) + "."
}

// appliesWords says how many of the active rules apply.
func appliesWords(n, active int) string {
	if n == 1 {
		return "1 of " + view.Plural(int64(active), "active rule") + " applies."
	}
	return view.Count(int64(n)) + " of " + view.Plural(int64(active), "active rule") + " apply."
}

// actsOn are the actions on the key of a rule that applies.
func actsOn(f view.Frame, c *ConsideredRule) Acts {
	if c.Key == "" {
		return Acts{}
	}
	b := match.Bucket{Rule: c.Rule, Name: match.BucketName(c.Key), Key: c.Key, Limit: c.Limit, Override: c.Override}
	if c.Rule.Rule.Scope != scope.Global {
		b.Exception = c.Display
	}
	return actsOf(f, &b)
}

// explained is a sampled request that Explain is about.
type explained struct{ history.Request }

// outcome says how the request ended.
func (d *explained) outcome() string {
	switch d.Outcome() {
	case history.Allowed:
		return "allowed"
	case history.Denied:
		return "denied"
	}
	return "allowed, and would have been denied"
}

// by names the rule that denied the request, or would have denied it. No rule denied an overloaded request.
func (d *explained) by() string {
	switch {
	case d.Allowed:
		return ""
	case d.Overloaded:
		return " because of overload"
	}
	return " by " + d.Rule
}

// noun is the name for the request in its list.
func (d *explained) noun() string {
	if d.Allowed {
		return "request"
	}
	return "denial"
}

// link is the address of the request in a list that continues with earlier requests.
func (d *explained) link() string {
	path := kit.PathDenials
	if d.Allowed {
		path = kit.PathRequests
	}
	return view.NewQuery(path, nil).With("before", view.Digits(d.At+1)) + "#request-" + url.PathEscape(d.ID)
}

// decidedWords says in a few words why an answer is degraded.
func decidedWords(degraded string) string {
	if degraded == "region" {
		return "a region is cut off"
	}
	return "fail mode " + degraded
}

// heldWords say why a check is denied although the limit has room.
const heldWords = "The limit has room, but this region has spent its share of what is left. The next news of the " +
	"other regions brings a new share."

// undecidedWords say why there are no figures.
func undecidedWords(degraded string) string {
	if degraded == "region" {
		return "Another region is cut off, and the rule then allows nothing."
	}
	return "The counter store cannot decide; the fail mode does."
}

// overloadedWords say why nothing is known of a limit that had no turn.
const overloadedWords = "More requests arrive than the counter store can decide, and it had no turn for this one."

// undecidedWords say why a limit has no figures.
func (b *BucketFigures) undecidedWords() string {
	if b.Overloaded {
		return overloadedWords
	}
	if b.Home != "" && b.Degraded != "region" {
		return "The home region of the key, " + b.Home + ", does not answer or cannot decide; the fail mode does."
	}
	return undecidedWords(b.Degraded)
}
