package ruleedit

import (
	"flag"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"

	"sluice/limiter"
	"sluice/rules"
)

var update = flag.Bool("update", false, "write the picture of docs/choosing.md anew")

// chooserPicture is what docs/choosing.md shows: the preview of each algorithm under the same traffic.
const chooserPicture = "../../docs/choosing.svg"

// Sizes of the picture, in pixels.
const (
	chooserName  = 190
	chooserPanel = 250
	chooserSaid  = 82
	chooserRow   = 46
	chooserHead  = 44
	chooserBar   = 34
)

// chooserLimits are the rows: 20 per minute under each algorithm.
func chooserLimits() (names []string, limits []limiter.Limit) {
	const limit, window = 20, 60_000
	add := func(name string, l limiter.Limit) {
		l.Count, l.Window = limit, window
		names, limits = append(names, name), append(limits, l)
	}
	for _, a := range limiter.Algorithms() {
		switch a.Traits().Setting {
		case limiter.SettingAlign:
			add(a.String()+", calendar", limiter.Limit{Algorithm: a, Align: limiter.AlignCalendar})
			add(a.String()+", first_hit", limiter.Limit{Algorithm: a, Align: limiter.AlignFirstHit})
		case limiter.SettingBuckets:
			add(a.String(), limiter.Limit{Algorithm: a, Buckets: 60})
		case limiter.SettingBurst:
			add(a.String()+", burst 5", limiter.Limit{Algorithm: a, Burst: 5})
		default:
			add(a.String(), limiter.Limit{Algorithm: a})
		}
	}
	return names, limits
}

// drawChooser draws a row for each algorithm with the console's own preview.
func drawChooser() string {
	names, limits := chooserLimits()
	panels := []struct{ shape, title string }{
		{shapeSteady, "90 requests, evenly over 3 minutes"}, {shapeBoundary, "30 before and 30 after a boundary"},
	}
	width, height := chooserName+len(panels)*(chooserPanel+chooserSaid), chooserHead+chooserRow*len(names)+8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`font-family="sans-serif" font-size="13">`+"\n", width, height, width, height)
	b.WriteString("<title>The same requests under each algorithm, with a limit of 20 per minute</title>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	for i, l := range limits {
		top := chooserHead + i*chooserRow
		fmt.Fprintf(&b, `<text x="8" y="%d" fill="#111">%s</text>`+"\n", top+24, html.EscapeString(names[i]))
		for n, panel := range panels {
			left := chooserName + n*(chooserPanel+chooserSaid)
			if i == 0 {
				fmt.Fprintf(&b, `<text x="%d" y="24" fill="#444">%s</text>`+"\n", left, panel.title)
			}
			p := simulate(l, nil, 0, panel.shape, defaultLoad, 0, nil, new(rules.Rule))
			fmt.Fprintf(&b, `<g transform="translate(%d %d) scale(%.4f %.4f)">`, left, top, float64(chooserPanel)/plotWidth,
				float64(chooserBar)/plotHeight)
			fmt.Fprintf(&b, `<path d="%s" stroke="#999" stroke-dasharray="4 6"/><path d="M0 %dh%d" stroke="#bbb"/>`,
				p.borders(), plotHeight, plotWidth)
			fmt.Fprintf(&b, `<path d="%s" fill="#1b7f4d"/><path d="%s" fill="#f2b8a0"/></g>`, p.bars(false), p.bars(true))
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#111">%d of %d</text>`+"\n", left+chooserPanel+8, top+24,
				p.AllowedUnits, p.AllowedUnits+p.DeniedUnits)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// The picture of docs/choosing.md is that of the code: go test ./web/ruleedit -run Chooser -update draws it anew.
func TestChooser_ThePictureIsThatOfTheCode(t *testing.T) {
	got := drawChooser()
	if *update {
		if err := os.WriteFile(chooserPicture, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(chooserPicture)
	if err != nil || string(want) != got {
		t.Errorf("docs/choosing.svg is not what the preview draws (%v); to draw it anew: "+
			"go test ./web/ruleedit -run Chooser -update", err)
	}
}
