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

// sparkPath draws values as a line from left to right, the largest at the top. It leaves out negative values, which are
// not known. Closed goes down to the base line, for the area below.
func sparkPath(values []float64, closed bool) string {
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	at := func(i int) (x, y string) {
		left, down := 0.0, float64(sparkHeight-2)
		if len(values) > 1 {
			left = float64(i) * sparkWidth / float64(len(values)-1)
		}
		if top > 0 {
			down = 2 + (sparkHeight-4)*(1-values[i]/top)
		}
		return Tenths(left), Tenths(down)
	}
	var b strings.Builder
	for i := 0; i < len(values); i++ {
		if values[i] < 0 {
			continue
		}
		first, y := at(i)
		if i+1 == len(values) || values[i+1] < 0 { // one value alone is a dash
			b.WriteString("M" + first + " " + y + "m-1.5 0h3")
			continue
		}
		b.WriteString("M" + first + " " + y)
		last := first
		for i+1 < len(values) && values[i+1] >= 0 {
			i++
			last, y = at(i)
			b.WriteString("L" + last + " " + y)
		}
		if closed {
			b.WriteString("L" + last + " " + Tenths(sparkHeight) + "L" + first + " " + Tenths(sparkHeight) + "Z")
		}
	}
	return b.String()
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
