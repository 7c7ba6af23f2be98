package view

import (
	"testing"

	"sluice/internal/history"
)

func TestUseWords_NameTheHighestUse(t *testing.T) {
	at := func(allowed, use int64) history.Point {
		return history.Point{Known: true, Figures: history.Figures{Allowed: allowed, Use: use}}
	}
	for want, points := range map[string][]history.Point{
		"Use of the limit: not known":                                     {{}, {}},
		"Use of the limit: no requests":                                   {{}, at(0, 0)},
		"Use of the limit: up to 84% by one key":                          {at(9, 85), at(3, 41), {}, at(0, 0)},
		"Use of the limit: up to 100% by one key":                         {at(9, 101)},
		"Use of the limit: more than all of it, by a key that was denied": {at(9, 85), at(1, 102)},
	} {
		if got := UseWords(UsesOf(points)); got != want {
			t.Errorf("%v: %s, want %s", points, got, want)
		}
	}
	// Figures of a node that did not count uses say nothing of them.
	if got := UsesOf([]history.Point{at(9, 0)})[0]; got != UseUnknown {
		t.Errorf("requests without a use: %d", got)
	}
}
