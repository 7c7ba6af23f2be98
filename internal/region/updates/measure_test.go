//go:build measure

package updates

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/region/matrix"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

var (
	writePage = flag.String("write", "", "page whose parts matrix and curves are written anew")
	moreCells = flag.String("more", "", "files with the cells of share.TestMeasureShares and home.TestMeasureExact, for "+
		"the table, with a comma between them")
	writeCells = flag.String("cells", "", "file for the figures of all cells, for the comparison with real processes")
)

// mode is a span, as the matrix measures it.
type mode struct {
	name      string
	note      string        // follows the name
	exchanges bool          // regions send each other messages
	least     time.Duration // the shortest window
	bounded   bool          // Bound holds
}

// elsewhere are the spans that share.TestMeasureShares and home.TestMeasureExact measure, where their code is.
var elsewhere = []mode{
	{name: rules.SpanShares, exchanges: true,
		note: ", of windows that begin two minutes after demand is steady; shares each minute, the default"},
	{name: rules.SpanGlobalExact, exchanges: true,
		note: ", a key at home in each region in turn, nine windows (three of an hour); the last row is what a check waits"},
}

var modes = []mode{
	{name: rules.SpanRegion, least: time.Second},
	{name: rules.SpanGlobal, exchanges: true, least: 10 * time.Second, bounded: true},
}

// measure runs a cell in virtual time.
func measure(t *testing.T, c *matrix.Cell) {
	m := modes[slices.IndexFunc(modes, func(m mode) bool { return m.name == c.Mode })]
	rate := c.Demand * matrix.Limit / c.Window.Seconds() // a second
	windows, length := 8, c.Window
	if c.Window > time.Minute { // after the limit nothing happens, and below it nothing either
		windows, length = 1, min(c.Window, time.Duration(float64(c.Window)*1.05/c.Demand))
		if c.Demand < 1 {
			length = 5 * time.Minute
		}
	}
	admitted := make([]int64, windows)
	for i := range admitted {
		admitted[i] = oneWindow(t, c, m, rate, length, uint64(i)) //nolint:gosec // not negative
	}
	offered := rate * length.Seconds()
	for _, n := range admitted {
		c.Count(n, offered, windows)
	}
	if m.bounded {
		c.Bound = 100 * rate * (c.Delay + interval).Seconds() * float64(c.Regions-1) / float64(c.Regions) / matrix.Limit
	}
}

// oneWindow returns what one window admits. Regions export at other times with each seed.
func oneWindow(t *testing.T, c *matrix.Cell, m mode, rate float64, length time.Duration, seed uint64) (admitted int64) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range c.Regions {
			names = append(names, fmt.Sprintf("r%02d", i))
		}
		w := newWorld(t, names...)
		w.delay = max(c.Delay, time.Nanosecond)
		set, err := match.Compile([]rules.Rule{{ID: 1, Name: "r", Scope: "user", Limit: matrix.Limit,
			WindowMS: c.Window.Milliseconds(), Algorithm: "fixed_window", Span: c.Mode, IsActive: true}}, 1,
			match.Options{Regions: c.Regions})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range w.places {
			p.opt.Sets.Store(set)
		}
		load := func() {
			var wg sync.WaitGroup
			var mu sync.Mutex
			began := time.Now()
			for i, part := range c.Parts() {
				if part == 0 {
					continue
				}
				every := time.Duration(float64(time.Second) / (rate * part))
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(i), seed)) //nolint:gosec // a load
					for at := time.Duration(r.Int64N(int64(every))); at < length; at += every {
						pass(at - time.Since(began))
						if w.places[names[i]].take(t, c.Window, m.exchanges) {
							mu.Lock()
							admitted++
							mu.Unlock()
						}
					}
				})
			}
			wg.Wait()
		}
		if m.exchanges {
			r := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // a load
			for _, name := range names {
				w.places[name].phase = time.Duration(r.Int64N(int64(interval)))
			}
			w.run(load)
			return
		}
		load()
		for _, p := range w.places {
			_ = p.store.Close()
		}
	})
	return admitted
}

// take asks for a unit.
func (p *place) take(t *testing.T, window time.Duration, spans bool) bool {
	var res limiter.Result
	guard := limiter.GuardOff
	if spans {
		guard = limiter.GuardOpen
	}
	req := limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{{Key: ada, Spans: spans, Guard: guard, Weight: 1,
		Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: matrix.Limit, Window: window.Milliseconds()}}}}
	if err := p.store.Do(t.Context(), &req, &res); err != nil {
		t.Fatal(err)
	}
	return res.Allowed
}

