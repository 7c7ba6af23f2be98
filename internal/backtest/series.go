package backtest

import "sluice/limiter"

const (
	// maxColumns is the number of columns of a series at which two become one.
	maxColumns = 240
	// firstColumn is the width of the columns of the traffic at first, in ms.
	firstColumn = 1000
	// maxPeakKeys bounds the number of keys, over all rules, whose demand is added up at once.
	maxPeakKeys = 200_000
)

// series are values over time in columns of equal width, which doubles when there are too many.
type series[T any] struct {
	from, width int64
	columns     []T
	merge       func(a, b T) T
}

// at returns the column of an instant, ms since the epoch. Instants do not go back before the first.
func (s *series[T]) at(ts int64) *T {
	if s.columns == nil {
		s.from = ts - ts%s.width
	}
	for (ts-s.from)/s.width >= maxColumns {
		n := 0
		for ; 2*n < len(s.columns); n++ {
			c := s.columns[2*n]
			if 2*n+1 < len(s.columns) {
				c = s.merge(c, s.columns[2*n+1])
			}
			s.columns[n] = c
		}
		s.columns, s.width = s.columns[:n], 2*s.width
	}
	i := max(0, int((ts-s.from)/s.width))
	for len(s.columns) <= i {
		var none T
		s.columns = append(s.columns, none)
	}
	return &s.columns[i]
}

// traffic is a column of requests. A sampled request counts as the number of requests that it represents.
type traffic struct{ checks, before, after float64 }

func addTraffic(a, b traffic) traffic {
	return traffic{a.checks + b.checks, a.before + b.before, a.after + b.after}
}

// peak is a column of the busiest bucket of a rule: the most units that were demanded in one window, and the capacity
// of that bucket.
type peak struct{ demand, limit int64 }

func higher(a, b peak) peak {
	if b.demand > a.demand {
		return b
	}
	return a
}

// demand finds the busiest bucket of a rule in each of its windows, which are aligned to the clock.
type demand struct {
	rule    string
	window  int64
	from    int64
	units   map[limiter.Key]int64
	room    *int // for further keys, shared by all rules
	top     peak
	peaks   series[peak]
	partial bool // not all keys of a window fitted
}

func newDemand(rule string, window int64, room *int) *demand {
	return &demand{rule: rule, window: window, units: map[limiter.Key]int64{}, room: room,
		peaks: series[peak]{width: window, merge: higher}}
}

// add adds the units of one request.
func (d *demand) add(ts int64, key limiter.Key, units, capacity int64) {
	if from := ts - ts%d.window; from != d.from {
		d.flush()
		d.from = from
	}
	sum, known := d.units[key]
	if !known {
		if *d.room <= 0 {
			d.partial = true
			return
		}
		*d.room--
	}
	sum = min(sum+units, limiter.MaxExact)
	d.units[key] = sum
	if sum > d.top.demand {
		d.top = peak{sum, capacity}
	}
}

// flush ends the present window.
func (d *demand) flush() {
	if d.top.demand > 0 {
		c := d.peaks.at(d.from)
		*c = higher(*c, d.top)
	}
	*d.room += len(d.units)
	clear(d.units)
	d.top = peak{}
}
