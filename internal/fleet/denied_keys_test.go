package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/history"
)

// A key that is denied again and again counts once in each hour, for each rule.
func TestDeniedKeys_CountOnceAnHour(t *testing.T) {
	c := newClock() // ten seconds before an hour
	board := fleet.NewMemory(c.now)
	n := newNode("a", board, c)
	read := fleet.NewReader(board, c.now)
	for range 2 {
		hour := c.now().Unix() / 3600
		for range 3 {
			n.DeniedKey("charges", "{user:1}")
			n.DeniedKey("charges", "{user:2}")
			n.DeniedKey("search", "{user:1}")
		}
		n.Post(t.Context())
		c.add(time.Minute) // the first time, an hour ends
		n.Post(t.Context())
		found, err := read.Tops(t.Context(), hour, []string{"charges", "search"})
		if err != nil {
			t.Fatal(err)
		}
		for rule, want := range map[string]int64{"charges": 2, "search": 1} {
			if got, _, known := found[rule][history.ByKey].Denied.Estimate(); got != want || !known {
				t.Errorf("%s: %d keys were denied (known %v), want %d", rule, got, known, want)
			}
		}
	}
}

// A node counts the keys of a bounded number of rules. Of the others it says that it does not know them, so that the
// count of another node is not taken for the count of all.
func TestDeniedKeys_OfRulesBeyondTheBoundAreUnknown(t *testing.T) {
	c := newClock()
	board := fleet.NewMemory(c.now)
	full, other := newNode("full", board, c), newNode("other", board, c)
	read := fleet.NewReader(board, c.now)
	for hour := range 2 {
		for i := range 1000 {
			full.DeniedKey(fmt.Sprintf("rule-%d", i), "{user:1}")
		}
		for range 3 {
			full.Top("beyond", history.ByKey, "user:1", false, 4)
			full.DeniedKey("beyond", "{user:1}")
		}
		other.Top("beyond", history.ByKey, "user:2", false, 1)
		other.DeniedKey("beyond", "{user:2}")
		other.DeniedKey("rule-999", "{user:2}")
		at := c.now().Unix() / 3600
		for range 10 { // a node posts some rules at a time; the first time, an hour ends meanwhile
			full.Post(t.Context())
			other.Post(t.Context())
			c.add(time.Minute)
		}
		found, err := read.Tops(t.Context(), at, []string{"beyond", "rule-999"})
		if err != nil {
			t.Fatal(err)
		}
		top := found["beyond"][history.ByKey]
		if n, _, known := top.Denied.Estimate(); known || top.Rest != 12 {
			t.Errorf("hour %d: %d keys were denied (known %v), any other had at most %d decisions", hour, n, known, top.Rest)
		}
		if n, _, known := found["rule-999"][history.ByKey].Denied.Estimate(); n != 2 || !known {
			t.Errorf("hour %d: %d keys of a rule within the bound were denied (known %v)", hour, n, known)
		}
	}
}
