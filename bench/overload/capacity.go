package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	// capacityShare is the part of the checks that must be decided within the store timeout.
	capacityShare = 0.99
	// trial is the length of one open loop of the search.
	trial = 2 * time.Second
	// precision ends the search: the highest rate that holds and the lowest that does not are that close.
	precision = 0.04
	// firstRate begins the search.
	firstRate = 4000
)

// highest searches the highest rate that holds. It doubles firstRate until one does not hold, or halves it
// until one does, and then halves the gap. A rate counts as too high after two trials, because other work on the
// machine can spoil one. It returns 0 if that goes down to 1.
func highest(holds func(rate int) (bool, error)) (int, error) {
	twice := func(rate int) (bool, error) {
		ok, err := holds(rate)
		if err == nil && !ok {
			ok, err = holds(rate)
		}
		return ok, err
	}
	low, high := 0, 0 // the highest that holds, the lowest that does not
	for rate := firstRate; low == 0 || high == 0; {
		ok, err := twice(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			low, rate = rate, 2*rate
		} else {
			high, rate = rate, rate/2
		}
		if rate <= 1 {
			return 0, nil
		}
	}
	for float64(high-low) > precision*float64(high) {
		rate := (low + high) / 2
		ok, err := twice(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			low = rate
		} else {
			high = rate
		}
	}
	return low, nil
}

// holds reports whether a node keeps up with the checks of a tally.
func holds(t *tally) bool {
	due := t.sent + t.unplaced
	return float64(t.inTime) >= capacityShare*float64(due)
}

// capacities are measured once a face: the parts compare with them.
type capacities map[string]int

// of returns the capacity of a node asked through a face. The first call measures it.
func (c capacities) of(ctx context.Context, b *bench, f face) (int, error) {
	if rate := c[f.name]; rate > 0 {
		return rate, nil
	}
	n, err := b.onRedis(ctx, nil, f.rules...)
	if err != nil {
		return 0, err
	}
	defer n.stop()
	var held *tally
	rate, err := highest(func(rate int) (bool, error) {
		l := f.load(n, openSockets)
		l.rate, l.length = rate, trial
		t, err := l.run(ctx)
		if err != nil {
			return false, err
		}
		ok := holds(t)
		if ok {
			held = t
		}
		fmt.Fprintf(os.Stderr, "%s: %d checks a second: %.2f %% in time\n", f.name, rate,
			100*float64(t.inTime)/float64(t.sent+t.unplaced))
		return ok, nil
	})
	if err != nil {
		return 0, err
	}
	if rate == 0 {
		return 0, fmt.Errorf("%s: no rate is decided in time", f.name)
	}
	c[f.name] = rate
	b.rows = append(b.rows, row{name: "capacity, " + f.name, measured: measured{tally: held},
		note: fmt.Sprintf("%d/s is the highest rate at which 99 %% are decided within %d ms", rate,
			storeTimeout.Milliseconds())})
	return rate, nil
}
