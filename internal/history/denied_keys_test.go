package history_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/history"
)

// hourBegun is ten seconds before an hour.
var hourBegun = time.Date(2026, 11, 21, 10, 59, 50, 0, time.UTC)

// deniedKeys asks for the distinct denied keys of a rule in an hour.
func (w *world) deniedKeys(rule string, hour time.Time) (n int64, known bool, rest int64) {
	w.t.Helper()
	got := w.ask(history.Query{Rule: rule, By: history.ByKey, From: hour, To: hour.Add(time.Hour), Step: time.Hour})
	n, _, known = got.Denied.Estimate()
	return n, known, got.TopRest
}

// A key that is denied again and again counts once in each hour, for each rule.
func TestDeniedKeys_CountOnceAnHour(t *testing.T) {
	w := newWorld(t, hourBegun)
	n := w.start()
	for range 2 {
		hour := w.now().Truncate(time.Hour)
		for range 3 {
			for _, one := range []struct{ rule, key string }{{"charges", "{user:1}"}, {"charges", "{user:2}"},
				{"search", "{user:1}"}} {
				n.decide(one.rule, 0, 1)
				n.DeniedKey(one.rule, one.key)
			}
		}
		w.tick(n)
		w.run(2 * time.Minute) // the first time, an hour ends
		for rule, want := range map[string]int64{"charges": 2, "search": 1} {
			if got, known, _ := w.deniedKeys(rule, hour); got != want || !known {
				t.Errorf("%s: %d keys were denied (known %v), want %d", rule, got, known, want)
			}
		}
	}
}

// A node counts the keys of a bounded number of rules. Of the others it says that it does not know them, so that the
// count of another node is not taken for the count of all.
func TestDeniedKeys_OfRulesBeyondTheBoundAreUnknown(t *testing.T) {
	w := newWorld(t, hourBegun)
	full, other := w.start(), w.start()
	for hour := range 2 {
		for i := range 1000 {
			full.decide(fmt.Sprintf("rule-%d", i), 0, 1)
			full.DeniedKey(fmt.Sprintf("rule-%d", i), "{user:1}")
		}
		full.decide("beyond", 0, 1)
		for range 3 {
			full.Top("beyond", history.ByKey, "user:1", false, 4)
			full.DeniedKey("beyond", "{user:1}")
		}
		other.decide("beyond", 0, 1)
		other.decide("rule-999", 0, 1)
		other.Top("beyond", history.ByKey, "user:2", false, 1)
		other.DeniedKey("beyond", "{user:2}")
		other.DeniedKey("rule-999", "{user:2}")
		at := w.now().Truncate(time.Hour)
		w.tick(full, other)
		for range 10 * 60 { // a node writes some rules at a time; the first time, an hour ends meanwhile
			w.add(time.Second)
			w.tick(full, other)
		}
		// The row of user:2 would be 1 ± 12, so there is none.
		if n, known, rest := w.deniedKeys("beyond", at); known || rest != 13 {
			t.Errorf("hour %d: %d keys were denied (known %v), any other had at most %d decisions", hour, n, known, rest)
		}
		if n, known, _ := w.deniedKeys("rule-999", at); n != 2 || !known {
			t.Errorf("hour %d: %d keys of a rule within the bound were denied (known %v)", hour, n, known)
		}
	}
}
