package evaluate

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/internal/alerts"
)

// Facts are the input of an evaluation.
type Facts struct {
	Now time.Time
	// Quiet is how long after an alert further ones about its subject are only counted.
	Quiet time.Duration
	// Reports are the unread reports, oldest first.
	Reports []alerts.Report
	// Sightings are of figures that all nodes share.
	Sightings []Sighting
	Webhooks  []alerts.Webhook
	// Silences keep the beginnings of alerts from being sent. Those that have ended count for nothing.
	Silences []alerts.Silence
	// Rules are the ids of the rules in force by name, nil if they are not known.
	Rules map[string]int64
	// Minute are the figures of the last minute by rule, nil if they are not known.
	Minute map[string]Minute
	// Idle are the rules that were examined since the last evaluation: true for one that matched no request for a week.
	Idle map[string]bool
}

// Minute counts the requests of a rule in the last minute. Denied counts denials by the limit, not by fail modes.
type Minute struct{ Requests, Denied int64 }

// Counts counts the sightings of an evaluation that were not used.
type Counts struct {
	// Ignored are sightings of subjects beyond the bound, by kind. Unreadable are reports that this build does not
	// understand.
	Ignored    map[alerts.Kind]int64
	Unreadable int64
}

// Result is the result of an evaluation. States are the states after it: use them once Changes are stored.
type Result struct {
	Changes alerts.Changes
	States  *States
	Counts  Counts
}

// figuresNode names the place that observes conditions of shared figures.
const figuresNode = "figures"

// goneAfter is how long a reported condition is kept if its rule is not in force here: this node may load a new rule
// later than the reporting node.
const goneAfter = 15 * time.Second

// Evaluate decides which events and messages are sent. It is pure and changes neither of its arguments.
func Evaluate(states *States, f *Facts) Result {
	e := evaluation{Facts: f, states: states.clone(), changed: map[string]bool{}, owned: map[string]bool{},
		full: map[alerts.Kind]bool{}, counts: Counts{Ignored: map[alerts.Kind]int64{}}}
	maps.Copy(e.changed, states.unsaved)
	e.correctClock()
	for i := range f.Reports {
		e.read = append(e.read, f.Reports[i].ID)
		if s, ok := sightingOf(&f.Reports[i]); ok {
			e.see(&s)
		} else {
			e.counts.Unreadable++
		}
	}
	for i := range f.Sightings {
		e.see(&f.Sightings[i])
	}
	e.seeDenials()
	e.seeIdle()
	for _, name := range slices.Sorted(maps.Keys(e.states.subjects)) {
		e.forgetOld(name)
		e.tellLate(name)
		e.cleanUp(name)
	}
	messages := e.messages()
	return Result{
		Changes: alerts.Changes{Events: e.events, Messages: messages, States: e.states.stored(e.changed), Read: e.read},
		States:  e.states, Counts: e.counts,
	}
}

// evaluation is one evaluation on its way.
type evaluation struct {
	*Facts
	states *States
	// changed are the names of the states to be stored. owned are subjects that are copies already.
	changed, owned map[string]bool
	events         []alerts.Event
	read           []int64
	counts         Counts
	// full are the kinds without room, as all their subjects are on: each further sighting would look at all of them.
	full map[alerts.Kind]bool
	// refreshed counts the conditions whose figures were renewed.
	refreshed int
	// over are the names of conditions that figures found to be over.
	over []string
}

// correctClock corrects times after this evaluation, which another node's clock left behind: nobody waits for them.
func (e *evaluation) correctClock() {
	now := e.Now.UnixMilli()
	soon := now + time.Second.Milliseconds() // Since may be a little later than it was
	for name, s := range e.states.subjects {
		if s.ToldAt > now || s.Since > soon || s.Figures > now {
			s = e.edit(name)
			s.ToldAt, s.Since, s.Figures = min(s.ToldAt, now), min(s.Since, soon), min(s.Figures, now)
		}
	}
	for name, b := range e.states.budgets {
		if b.Began > now {
			own := *b
			own.Began = now
			e.states.budgets[name] = &own
		}
	}
}

