package evaluate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"sluice/internal/alerts"
)

const (
	// oneByOne is how many alerts of a kind a webhook gets one by one in a period. The further ones are a summary.
	oneByOne = 5
	period   = time.Minute
	// shownAlerts is how many alerts a summary shows.
	shownAlerts = 10
)

// outgoing is a message and the place of its event among the events.
type outgoing struct {
	alerts.Message
	place int
}

// messages returns the messages of the events to the webhooks. A few alerts of a kind are sent one by one; further ones
// are summarised at the end of the period. Many alerts at once are summarised immediately.
func (e *evaluation) messages() (out []alerts.Message) {
	asked := map[string]bool{} // budgets that are still of a webhook
	for i := range e.Webhooks {
		w := &e.Webhooks[i]
		places := map[alerts.Kind][]int{}
		for j := range e.events {
			if ev := &e.events[j]; w.Wants(ev) && !ev.Silenced {
				places[ev.Kind] = append(places[ev.Kind], j)
			}
		}
		var all []outgoing
		for _, k := range alerts.Kinds() {
			name := budgetPrefix + k + "|" + strconv.FormatInt(w.ID, 10)
			asked[name] = true
			all = append(all, e.spend(name, w, alerts.Kind(k), places[alerts.Kind(k)])...)
		}
		slices.SortStableFunc(all, func(a, b outgoing) int { return a.place - b.place })
		for i := range all {
			out = append(out, all[i].Message)
		}
	}
	for name := range e.states.budgets {
		if !asked[name] {
			e.setBudget(name, nil)
		}
	}
	return out
}

// spend returns the messages of a kind to a webhook about the events at some places, within the budget.
func (e *evaluation) spend(name string, w *alerts.Webhook, kind alerts.Kind, places []int) (out []outgoing) {
	var b budget
	if open := e.states.budgets[name]; open != nil {
		b = *open
		b.First = slices.Clone(b.First)
	}
	now := e.Now.UnixMilli()
	began := b.Began != 0
	if began && e.Now.Sub(time.UnixMilli(b.Began)) >= period {
		many := b.Counted > 0
		if many {
			out = append(out, outgoing{e.summary(w, kind, &b), -1})
		}
		b, began = budget{}, false
		if many && len(places) > 0 { // the flood continues: none of its alerts is sent alone
			b, began = budget{Began: now, Sent: oneByOne}, true
		}
	}
	switch {
	case len(places) == 0:
		if began || e.states.budgets[name] == nil {
			return out // nothing changed
		}
	case !began && len(places) > oneByOne:
		b = budget{Began: now, Sent: oneByOne}
		e.wait(&b, places)
		out = append(out, outgoing{e.summary(w, kind, &b), places[0]})
		b.Counted, b.Ended, b.First, b.UID = 0, 0, nil, ""
	case b.Sent+len(places) <= oneByOne:
		if !began {
			b.Began = now
		}
		b.Sent += len(places)
		for _, place := range places {
			out = append(out, outgoing{message(w, &e.events[place]), place})
		}
	default:
		b.Sent = oneByOne
		e.wait(&b, places)
	}
	if b.Began == 0 {
		e.setBudget(name, nil)
	} else {
		e.setBudget(name, &b)
	}
	return out
}

// setBudget keeps a budget, nil for none.
func (e *evaluation) setBudget(name string, b *budget) {
	e.changed[name] = true
	if b == nil {
		delete(e.states.budgets, name)
		return
	}
	b.Changed = e.Now.UnixMilli()
	e.states.budgets[name] = b
}

// wait adds the events at some places to the summary.
func (e *evaluation) wait(b *budget, places []int) {
	for _, place := range places {
		if b.Counted++; b.Counted == 1 {
			b.UID = e.events[place].UID
		}
		if e.events[place].State == alerts.Off {
			b.Ended++
		}
		if len(b.First) < shownAlerts {
			b.First = append(b.First, e.events[place].Data)
		}
	}
}

// message is an event for a webhook.
func message(w *alerts.Webhook, ev *alerts.Event) alerts.Message {
	return alerts.Message{ID: messageID(w, ev.UID), Webhook: w.ID, Subject: ev.Subject.String(), Type: string(ev.Kind),
		At: ev.At, Body: alerts.BodyOf(w.Format, string(ev.Kind), ev.At, &ev.Data)}
}

// summary returns a message about the waiting events.
func (e *evaluation) summary(w *alerts.Webhook, kind alerts.Kind, b *budget) alerts.Message {
	data := alerts.Data{Text: summaryText(kind, b.Counted, b.Ended), Kind: kind, Count: b.Counted, Alerts: b.First,
		Path: "/console/alerts"}
	at := e.Now.UTC().Truncate(time.Millisecond)
	return alerts.Message{ID: messageID(w, b.UID, fmt.Sprint(b.Counted)), Webhook: w.ID, Type: alerts.TypeSummary, At: at,
		Subject: alerts.TypeSummary + "|" + string(kind), Body: alerts.BodyOf(w.Format, alerts.TypeSummary, at, &data)}
}

// messageID returns the id of a message. It is the same if the evaluation is repeated.
func messageID(w *alerts.Webhook, of ...string) string {
	return "msg_" + digest(append([]string{strconv.FormatInt(w.ID, 10)}, of...)...)
}

// active returns the active conditions, at most most: first conditions of all nodes, then of rules, then of keys, each
// newest first. Conditions of keys can be many, and must not hide that fail modes decide.
func (st *States) active(most int) []alerts.Event {
	var out []alerts.Event
	for _, name := range slices.Sorted(maps.Keys(st.subjects)) {
		if s := st.subjects[name]; s.On {
			out = append(out, s.active())
		}
	}
	slices.SortStableFunc(out, func(a, b alerts.Event) int {
		return cmp.Or(cmp.Compare(reach(&a.Subject), reach(&b.Subject)), b.At.Compare(a.At))
	})
	return out[:min(most, len(out))]
}

// reach is 0 for a subject that is about all nodes, 1 for a rule, 2 for a key.
func reach(s *alerts.Subject) int {
	switch {
	case s.Key != "":
		return 2
	case s.Rule != "":
		return 1
	}
	return 0
}
