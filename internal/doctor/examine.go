package doctor

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/attention"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/quantity"
	"sluice/rules/scope"
)

// Examine returns the findings about a rule, the gravest first. It is pure.
func Examine(f *Facts) []Finding {
	if !f.Rule.IsActive {
		return nil
	}
	finders := []func(*Facts) *Finding{more, denies, abuse, strict, boundary, burst, shadowed}
	if f.Options.Regions <= 1 { // they conclude from traffic that is missing, and that of other regions is not known
		finders = append(finders, idle, far, overrides)
	}
	var out []Finding
	for _, find := range append(finders, trial, condition, field) {
		if found := find(f); found != nil {
			found.Rule = f.Rule.Name
			out = append(out, *found)
		}
	}
	return out
}

// page returns the path of a page below the page of the rule.
func (f *Facts) page(rest string) string {
	return "/console/rules/" + strconv.FormatInt(f.Rule.ID, 10) + rest
}

// traffic is the path of the traffic of the rule in the last day.
func (f *Facts) traffic() string {
	return "/console/traffic?" + url.Values{"rule": {f.Rule.Name}, "by": {history.ByKey}, "range": {"24h"}}.Encode()
}

// enforced reports whether the rule denies anything, so that figures of denials say something.
func (f *Facts) enforced() bool {
	return f.Rule.Mode != rules.ModeShadow && !f.Rule.Unlimited
}

// steady reports whether the rule has one limit all the time and for every key, and charges it when it decides.
func steady(r *rules.Rule) bool {
	return len(r.Tiers) == 0 && r.Schedule == nil && r.Calendar == nil && r.ChargeOn != rules.ChargeOnReport &&
		!r.Unlimited && r.HotRaisePercent == nil
}

func idle(f *Facts) *Finding {
	of, since, ok := f.wholeWeek()
	if !ok || of.Total() > 0 {
		return nil
	}
	text := "The rule matched no request for a week."
	if field := f.Rule.WeightField; field != nil {
		text += fmt.Sprintf(" It applies only to requests with the field %s.", *field)
	}
	return &Finding{Finding: MatchesNothing, Since: since, Link: f.page("/edit"),
		Numbers: map[string]int64{"requests": 0, "hours": int64(week / time.Hour)}, Text: text}
}

func more(f *Facts) *Finding {
	rise := attention.RiseOf(f.Edits)
	if rise == nil || !f.enforced() {
		return nil
	}
	percent := func(c attention.Counts) int64 { return c.Denied * 100 / c.Requests }
	before := "before none"
	if rise.Before.Denied > 0 {
		before = fmt.Sprintf("before %s of %s", quantity.Amount(rise.Before.Denied), quantity.Amount(rise.Before.Requests))
	}
	return &Finding{Finding: DeniesMore, Since: rise.At, Link: f.page(fmt.Sprintf("/rollback?to=%d", rise.Version-1)),
		Numbers: map[string]int64{"version": rise.Version, "requests": rise.Now.Requests, "denied": rise.Now.Denied,
			"denied_percent": percent(rise.Now), "requests_before": rise.Before.Requests,
			"denied_before": rise.Before.Denied, "denied_before_percent": percent(rise.Before)},
		Text: fmt.Sprintf("Since version %d (%s), the rule denies more: %s of %s requests %s, %s.",
			rise.Version, rise.What(), quantity.Amount(rise.Now.Denied), quantity.Amount(rise.Now.Requests), rise.When(),
			before)}
}

func denies(f *Facts) *Finding {
	of, since, ok := f.recently()
	if !ok || !f.enforced() || f.Rule.Limit == 0 || of.Total() < enoughInADay {
		return nil
	}
	denied := max(0, of.Denied-of.DegradedDenied) // the limit did not decide denials by fail modes
	if denied*100 < mostDenied*of.Total() {
		return nil
	}
	return &Finding{Finding: DeniesMost, Since: since, Link: f.traffic(),
		Numbers: map[string]int64{"requests": of.Total(), "denied": denied, "denied_percent": denied * 100 / of.Total()},
		Text:    fmt.Sprintf("The rule denied %s of %s requests.", quantity.Amount(denied), quantity.Amount(of.Total()))}
}

