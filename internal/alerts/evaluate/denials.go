package evaluate

import (
	"maps"
	"slices"

	"sluice/internal/alerts"
)

const (
	// leastRequests is the fewest requests in a minute of which a share is evidence.
	leastRequests = 20
	// offShare is how far, in percent of a threshold, figures must fall until the alert is over.
	offShare = 80
	// seconds is the length of the time that Minute covers.
	seconds = 60
)

// threshold is when the denials of a rule are an alert. 0 turns a half of it off.
type threshold struct{ percent, perSecond int64 }

// on reports whether figures reached the threshold.
func (t threshold) on(m Minute) bool {
	return t.percent > 0 && m.Requests >= leastRequests && m.Denied*100 >= t.percent*m.Requests ||
		t.perSecond > 0 && m.Denied >= t.perSecond*seconds
}

// off reports whether figures are clearly below it.
func (t threshold) off(m Minute) bool {
	return (t.percent == 0 || m.Requests < leastRequests/2 || m.Denied*100*100 < t.percent*offShare*m.Requests) &&
		(t.perSecond == 0 || m.Denied*100 < t.perSecond*seconds*offShare)
}

// thresholds returns the thresholds of the webhooks, by their level. Without a webhook it returns the default
// thresholds of a new one, for the console.
func (e *evaluation) thresholds() map[string]threshold {
	out := map[string]threshold{}
	add := func(w *alerts.Webhook) {
		if w.DeniedPercent > 0 || w.DeniedPerSecond > 0 {
			out[w.Thresholds()] = threshold{w.DeniedPercent, w.DeniedPerSecond}
		}
	}
	for i := range e.Webhooks {
		w := &e.Webhooks[i]
		if w.IsActive && (len(w.Kinds) == 0 || slices.Contains(w.Kinds, string(alerts.KindRuleDenials))) {
			add(w)
		}
	}
	if len(out) == 0 {
		w := alerts.NewWebhook()
		add(&w)
	}
	return out
}

// seeDenials sees which rules deny much.
func (e *evaluation) seeDenials() {
	if e.Minute == nil {
		return
	}
	levels := e.thresholds()
	names := slices.Sorted(maps.Keys(levels))
	for _, rule := range slices.Sorted(maps.Keys(e.Minute)) {
		id, inForce := e.Rules[rule]
		m := e.Minute[rule]
		for _, level := range names {
			of := alerts.Subject{Kind: alerts.KindRuleDenials, Rule: rule, Level: level}
			known := e.states.subjects[of.String()]
			lasts := known != nil && known.On && !levels[level].off(m)
			if inForce && (lasts || levels[level].on(m)) {
				e.figure(of, alerts.On, Details{RuleID: id, Numbers: map[string]int64{"denied": m.Denied,
					"requests": m.Requests, "denied_percent": m.Denied * 100 / max(1, m.Requests)}})
			}
		}
	}
	for name, s := range e.states.subjects {
		if s.Subject.Kind != alerts.KindRuleDenials || !s.On {
			continue
		}
		if level, asked := levels[s.Subject.Level]; !asked || level.off(e.Minute[s.Subject.Rule]) {
			e.over = append(e.over, name)
		}
	}
	e.endOver()
}

// seeIdle sees which rules match nothing.
func (e *evaluation) seeIdle() {
	for _, rule := range slices.Sorted(maps.Keys(e.Idle)) {
		state := alerts.Off
		if e.Idle[rule] && e.Minute[rule].Requests == 0 {
			state = alerts.On
		}
		e.figure(alerts.Subject{Kind: alerts.KindRuleIdle, Rule: rule}, state, Details{RuleID: e.Rules[rule]})
	}
	for name, s := range e.states.subjects {
		if s.Subject.Kind == alerts.KindRuleIdle && s.On && e.Minute[s.Subject.Rule].Requests > 0 {
			e.over = append(e.over, name)
		}
	}
	e.endOver()
}

// endOver ends the conditions of figures that were found to be over, in the order of their names.
func (e *evaluation) endOver() {
	slices.Sort(e.over)
	for _, name := range e.over {
		e.figure(e.states.subjects[name].Subject, alerts.Off, Details{})
	}
	e.over = nil
}

// figure sees what shared figures say about a subject.
func (e *evaluation) figure(s alerts.Subject, state string, d Details) {
	e.see(&Sighting{Subject: s, State: state, Node: figuresNode, At: e.Now.UnixMilli(), Details: d})
}
