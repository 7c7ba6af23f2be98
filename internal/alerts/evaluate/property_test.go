package evaluate

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/alerts"
)

// told is what was told about a subject.
type told struct {
	state string
	on    []time.Time
	begun int64 // alerts that began, told or counted
	since int64 // of them, those that the events told of account for
}

// Nodes report what they like, in any order, and the evaluator restarts from what is stored whenever it likes.
func TestEvaluate_Properties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tb := newTable(t)
		tb.life = 0 // for ever
		second := alerts.NewWebhook()
		second.ID, second.Name, second.Rules = 2, "charges-only", []string{"charges"}
		tb.facts.Webhooks = append(tb.facts.Webhooks, second)
		subjects := []alerts.Subject{{Kind: alerts.KindSetRefused}, {Kind: alerts.KindFailModeEngaged}}
		for i := range 9 {
			s := usageOf("user:" + strconv.Itoa(i))
			s.Rule = []string{"charges", "search"}[i%2]
			subjects = append(subjects, s)
		}
		seen := map[string]*told{}
		uids, ids := map[string]bool{}, map[string]bool{}
		events, wanted := map[alerts.Kind]int64{}, map[string]int64{}
		sent := map[string]int64{}
		model := map[string]map[string]bool{} // subject to the nodes that see it
		perPeriod := map[string][]time.Time{}
		var before *Facts

		check := func(r *Result) {
			for i := range r.Changes.Events {
				e := &r.Changes.Events[i]
				name := e.Subject.String()
				s := seen[name]
				if s == nil {
					s = &told{}
					seen[name] = s
				}
				if uids[e.UID] {
					rt.Fatalf("the event %s of %s was told twice", e.UID, name)
				}
				uids[e.UID] = true
				if e.State == s.state || s.state == "" && e.State == alerts.Off {
					rt.Fatalf("%s: %q was told after %q", name, e.State, s.state)
				}
				s.state = e.State
				if e.State == alerts.On {
					if n := len(s.on); n > 0 && e.At.Sub(s.on[n-1]) < quiet {
						rt.Fatalf("%s: told at %s and %s", name, s.on[n-1], e.At)
					}
					s.on = append(s.on, e.At)
					s.since += 1 + e.Data.Suppressed
					if s.since > s.begun {
						rt.Fatalf("%s: it began %d times, and %d were told", name, s.begun, s.since)
					}
				}
				events[e.Kind]++
				for j := range tb.facts.Webhooks {
					if w := &tb.facts.Webhooks[j]; w.Wants(e) {
						wanted[fmt.Sprint(w.ID, e.Kind)]++
					}
				}
			}
			for i := range r.Changes.Messages {
				m := &r.Changes.Messages[i]
				if ids[m.ID] {
					rt.Fatalf("the message %s was made twice", m.ID)
				}
				ids[m.ID] = true
				b := body(t, m)
				kind, n := b.Type, int64(1)
				if b.Type == alerts.TypeSummary {
					kind, n = string(b.Data.Kind), b.Data.Count
					if n < int64(len(b.Data.Alerts)) || len(b.Data.Alerts) == 0 {
						rt.Fatalf("a summary of %d shows %d", n, len(b.Data.Alerts))
					}
				}
				to := fmt.Sprint(m.Webhook, alerts.Kind(kind))
				sent[to] += n
				perPeriod[to] = append(perPeriod[to], tb.facts.Now)
				if k := len(perPeriod[to]); k > 2*oneByOne+2 && tb.facts.Now.Sub(perPeriod[to][k-2*oneByOne-3]) < period {
					rt.Fatalf("%s got %d messages in less than a period", to, 2*oneByOne+3)
				}
			}
		}
		evaluate := func(after time.Duration) {
			for i := range tb.facts.Reports { // what a model makes of the reports, one after the other
				s, ok := sightingOf(&tb.facts.Reports[i])
				if !ok {
					rt.Fatal("a report cannot be read")
				}
				name := s.Subject.String()
				nodes := model[name]
				if nodes == nil {
					nodes = map[string]bool{}
					model[name] = nodes
				}
				was := len(nodes)
				if s.State == alerts.On {
					nodes[s.Node] = true
				} else {
					delete(nodes, s.Node)
				}
				if was == 0 && len(nodes) == 1 {
					if seen[name] == nil {
						seen[name] = &told{}
					}
					seen[name].begun++
				}
			}
			before = new(tb.facts)
			before.Reports = slices.Clone(before.Reports)
			r := tb.evaluate(after)
			check(&r)
			for name, nodes := range model {
				s := r.States.subjects[name]
				if on := s != nil && s.On; on != (len(nodes) > 0) {
					rt.Fatalf("%s is on: %t, but %d nodes see it", name, on, len(nodes))
				}
				if len(nodes) == 0 && seen[name] != nil && seen[name].state == alerts.On {
					rt.Fatalf("%s is over and was told to be on", name)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				tb.restart()
			case 1: // reports that were read come back with states that were stored
				if before != nil {
					tb.facts.Reports = append(tb.facts.Reports, before.Reports...)
					again := len(before.Reports)
					n := len(tb.facts.Reports)
					r := Evaluate(tb.states, &Facts{Now: tb.facts.Now, Quiet: quiet, Webhooks: tb.facts.Webhooks,
						Rules: tb.facts.Rules, Reports: tb.facts.Reports[n-again:]})
					for i := range r.Changes.Events {
						if e := &r.Changes.Events[i]; e.State == alerts.On && uids[e.UID] {
							rt.Fatalf("told again: %+v", e)
						}
					}
					tb.facts.Reports = tb.facts.Reports[:n-again]
				}
			case 2, 3:
				evaluate(time.Duration(rapid.IntRange(0, 1200).Draw(rt, "seconds")) * time.Second)
			case 4:
				evaluate(time.Duration(rapid.IntRange(0, 3).Draw(rt, "few seconds")) * time.Second)
			default:
				s := rapid.SampledFrom(subjects).Draw(rt, "subject")
				tb.report(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "node"),
					rapid.SampledFrom([]string{alerts.On, alerts.On, alerts.Off}).Draw(rt, "state"), s, used)
			}
		}
		// Nobody sees anything any more, and all has been said.
		for _, s := range subjects {
			for _, node := range []string{"a", "b"} {
				tb.report(node, alerts.Off, s, Details{})
			}
		}
		evaluate(time.Second)
		evaluate(2 * period)
		evaluate(2 * period)
		for to, n := range wanted {
			if sent[to] != n {
				rt.Fatalf("webhook and kind %s: %d events, messages about %d", to, n, sent[to])
			}
		}
		for name, s := range seen {
			if s.state == alerts.On {
				rt.Fatalf("%s is still told to be on", name)
			}
		}
		evaluate(keptCounted + quiet)
		if len(tb.states.subjects)+len(tb.stored) > 0 {
			rt.Fatalf("left over: %v", tb.stored)
		}
	})
}
