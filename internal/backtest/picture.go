package backtest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"sluice/rules/quantity"
)

// The size of a picture of demand, in units of its view box.
const (
	pictureWidth  = 960
	pictureHeight = 180
	plotTop       = 34
	plotBottom    = 150
)

// Paths returns the lines of a picture in a view box of pictureWidth by pictureHeight: the demand within the limit, the
// demand above it, and the limit.
func (d *Demand) Paths() (within, above, limit string) {
	top := int64(1)
	for i := range d.Demand {
		top = max(top, d.Demand[i], d.Limit[i])
	}
	y := func(v int64) float64 { return plotBottom - float64(v)/float64(top)*(plotBottom-plotTop) }
	width := float64(pictureWidth) / float64(max(1, len(d.Demand)))
	var in, over, line strings.Builder
	last := int64(0)
	for i, v := range d.Demand {
		x, l := float64(i)*width, d.Limit[i]
		if v == 0 {
			l = last
		}
		if v > 0 {
			fmt.Fprintf(&in, "M%.1f %dV%.1fh%.1fV%dz", x, plotBottom, y(min(v, l)), width*.9, plotBottom)
		}
		if v > l {
			fmt.Fprintf(&over, "M%.1f %.1fV%.1fh%.1fV%.1fz", x, y(l), y(v), width*.9, y(l))
		}
		if l > 0 {
			fmt.Fprintf(&line, "M%.1f %.1fh%.1f", x, y(l), width)
		}
		last = l
	}
	return in.String(), over.String(), line.String()
}

// Label describes the picture in a sentence.
func (d *Demand) Label() string {
	most, limit, over := int64(0), int64(0), 0
	for i, v := range d.Demand {
		if v > d.Limit[i] {
			over++
		}
		if v > most {
			most, limit = v, d.Limit[i]
		}
	}
	return fmt.Sprintf("%s: the busiest key asked for up to %s units in a window of %s, with a limit of %s; "+
		"above the limit in %s of %s columns",
		d.Rule, quantity.Amount(most), quantity.Exactly(d.WindowMS), quantity.Amount(limit), quantity.Amount(int64(over)),
		quantity.Amount(int64(len(d.Demand))))
}

// WriteSVG draws demand against limit over time, one picture below the other for each rule.
func (r *Report) WriteSVG(w io.Writer) error {
	var b strings.Builder
	height := max(1, len(r.Demand)) * pictureHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>Demand against limit over time</title>
<style>
text{font:13px sans-serif;fill:#222}.in{fill:#4a7fb5}.over{fill:#c0392b}
.limit{stroke:#222;stroke-dasharray:4 2;fill:none}.base{stroke:#999}
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`, pictureWidth, height, pictureWidth, height)
	for i := range r.Demand {
		d := &r.Demand[i]
		in, over, limit := d.Paths()
		end := d.From + int64(len(d.Demand))*d.StepMS
		at := func(ts int64) string { return time.UnixMilli(ts).UTC().Format("2006-01-02 15:04:05") }
		fmt.Fprintf(&b, `<g transform="translate(0 %d)"><text x="4" y="20">%s</text><path class="in" d="%s"/><path class="over" d="%s"/>`+
			`<path class="limit" d="%s"/><path class="base" d="M0 %dh%d"/><text x="4" y="%d">%s</text><text x="%d" y="%d" text-anchor="end">%s UTC</text></g>`+"\n",
			i*pictureHeight, escape(d.Label()), in, over, limit, plotBottom, pictureWidth, plotBottom+18, at(d.From),
			pictureWidth-4, plotBottom+18, at(end))
	}
	if len(r.Demand) == 0 {
		b.WriteString(`<text x="4" y="20">No rule applied to the events.</text>` + "\n")
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// escape writes a text for XML.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder does not fail
	return b.String()
}