// surelyDenied are the keys that were denied, the most denied first, with as many denials as are sure.
func (f *Facts) surelyDenied() []history.Row {
	var out []history.Row
	for _, row := range f.Keys.Rows {
		if row.Denied -= row.Error; row.Denied > 0 {
			out = append(out, row)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Row) int { return cmp.Compare(b.Denied, a.Denied) })
	return out
}

func abuse(f *Facts) *Finding {
	of, since, ok := f.lastDay()
	if !ok || !f.enforced() || of.Denied < enoughInADay || len(f.Keys.Rows) < manyKeys {
		return nil
	}
	var few int64
	keys := f.surelyDenied()
	keys = keys[:min(fewKeys, len(keys))]
	for i := range keys {
		few += keys[i].Denied
	}
	if few*100 < abuseShare*of.Denied {
		return nil
	}
	few = min(few, of.Denied)
	return &Finding{Finding: Abuse, Since: since, Link: f.traffic(),
		Numbers: map[string]int64{"denied": of.Denied, "keys": int64(len(keys)), "denied_of_keys": few,
			"denied_of_keys_percent": few * 100 / of.Denied},
		Text: fmt.Sprintf("%s made %s of %s denials.", quantity.Plural(int64(len(keys)), "key"), quantity.Amount(few),
			quantity.Amount(of.Denied))}
}

func strict(f *Facts) *Finding {
	of, since, ok := f.lastDay()
	if !ok || !f.enforced() {
		return nil
	}
	found := f.littleDenied()
	if found == nil {
		found = f.littleDeniedTogether(of)
	}
	var minutes, passed int64
	for i := range f.Minutes {
		m := &f.Minutes[i]
		if m.Denied == 0 {
			continue
		}
		minutes++
		if m.Allowed > m.Denied || i+1 < len(f.Minutes) && f.Minutes[i+1].Known && f.Minutes[i+1].Allowed > m.Denied {
			passed++
		}
	}
	if found == nil || minutes == 0 || passed*100 < nearlyAll*minutes {
		return nil
	}
	found.Finding, found.Since, found.Link = TooStrict, since, f.traffic()
	found.Text += " and let through soon after."
	found.Numbers["minutes"], found.Numbers["minutes_passed"] = minutes, passed
	return found
}

// littleDenied begins a finding if many keys were denied, nearly all of them a little. It knows the most active keys.
func (f *Facts) littleDenied() *Finding {
	keys, little := f.surelyDenied(), int64(0)
	for i := range keys {
		k := &keys[i]
		if most := k.Denied + 2*k.Error; most*100 <= littleDenied*(most+max(0, k.Allowed-k.Error)) {
			little++
		}
	}
	if len(keys) < manyKeys || little*100 < nearlyAll*int64(len(keys)) {
		return nil
	}
	return &Finding{Numbers: map[string]int64{"keys": int64(len(keys)), "keys_little_above": little},
		Text: fmt.Sprintf("At least %s keys were denied, %s of them only a little above the limit",
			quantity.Amount(int64(len(keys))), quantity.Amount(little))}
}

// littleDeniedTogether begins a finding if many keys were denied, and together a little: too many keys for the counts
// of the most active ones to say something. Each key that was denied passed its limit at least once before.
func (f *Facts) littleDeniedTogether(of history.Figures) *Finding {
	n, mayDiffer, known := f.Keys.Denied.Estimate()
	keys := n - mayDiffer
	l, err := f.Rule.LimiterLimit()
	if !known || err != nil || keys < manyKeys || f.Keys.Rest == 0 || !f.bursts() || f.Rule.Traits().Slots ||
		of.Degraded > 0 || of.Shed > 0 {
		return nil
	}
	each := l.Count
	if l.Burst > 0 {
		each = min(each, l.Burst)
	}
	passed := min(keys*each, of.Allowed)
	if of.Denied*100 > littleDenied*(of.Denied+passed) {
		return nil
	}
	return &Finding{Numbers: map[string]int64{"keys": keys, "denied": of.Denied, "passed_of_keys": passed},
		Text: fmt.Sprintf("At least %s keys were denied, together at most %s of their requests", quantity.Amount(keys),
			quantity.Percent((of.Denied*100+of.Denied+passed-1)/(of.Denied+passed)))}
}

// surelyPassed is how many requests of a period surely passed within the limit.
func surelyPassed(f *history.Figures) int64 {
	return max(0, f.Allowed-f.Soft-f.Elastic-f.Degraded)
}