// own returns the subject of a name, which may be changed.
func (e *evaluation) own(name string) *subject {
	if !e.owned[name] {
		e.states.subjects[name] = e.states.subjects[name].clone()
		e.owned[name] = true
	}
	return e.states.subjects[name]
}

// edit is own for a change that is stored.
func (e *evaluation) edit(name string) *subject {
	s := e.own(name)
	s.Changed = e.Now.UnixMilli()
	e.changed[name] = true
	return s
}

// see takes a sighting over.
func (e *evaluation) see(s *Sighting) {
	name := s.Subject.String()
	known := e.states.subjects[name]
	switch {
	case s.State == alerts.Off:
		if known == nil || known.Seen[s.Node] == nil || s.Seq > 0 && s.Seq <= known.Seen[s.Node].Seq {
			return
		}
		delete(e.edit(name).Seen, s.Node)
		e.settle(name, s)
		return
	case known == nil && !e.room(s.Subject.Kind):
		e.counts.Ignored[s.Subject.Kind]++
		return
	case known == nil:
		e.states.add(name, &subject{Subject: s.Subject, Seen: map[string]*seen{}})
		e.owned[name] = true
	}
	at := e.own(name).Seen[s.Node]
	switch {
	case at == nil && len(e.own(name).Seen) >= maxNodes:
		return
	case at == nil:
		at = &seen{Seq: s.Seq, Address: s.Address, LifeMS: s.LifeMS}
		e.edit(name).Seen[s.Node] = at
	case s.Seq > 0 && s.Seq <= at.Seq:
		return // read before
	case at.LifeMS != s.LifeMS || at.Address != s.Address:
		at = e.edit(name).Seen[s.Node]
		at.LifeMS, at.Address = s.LifeMS, s.Address
	}
	at.last, at.Seq = e.Now, max(at.Seq, s.Seq)
	e.settle(name, s)
	e.refresh(name, s)
}

// room makes room for another subject of a kind, if it can: by forgetting one that is over, the oldest.
func (e *evaluation) room(kind alerts.Kind) bool {
	switch {
	case e.states.ofKind[kind] < maxSubjects:
		return true
	case e.full[kind]:
		return false
	}
	oldest := ""
	for name, s := range e.states.subjects {
		if s.Subject.Kind == kind && !s.On && (oldest == "" || s.ToldAt < e.states.subjects[oldest].ToldAt) {
			oldest = name
		}
	}
	if oldest == "" {
		e.full[kind] = true
		return false
	}
	e.states.remove(oldest)
	e.changed[oldest] = true
	return true
}

// settle follows from where a subject is seen whether its condition is met, and tells a change or counts it.
func (e *evaluation) settle(name string, by *Sighting) {
	s := e.states.subjects[name]
	on := len(s.Seen) > 0
	switch {
	case on && !s.On:
		s = e.edit(name)
		before, now := s.Since, e.Now.UnixMilli()
		s.On, s.Since = true, now
		if by.At > 0 && by.At < now && now-by.At < keptCounted.Milliseconds() {
			s.Since = by.At
		}
		s.Since = max(s.Since, before+1) // it is part of the id, and two changes may have one time
		s.Figures, s.By = e.figuresAt(by), by.Node
		s.Data = dataOf(s, alerts.On, &by.Details)
		if !e.quiet(s) {
			e.tell(name, alerts.On)
		} else {
			s.Counted++
		}
	case !on && s.On:
		s = e.edit(name)
		s.On = false
		delete(e.full, s.Subject.Kind)
		if s.Told == alerts.On {
			e.tell(name, alerts.Off)
		}
	case on && e.changed[name] && !slices.Equal(s.Data.Nodes, s.addresses()):
		s = e.edit(name)
		s.Data.Nodes = s.addresses()
	}
}

// quiet reports whether alerts about a subject are only counted. An alert that was not sent, because it was muted,
// makes nobody wait once its subject is no longer muted.
func (e *evaluation) quiet(s *subject) bool {
	return s.ToldAt > 0 && e.Now.Sub(time.UnixMilli(s.ToldAt)) < e.Quiet && (!s.Muted || e.muted(s))
}

