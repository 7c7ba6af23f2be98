package fleet_test

import (
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/stats"
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
			if got, _, known := found[rule][stats.ByKey].Denied.Estimate(); got != want || !known {
				t.Errorf("%s: %d keys were denied (known %v), want %d", rule, got, known, want)
			}
		}
	}
}
