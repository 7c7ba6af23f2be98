package view

import (
	"sluice/internal/history"
)

// Uses of a limit that are no percentage.
const (
	// UseUnknown: nobody knows what happened, or by how much of the limit.
	UseUnknown = int64(-1)
	// UseIdle: there were no requests.
	UseIdle = int64(-2)
)

// UseOf returns the use of a limit in a period with known figures, in percent, or one of the constants above.
func UseOf(f *history.Figures) int64 {
	if f.Total() == 0 {
		return UseIdle
	}
	return f.UsePercent()
}

// UsesOf returns the uses of a limit over time.
func UsesOf(points []history.Point) []int64 {
	out := make([]int64, len(points))
	for i := range points {
		if out[i] = UseUnknown; points[i].Known {
			out[i] = UseOf(&points[i].Figures)
		}
	}
	return out
}

// UseWords say the highest of some uses.
func UseWords(uses []int64) string {
	most, known := int64(-1), false
	for _, use := range uses {
		known = known || use != UseUnknown
		most = max(most, use)
	}
	switch {
	case !known:
		return "Use of the limit: not known"
	case most < 0:
		return "Use of the limit: no requests"
	case most > 100:
		return "Use of the limit: more than all of it, by a key that was denied"
	}
	return "Use of the limit: up to " + PercentOf(most) + " by one key"
}

// heat is the color of a cell of a HeatStrip.
func heat(use int64) string {
	switch {
	case use < 0:
		return "heat-none"
	case use < 50:
		return "heat-0"
	case use < 80:
		return "heat-1"
	case use < 95:
		return "heat-2"
	case use <= 100:
		return "heat-3"
	}
	return "heat-4"
}