// muted reports whether a silence or an acknowledgement keeps the beginning of a subject from being sent now.
func (e *evaluation) muted(s *subject) bool {
	if len(e.Silences) == 0 {
		return false
	}
	uid := s.uid(alerts.On)
	return slices.ContainsFunc(e.Silences, func(by alerts.Silence) bool { return by.Covers(&s.Subject, uid, e.Now) })
}

// tell creates the event for the new state of a subject.
func (e *evaluation) tell(name, state string) {
	s := e.edit(name)
	event := alerts.Event{UID: s.uid(state), At: e.Now.UTC().Truncate(time.Millisecond), Kind: s.Subject.Kind,
		State: state, Subject: s.Subject, Data: s.Data}
	s.Told = state
	if state == alerts.On {
		event.Data.Suppressed = s.Counted
		s.ToldAt = e.Now.UnixMilli()
		s.Muted = e.muted(s)
		event.Silenced = s.Muted
		if !s.Muted { // else the next message says how many
			s.Counted = 0
		}
	} else {
		event.Data = dataOf(s, state, &Details{RuleID: e.Rules[s.Subject.Rule],
			Numbers: map[string]int64{"seconds": max(0, e.Now.UnixMilli()-s.Since) / 1000}})
		if event.Kind == alerts.KindFailModeEngaged {
			event.Kind = alerts.KindFailModeEnded
		}
	}
	e.events = append(e.events, event)
}

// uid returns the UID of the event of a state. It is the same if the evaluation is repeated.
func (s *subject) uid(state string) string {
	return digest(s.Subject.String(), state, fmt.Sprint(s.Since))
}

// digest is a short name for some texts.
func digest(texts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", texts))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15])
}

// dataOf is what an event of a subject says.
func dataOf(s *subject, state string, d *Details) alerts.Data {
	since := time.UnixMilli(s.Since).UTC()
	out := alerts.Data{State: state, Text: textOf(s, state, d), Rule: s.Subject.Rule, Key: s.Subject.Key,
		Numbers: d.Numbers, Cause: d.Cause, Since: &since, Path: pathOf(&s.Subject, d)}
	if state == alerts.On {
		out.Nodes = s.addresses()
	}
	return out
}

// forgetOld ends the sightings of a subject that were not seen again in their life, and of rules that are gone.
func (e *evaluation) forgetOld(name string) {
	s := e.states.subjects[name]
	if !s.On {
		return
	}
	_, known := e.Rules[s.Subject.Rule]
	gone := s.Subject.Rule != "" && e.Rules != nil && !known
	heard := e.Now.Sub(time.UnixMilli(s.Since)) >= goneAfter
	var over []string
	for node, at := range s.Seen {
		if gone && (heard || node == figuresNode) || at.LifeMS > 0 && e.Now.Sub(at.last) > life(at.LifeMS) {
			over = append(over, node)
		}
	}
	if over == nil && len(s.Seen) > 0 {
		return
	}
	s = e.edit(name)
	for _, node := range over {
		delete(s.Seen, node)
	}
	e.settle(name, &Sighting{})
}

// tellLate creates the event for a condition that began in a quiet time which has ended, or that was muted and is no
// longer. The latter has the same UID as before, so that the history has it once.
func (e *evaluation) tellLate(name string) {
	s := e.states.subjects[name]
	switch {
	case s.On && s.Told == alerts.On && s.Muted && !e.muted(s):
		e.tell(name, alerts.On)
	case s.On && s.Told != alerts.On && !e.quiet(s):
		late := e.edit(name)
		late.Counted = max(0, late.Counted-1) // it was counted, and is sent now
		e.tell(name, alerts.On)
	}
}

// cleanUp forgets a subject that has nothing left to say.
func (e *evaluation) cleanUp(name string) {
	s := e.states.subjects[name]
	if s.On || e.quiet(s) || s.Counted > 0 && e.Now.Sub(time.UnixMilli(s.ToldAt)) < keptCounted {
		return
	}
	e.states.remove(name)
	e.changed[name] = true
}
