package view

import (
	"testing"

	"sluice/internal/stats"
)

func TestHeatWords_NameTheWorstPart(t *testing.T) {
	at := func(allowed, denied int64) stats.Point {
		return stats.Point{Known: true, Figures: stats.Figures{Allowed: allowed, Denied: denied}}
	}
	for want, points := range map[string][]stats.Point{
		"Denied share: not known":           {{}, {}},
		"Denied share: none was denied":     {{}, at(9, 0)},
		"Denied share: at most 50% at once": {at(900, 100), at(3, 3), {}, at(7, 1)},
	} {
		if got := heatWords(points); got != want {
			t.Errorf("%v: %s, want %s", points, got, want)
		}
	}
}
