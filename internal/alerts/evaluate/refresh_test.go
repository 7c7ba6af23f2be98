package evaluate

import (
	"maps"
	"strings"
	"testing"
	"time"

	"sluice/internal/alerts"
)

// active is the only alert that is on, as every node reads it from the database.
func (tb *table) active() alerts.Data {
	tb.t.Helper()
	list := make([]alerts.State, 0, len(tb.stored))
	for _, s := range tb.stored {
		list = append(list, s)
	}
	on := LoadStates(list, tb.facts.Now).active(10)
	if len(on) != 1 {
		tb.t.Fatalf("%d alerts are on", len(on))
	}
	return on[0].Data
}

// The text of an alert that lasts says since when, and its figures are those of now. What was told keeps its own.
func TestRefresh_DenialsThatLastHaveLiveFigures(t *testing.T) {
	tb := newTable(t)
	minute := func(after time.Duration, denied, requests int64) Result {
		tb.facts.Minute = map[string]Minute{"charges": {Requests: requests, Denied: denied}}
		return tb.evaluate(after)
	}
	told := minute(0, 54, 100).Changes
	const first = "The rule charges denied 54 of 100 requests (54%) in the minute before 12:00:00 UTC."
	if got := body(t, &told.Messages[0]).Data.Text; got != first || tb.active().Text != first {
		t.Errorf("told %q, on is %q", got, tb.active().Text)
	}
	if r := minute(4*time.Second, 60, 100); len(r.Changes.States) > 0 {
		t.Error("the figures were stored again after four seconds")
	}
	minute(time.Minute, 11_750, 12_500)
	const later = "The rule charges has denied many requests since 12:00:00 UTC: 11,750 of 12,500 (94%) in the minute " +
		"before 12:01:04 UTC."
	if got := tb.active(); got.Text != later || got.Numbers["denied_percent"] != 94 || !got.Since.Equal(noon) {
		t.Errorf("on is %+v", got)
	}
	if told.Events[0].Data.Text != first {
		t.Errorf("what was told became %q", told.Events[0].Data.Text)
	}
	tb.restart()
	minute(10*time.Second, 45, 100) // below the threshold, above that of the end
	if got := tb.active().Numbers["denied_percent"]; got != 45 {
		t.Errorf("between the thresholds %d %% are denied", got)
	}
	minute(24*time.Hour, 99, 100)
	const nextDay = "The rule charges has denied many requests since 2026-11-24 12:00:00 UTC: 99 of 100 (99%) in the " +
		"minute before 12:01:14 UTC."
	if got := tb.active().Text; got != nextDay {
		t.Errorf("a day later %q", got)
	}
}

// The same figures are stored once a minute: their text names their instant.
func TestRefresh_FiguresThatStayTheSame(t *testing.T) {
	tb := newTable(t)
	stored := 0
	for range 121 {
		tb.facts.Minute = map[string]Minute{"charges": {Requests: 100, Denied: 60}}
		for _, s := range tb.evaluate(time.Second).Changes.States {
			if !strings.HasPrefix(s.Subject, budgetPrefix) {
				stored++
			}
		}
	}
	if stored != 3 {
		t.Errorf("in two minutes they were stored %d times, want at the beginning and twice", stored)
	}
}

// The use of a key is that of any node. The figures of other conditions are of one node, and of the next one when that
// node no longer sees the condition.
func TestRefresh_FiguresOfNodes(t *testing.T) {
	starved := alerts.Subject{Kind: alerts.KindNodeStarved}
	late := func(n int64) Details { return Details{Numbers: map[string]int64{"late": n, "checks": 600}} }
	tb := newTable(t)
	tb.report("a", alerts.On, starved, late(20))
	tb.evaluate(0)
	tb.facts.Now = noon.Add(time.Minute)
	tb.report("b", alerts.On, starved, late(300))
	tb.evaluate(time.Second)
	if got := tb.active(); got.Numbers["late"] != 20 || len(got.Nodes) != 2 {
		t.Errorf("of another node: %+v", got)
	}
	tb.report("a", alerts.On, starved, late(25))
	tb.evaluate(0)
	const text = "A node has lacked CPU since 12:00:00 UTC: 25 of its 600 checks in the 30 seconds before 12:01:01 UTC " +
		"were late by more than the store timeout. Raise its CPU limit."
	if got := tb.active().Text; got != text {
		t.Errorf("of the node: %q", got)
	}
	tb.report("a", alerts.Off, starved, Details{})
	tb.evaluate(time.Minute)
	tb.report("b", alerts.On, starved, late(310))
	tb.evaluate(time.Second)
	if got := tb.active(); got.Numbers["late"] != 310 {
		t.Errorf("after the first node recovered: %+v", got)
	}

	tb = newTable(t)
	tb.report("a", alerts.On, usageOf("user:42"), used)
	tb.evaluate(0)
	tb.facts.Now = noon.Add(time.Minute)
	more := Details{RuleID: 7, Numbers: maps.Clone(used.Numbers)}
	more.Numbers["used"] = 97
	tb.report("b", alerts.On, usageOf("user:42"), more)
	tb.evaluate(time.Second)
	const usage = "The key user:42 reached 80% of its limit of the rule charges at 12:00:00 UTC: 97 of 100 at " +
		"12:01:00 UTC."
	if got := tb.active().Text; got != usage {
		t.Errorf("of the key: %q", got)
	}
}

// An evaluation renews a bounded number of conditions, and the next ones renew the others.
func TestRefresh_IsBounded(t *testing.T) {
	tb := newTable(t)
	hot := func(rate int64) int {
		for i := range maxRefreshed + 50 {
			tb.facts.Sightings = append(tb.facts.Sightings, Sighting{State: alerts.On, Node: "fleet/a",
				Subject: alerts.Subject{Kind: alerts.KindKeyHot, Rule: "charges", Key: string(rune('a' + i))},
				Details: Details{Numbers: map[string]int64{"per_second": rate}}})
		}
		return len(tb.evaluate(10 * time.Second).Changes.States)
	}
	hot(1000)
	if n := hot(2000); n != maxRefreshed {
		t.Errorf("%d were renewed at once", n)
	}
	tb.facts.Now = tb.facts.Now.Add(-9 * time.Second)
	if n := hot(2000); n != 50 {
		t.Errorf("then %d were renewed", n)
	}
}
