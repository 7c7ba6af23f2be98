//go:build measure

package matrix

import (
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// Limit is the limit of the measured key, in units per window.
const Limit = 1000

// Cell is one place of the matrix, with what was measured there.
type Cell struct {
	Mode    string        `json:"mode"` // a span
	Window  time.Duration `json:"window"`
	Demand  float64       `json:"demand"` // times the limit
	Delay   time.Duration `json:"delay"`  // one way
	Split   string        `json:"split"`
	Regions int           `json:"regions"`
	// Over, Under and Bound are percent of the limit, Over and Under the mean of all windows, Most the worst window.
	Over  float64 `json:"over"`
	Most  float64 `json:"most"`
	Under float64 `json:"under"`
	Bound float64 `json:"bound"`
	// Wait is the median time that a check waits, if it is measured.
	Wait time.Duration `json:"wait,omitempty"`
}

// The axes of the matrix.
var (
	Windows = []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour}
	Demands = []float64{0.5, 1.2, 4, 10}
	Delays  = []time.Duration{20 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond}
	Splits  = []string{"even", "80/10/10", "one region"}
)

// Cells returns the cells of a span: three regions, and windows of at least a length.
func Cells(mode string, least time.Duration) (cells []Cell) {
	for _, window := range Windows {
		for _, demand := range Demands {
			for _, delay := range Delays {
				for _, split := range Splits {
					if window >= least {
						cells = append(cells, Cell{Mode: mode, Window: window, Demand: demand, Delay: delay, Split: split, Regions: 3})
					}
				}
			}
		}
	}
	return cells
}

// Parts are the parts of the demand that the regions have.
func (c *Cell) Parts() []float64 {
	others := c.Regions - 1
	switch c.Split {
	case "80/10/10":
		return append([]float64{0.8}, slices.Repeat([]float64{0.2 / float64(others)}, others)...)
	case "one region":
		return append([]float64{1}, slices.Repeat([]float64{0}, others)...)
	}
	return slices.Repeat([]float64{1 / float64(c.Regions)}, c.Regions)
}

// Count adds one of several windows to the figures: the admitted and the offered units.
func (c *Cell) Count(admitted int64, offered float64, windows int) {
	over := 100 * float64(admitted-Limit) / Limit
	c.Over += max(0, over) / float64(windows)
	c.Most = max(c.Most, over)
	wanted := min(offered-float64(c.Regions), Limit) // one request of each region may be under way
	c.Under += 100 * max(0, wanted-float64(admitted)) / Limit / float64(windows)
}

// Measure runs measure for all cells, two at a time.
func Measure(cells []Cell, measure func(*Cell)) {
	var wg sync.WaitGroup
	next := make(chan *Cell)
	for range 2 {
		wg.Go(func() {
			for c := range next {
				measure(c)
			}
		})
	}
	for i := range cells {
		next <- &cells[i]
	}
	close(next)
	wg.Wait()
}

// Write writes cells to a file, for Read, unless the name is empty.
func Write(t *testing.T, name string, cells []Cell) {
	t.Helper()
	if name == "" {
		return
	}
	raw, err := json.Marshal(cells)
	if err == nil {
		err = os.WriteFile(name, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Read reads what Write has written.
func Read(t *testing.T, name string) (cells []Cell) {
	t.Helper()
	raw, err := os.ReadFile(name) //nolint:gosec // a file of make bench-regions
	if err == nil {
		err = json.Unmarshal(raw, &cells)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cells
}