// measureAll runs cells.
func measureAll(t *testing.T, cells []matrix.Cell) {
	t.Helper()
	matrix.Measure(cells, func(c *matrix.Cell) { measure(t, c) })
	for _, c := range cells { // one request of each region may be under way
		if slack := 100 * float64(c.Regions) / matrix.Limit; c.Bound > 0 && c.Most > c.Bound+slack {
			t.Errorf("%+v exceeds its bound", c)
		}
	}
}

// The matrix of docs/benchmarks.md, by the exchange itself in virtual time.
func TestMeasure(t *testing.T) {
	var cells []matrix.Cell
	for _, m := range modes {
		cells = append(cells, matrix.Cells(m.name, m.least)...)
	}
	cells = slices.DeleteFunc(cells, func(c matrix.Cell) bool { // where no delay matters
		return c.Mode == rules.SpanRegion && (c.Delay != matrix.Delays[0] || c.Window > time.Minute)
	})
	measureAll(t, cells)
	shown, tabled := modes, cells
	if *moreCells != "" {
		shown = append(shown, elsewhere...)
		for file := range strings.SplitSeq(*moreCells, ",") {
			tabled = append(tabled, matrix.Read(t, file)...)
		}
	}
	for _, c := range cells {
		long := c.Window >= time.Minute && c.Demand <= 4 && c.Mode == rules.SpanGlobal
		if long && c.Most > 2 {
			t.Errorf("%+v: more than 2 %% over", c)
		}
		if c.Under > 0.5 {
			t.Errorf("%+v: under the limit", c)
		}
	}
	var byDelay, byRegions []matrix.Cell
	for _, ms := range []int{10, 50, 100, 150, 200, 300, 400, 500} {
		byDelay = append(byDelay, matrix.Cell{Mode: rules.SpanGlobal, Window: 10 * time.Second, Demand: 4, Split: "even",
			Regions: 3, Delay: time.Duration(ms) * time.Millisecond})
	}
	for _, n := range []int{2, 3, 5, 10, 20, 50} {
		byRegions = append(byRegions, matrix.Cell{Mode: rules.SpanGlobal, Window: 10 * time.Second, Demand: 4, Split: "even",
			Regions: n, Delay: 80 * time.Millisecond})
	}
	measureAll(t, byDelay)
	measureAll(t, byRegions)
	text := table(shown, tabled)
	curves := curve("Over the limit by delay: 3 regions, 10 s window, demand 4 times the limit", "delay one way, ms",
		byDelay, func(c matrix.Cell) float64 { return float64(c.Delay.Milliseconds()) })
	more := curve("Over the limit by regions: 80 ms of delay, 10 s window, demand 4 times the limit", "regions", byRegions,
		func(c matrix.Cell) float64 { return float64(c.Regions) })
	matrix.Write(t, *writeCells, cells)
	if *writePage == "" {
		t.Log("\n" + text)
		return
	}
	folder := strings.TrimSuffix(*writePage, ".md")
	text += fmt.Sprintf("\n![Over the limit by delay](%[1]s/over-by-delay.svg)\n\n![Over the limit by number of regions]"+
		"(%[1]s/over-by-regions.svg)\n", filepath.Base(folder))
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // documentation
		t.Fatal(err)
	}
	for name, picture := range map[string]string{"over-by-delay.svg": curves, "over-by-regions.svg": more} {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(picture), 0o644); err != nil { //nolint:gosec // documentation
			t.Fatal(err)
		}
	}
	matrix.WritePart(t, *writePage, "matrix", text)
}