// bursts reports whether what passes at once can be compared with the limit.
func (f *Facts) bursts() bool {
	return f.enforced() && steady(&f.Rule) && len(f.Overrides) == 0 && f.Rule.WeightField == nil && f.Rule.Limit > 0 &&
		f.Rule.WindowMS > 0
}

func burst(f *Facts) *Finding {
	t := f.Rule.Traits()
	of, since, ok := f.lastDay()
	if !ok || !f.bursts() || t.Slots || t.Decay == limiter.DecayDrain {
		return nil
	}
	keys := f.Keys.count(&f.Rule, of)
	if keys == 0 {
		return nil
	}
	var most int64
	for i := range f.Minutes {
		if m := &f.Minutes[i]; m.Known { // the peak counts denials too, at most all of the minute
			most = max(most, m.Peak-m.Denied-m.Soft-m.Elastic-m.Degraded)
		}
	}
	passed := (most + keys - 1) / keys // of at least one key
	times := passed * f.Rule.WindowMS / 1000 / f.Rule.Limit
	if passed < burstLeast || times < burstTimes || passed*100 < burstShare*f.Rule.Limit {
		return nil
	}
	return &Finding{Finding: UselessInBursts, Since: since, Link: f.page("/edit"),
		Numbers: map[string]int64{"passed": passed, "limit": f.Rule.Limit, "times": times, "keys": keys},
		Text: fmt.Sprintf("%s requests of a key passed in one second, %s times limit/window. A bucket with a burst would "+
			"spread them.", quantity.Amount(passed), quantity.Amount(times))}
}

func boundary(f *Facts) *Finding {
	if !f.bursts() || f.Rule.Traits().Decay != limiter.DecayAtOnce {
		return nil
	}
	of, _, ok := f.lastDay()
	keys := f.Keys.count(&f.Rule, of)
	points, step := f.Minutes, time.Minute
	window := time.Duration(f.Rule.WindowMS) * time.Millisecond
	if window < secondsUpTo {
		points, step = f.Seconds, time.Second
	}
	if f.Rule.Scope != scope.Global && (!ok || keys == 0 || step == time.Second) {
		return nil // the keys of the last seconds are not known
	}
	n := int((window+step-1)/step) - 1 // points that are shorter than a window
	var inSpan, most int64
	var since time.Time
	for i := range points {
		inSpan += surelyPassed(&points[i].Figures)
		if i >= n {
			inSpan -= surelyPassed(&points[i-n].Figures)
		}
		if inSpan > most {
			most, since = inSpan, points[max(0, i-n+1)].At
		}
	}
	passed := (most + max(1, keys) - 1) / max(1, keys)
	if n < 1 || passed*100 < boundaryShare*f.Rule.Limit {
		return nil
	}
	return &Finding{Finding: WindowBoundary, Since: since, Link: f.page("/edit"),
		Numbers: map[string]int64{"passed": passed, "limit": f.Rule.Limit, "passed_percent": passed * 100 / f.Rule.Limit},
		Text: fmt.Sprintf("%s requests of a key passed in less than a window of %s, across its boundary. A sliding window "+
			"has none.", quantity.Amount(passed), quantity.Amount(f.Rule.Limit))}
}

// secondsUpTo is the window from which the boundary shows in minutes.
const secondsUpTo = 3 * time.Minute

func shadowed(f *Facts) *Finding {
	of, since, ok := f.wholeWeek()
	if !ok || !f.enforced() || of.Denied > 0 || of.Total() < enoughInAWeek {
		return nil
	}
	for _, by := range f.Stricter {
		if by.Denied > 0 {
			return &Finding{Finding: Shadowed, Since: since, Link: f.page(""),
				Numbers: map[string]int64{"requests": of.Total(), "denied": 0, "denied_by_stricter": by.Denied},
				Text: fmt.Sprintf("The stricter rule %s applies to every request of this rule and denied %s. This one "+
					"denied none of %s.", by.Rule, quantity.Amount(by.Denied), quantity.Amount(of.Total()))}
		}
	}
	return nil
}

