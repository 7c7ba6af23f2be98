package view

import (
	"strconv"
	"strings"
)

// Sizes of a sparkline, in its own units.
const (
	sparkWidth  = 120
	sparkHeight = 28
)

// sparkPath draws values as a line from left to right, the largest at the top.
// Closed goes down to the base line, for the area below.
func sparkPath(values []float64, closed bool) string {
	if len(values) == 0 {
		return ""
	}
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	var b strings.Builder
	for i, v := range values {
		x, y := 0.0, float64(sparkHeight-2)
		if len(values) > 1 {
			x = float64(i) * sparkWidth / float64(len(values)-1)
		}
		if top > 0 {
			y = 2 + (sparkHeight-4)*(1-v/top)
		}
		b.WriteString([]string{"L", "M"}[btoi(i == 0)])
		b.WriteString(Tenths(x) + " " + Tenths(y))
	}
	if closed {
		b.WriteString("L" + Tenths(sparkWidth) + " " + Tenths(sparkHeight) + "L0 " + Tenths(sparkHeight) + "Z")
	}
	return b.String()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Tenths writes a number with one decimal.
func Tenths(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

// barWidth is a part of a whole in hundredths, as an attribute of SVG.
func barWidth(part, whole int64) string {
	if whole <= 0 || part <= 0 {
		return "0"
	}
	return Tenths(min(100, float64(part)/float64(whole)*100))
}