// table shows all cells.
func table(modes []mode, cells []matrix.Cell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Percent of the limit, which is %d; three regions; updates every %d ms; in virtual time, by the "+
		"exchange itself. In each cell what was let through too much, the mean of eight windows, and in brackets the "+
		"bound.\n",
		matrix.Limit, interval.Milliseconds())
	for _, m := range modes {
		delays := matrix.Delays
		if !m.exchanges {
			delays = delays[:1]
		}
		fmt.Fprintf(&b, "\n`%s`%s:\n\n| window | demand, times the limit |", m.name, m.note)
		for _, split := range matrix.Splits {
			for _, d := range delays {
				if m.exchanges {
					fmt.Fprintf(&b, " %s, %d ms |", split, d.Milliseconds())
				} else {
					fmt.Fprintf(&b, " %s |", split)
				}
			}
		}
		b.WriteString(" under, at most |\n|---|---|" + strings.Repeat("---|", len(delays)*len(matrix.Splits)+1) + "\n")
		rows := map[[2]float64][]matrix.Cell{}
		for _, c := range cells {
			if c.Mode == m.name {
				at := [2]float64{c.Window.Seconds(), c.Demand}
				rows[at] = append(rows[at], c)
			}
		}
		byWindow := func(a, b [2]float64) int { return slices.Compare(a[:], b[:]) }
		for _, at := range slices.SortedFunc(maps.Keys(rows), byWindow) {
			row := rows[at]
			slices.SortStableFunc(row, func(a, b matrix.Cell) int {
				return cmp.Or(slices.Index(matrix.Splits, a.Split)-slices.Index(matrix.Splits, b.Split),
					cmp.Compare(a.Delay, b.Delay))
			})
			fmt.Fprintf(&b, "| %s | %g |", shortly(row[0].Window), at[1])
			under := 0.0
			for _, c := range row {
				under = max(under, c.Under)
				if m.bounded {
					fmt.Fprintf(&b, " %.1f (%.1f) |", c.Over, c.Bound)
				} else {
					fmt.Fprintf(&b, " %.1f |", c.Over)
				}
			}
			fmt.Fprintf(&b, " %.1f |\n", under)
		}
		if waits := waitsOf(cells, m.name); waits != "" {
			fmt.Fprintf(&b, "| all | wait, ms (median) |%s |\n", waits)
		}
	}
	return b.String()
}

// waitsOf is the row of the medians of all windows and demands, "" if they were not measured.
func waitsOf(cells []matrix.Cell, name string) (row string) {
	for _, split := range matrix.Splits {
		for _, delay := range matrix.Delays {
			var waits []time.Duration
			for _, c := range cells {
				if c.Mode == name && c.Split == split && c.Delay == delay && c.Wait > 0 {
					waits = append(waits, c.Wait)
				}
			}
			if len(waits) == 0 {
				return ""
			}
			slices.Sort(waits)
			row += fmt.Sprintf(" %.0f |", float64(waits[len(waits)/2])/float64(time.Millisecond))
		}
	}
	return row
}

func shortly(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%g h", d.Hours())
	default:
		return fmt.Sprintf("%g s", d.Seconds())
	}
}

// curve draws what was measured and the bound.
func curve(title, axis string, cells []matrix.Cell, x func(matrix.Cell) float64) string {
	const width, height, left, right, top, bottom = 860, 320, 60, 840, 50, 270
	most, last := 0.0, 0.0
	for _, c := range cells {
		most, last = max(most, c.Bound, c.Most), max(last, x(c))
	}
	px := func(v float64) float64 { return left + v/last*(right-left) }
	py := func(v float64) float64 { return bottom - v/most*(bottom-top) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" `+
		`font-family="system-ui, sans-serif" font-size="12">`, width, height)
	fmt.Fprintf(&b, `<title>%s</title><style>text{fill:#1f2937}.m{fill:#6b7280}line{stroke:#d1d5db}`+
		`@media(prefers-color-scheme:dark){text{fill:#e5e7eb}.m{fill:#9ca3af}line{stroke:#374151}}</style>`, title)
	fmt.Fprintf(&b, `<text x="8" y="20" font-size="14" font-weight="600">%s</text>`, title)
	step := math.Pow(10, math.Floor(math.Log10(most)))
	if most/step < 3 {
		step /= 2
	}
	for v := 0.0; v <= most; v += step {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+
			`<text x="%d" y="%.1f" text-anchor="end" class="m">%g %%</text>`, left, right, py(v), py(v), left-6, py(v)+4, v)
	}
	for _, c := range cells {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" class="m">%g</text>`, px(x(c)), bottom+18, x(c))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" class="m">%s</text>`, (left+right)/2, bottom+38, axis)
	for i, line := range []struct {
		name, colour string
		y            func(matrix.Cell) float64
	}{
		{"the bound", "#d97706", func(c matrix.Cell) float64 { return c.Bound }},
		{"measured, mean", "#2563eb", func(c matrix.Cell) float64 { return c.Over }},
		{"measured, worst window", "#059669", func(c matrix.Cell) float64 { return c.Most }},
	} {
		var points []string
		for _, c := range cells {
			points = append(points, fmt.Sprintf("%.1f,%.1f", px(x(c)), py(line.y(c))))
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, line.colour,
			strings.Join(points, " "))
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="4" fill="%s"/><text x="%d" y="%d">%s</text>`, left+16,
			top+8+i*20, line.colour, left+34, top+14+i*20, line.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