func far(f *Facts) *Finding {
	of, since, ok := f.wholeWeek()
	if !ok || !f.enforced() || of.Total() < enoughInAWeek || of.Use == 0 || of.UsePercent() > littleUsed || of.Denied > 0 {
		return nil
	}
	for i := range f.Hours {
		if h := &f.Hours[i]; h.Total() > 0 && h.Use == 0 || h.Degraded > 0 {
			return nil // the use is not known
		}
	}
	return &Finding{Finding: FarAboveUse, Since: since, Link: f.page("/edit"),
		Numbers: map[string]int64{"requests": of.Total(), "limit": f.Rule.Limit, "use_percent": of.UsePercent()},
		Text: fmt.Sprintf("No key used more than %s of the limit in %s requests.", quantity.Percent(of.UsePercent()),
			quantity.Amount(of.Total()))}
}

// shownOverrides is how many overrides a text names.
const shownOverrides = 3

func overrides(f *Facts) *Finding {
	if len(f.Overrides) == 0 {
		return nil
	}
	of, since, ok := f.wholeWeek()
	nothing := ok && of.Total() == 0
	used := map[string]bool{}
	if !nothing {
		if of, ok = sum(f.Days); !ok || f.DayKeys.count(&f.Rule, of) == 0 {
			return nil
		}
		if since = f.Days[0].At; !f.sameSince(since) {
			return nil
		}
		for _, row := range slices.Concat(f.DayKeys.Rows, f.Keys.Rows) {
			key, err := match.ReadOverrideKey(&f.Rule, f.Options, row.Key)
			if err != nil {
				return nil // nobody can say which override applies to this key
			}
			used[key.Match] = true
		}
	}
	var unused []string
	for i := range f.Overrides {
		o := &f.Overrides[i]
		several := o.Prefix || strings.Contains(o.Key, "/") // a wildcard or a network, perhaps a route
		if !o.UpdatedAt.After(since) && !used[o.Match] && (nothing || !several) {
			unused = append(unused, o.Key)
		}
	}
	if unused == nil {
		return nil
	}
	shown := strings.Join(unused[:min(shownOverrides, len(unused))], ", ")
	if len(unused) > shownOverrides {
		shown += ", …"
	}
	return &Finding{Finding: UnusedOverride, Since: since, Link: f.page("/overrides"),
		Numbers: map[string]int64{"overrides": int64(len(unused)), "requests": of.Total()},
		Text:    fmt.Sprintf("No request had the key of %s: %s.", quantity.Plural(int64(len(unused)), "override"), shown)}
}

func trial(f *Facts) *Finding {
	of, since, ok := f.wholeWeek()
	edited := ok && f.Rule.UpdatedAt.After(f.Hours[0].At) // perhaps the candidate, which changes no decision
	if !ok || edited || !f.Rule.OnTrial() || of.Total() < enoughInAWeek || of.WouldDeny+of.WouldAllow > 0 {
		return nil
	}
	what := "shadow rule"
	if f.Rule.Candidate != nil {
		what = "candidate"
	}
	return &Finding{Finding: QuietTrial, Since: since, Link: f.page("/turn?to=promote"),
		Numbers: map[string]int64{"requests": of.Total(), "changed": 0},
		Text: fmt.Sprintf("The %s would have changed none of %s requests. Promote it?", what,
			quantity.Amount(of.Total()))}
}

func condition(f *Facts) *Finding {
	of, since, ok := f.recently()
	if !ok || of.Failed == 0 {
		return nil
	}
	return &Finding{Finding: ConditionFailed, Since: since, Link: f.page("/edit"),
		Numbers: map[string]int64{"requests": of.Total(), "failed": of.Failed},
		Text: fmt.Sprintf("The condition failed for %s of %s requests, so that the rule applied to them. Explain says why.",
			quantity.Amount(of.Failed), quantity.Amount(of.Total()))}
}

func field(f *Facts) *Finding {
	of, since, ok := f.recently()
	if f.Rule.WeightField == nil || f.Guarded || !ok || !f.enforced() || of.Total() == 0 ||
		f.Rule.ChargeOn == rules.ChargeOnReport {
		return nil
	}
	return &Finding{Finding: UnguardedField, Since: since, Link: f.page("/edit"),
		Numbers: map[string]int64{"requests": of.Total()},
		Text: fmt.Sprintf("The rule does not apply to requests without the field %s. To deny them, add a rule with limit 0 "+
			"and the condition %s. If they may pass, give this rule the condition %q in fields.", *f.Rule.WeightField,
			f.Rule.FieldGuard(), *f.Rule.WeightField)}
}
