package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"
)

// Colours that are legible on white, on black, and in grey.
var palette = []string{"#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2"}

const (
	chartWidth = 860
	labelWidth = 250
	rowHeight  = 26
)

// svg begins a picture that follows the reader's colour scheme.
func svg(height int, title string) *strings.Builder {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="12">`, chartWidth, height)
	fmt.Fprintf(&b, `<title>%s</title><style>text{fill:#1f2937}.m{fill:#6b7280}line{stroke:#d1d5db}@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.m{fill:#9ca3af}line{stroke:#374151}}</style>`, html.EscapeString(title))
	fmt.Fprintf(&b, `<text x="8" y="20" font-size="14" font-weight="600">%s</text>`, html.EscapeString(title))
	return &b
}

// bar is one line of a bar chart.
type bar struct {
	name, colour string
	value        float64
}

// barsOf returns a bar for every scenario, the best first, with sluice's in the first colour.
func barsOf(results []result, figure func(result) float64, descending bool) []bar {
	out := make([]bar, len(results))
	for i, r := range results {
		out[i] = bar{name: r.scenario.name, colour: palette[1], value: figure(r)}
		switch {
		case r.scenario.kind == sluice:
			out[i].colour = palette[0]
		case r.scenario.name == constant:
			out[i].colour = "#9ca3af"
		}
	}
	slices.SortStableFunc(out, func(a, b bar) int {
		if descending {
			a, b = b, a
		}
		return cmp.Compare(a.value, b.value)
	})
	return out
}

// bars draws them below each other, each with its figure.
func bars(title string, bs []bar, form string) string {
	most := 0.0
	for _, one := range bs {
		most = max(most, one.value)
	}
	b := svg(40+rowHeight*len(bs), title)
	for i, one := range bs {
		y := 34 + i*rowHeight
		width := one.value / most * (chartWidth - labelWidth - 90)
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8, y+15, html.EscapeString(one.name))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="18" rx="3" fill="%s"/>`, labelWidth, y+2, max(1, width),
			one.colour)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" class="m">`+form+`</text>`, labelWidth+width+8, y+15, one.value)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// distribution draws the latency by percentile of the main scenarios, on logarithmic axes. Each line shows the median
// round.
func distribution(title string, results []result) string {
	names := []string{constant, oneOnRedis, embeddedOne, naivePath, envoy,
		"redis_rate behind Echo"}
	const height, left, top, bottom = 360, 60, 40, 310
	quantiles := []float64{0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999}
	x := func(q float64) float64 { // one step for each nine
		return left + (chartWidth-left-220)*min(1, -math.Log10(1-q)/4)
	}
	least, most := 0.05, 50.0 // ms
	y := func(v float64) float64 {
		f := (math.Log10(min(max(v, least), most)) - math.Log10(least)) / (math.Log10(most) - math.Log10(least))
		return bottom - f*(bottom-top)
	}
	b := svg(height, title)
	for _, v := range []float64{0.1, 0.5, 1, 5, 10, 50} {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end" class="m">%g ms</text>`, left, chartWidth-220, y(v), y(v), left-6, y(v)+4, v)
	}
	for _, q := range []float64{0, 0.9, 0.99, 0.999, 0.9999} {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" class="m">%g %%</text>`, x(q), bottom+18, q*100)
	}
	line := 0
	for _, r := range results {
		lat := r.middle()
		if !slices.Contains(names, r.scenario.name) || len(lat) == 0 {
			continue
		}
		var points []string
		for _, q := range quantiles {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(q), y(quantile(lat, q).Seconds()*1e3)))
		}
		colour := palette[line%len(palette)]
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, colour, strings.Join(points, " "))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="12" height="4" fill="%s"/><text x="%d" y="%d">%s</text>`, chartWidth-208,
			top+8+line*20, colour, chartWidth-190, top+14+line*20, html.EscapeString(r.scenario.name))
		line++
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// middle returns the sorted latencies of the round whose p99 is the median.
func (r result) middle() []time.Duration {
	want := median(r, openTail)
	for _, m := range r.rounds {
		if m.open.p99 == want {
			return m.openLat
		}
	}
	return nil
}
