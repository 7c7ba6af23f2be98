package main

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestQuantile_IsTheSmallestThatCoversThePart(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * ms
	}
	for _, c := range []struct {
		values []time.Duration
		q      float64
		want   time.Duration
	}{
		{nil, 0.5, 0}, {[]time.Duration{7 * ms}, 0.999, 7 * ms}, {[]time.Duration{7 * ms}, 0, 7 * ms},
		{hundred, 0.5, 50 * ms}, {hundred, 0.99, 99 * ms}, {hundred, 0.991, 100 * ms}, {hundred, 1, 100 * ms},
		{[]time.Duration{4 * ms, 1 * ms, 3 * ms, 2 * ms}, 0.5, 2 * ms},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile %v of %d values is %v, want %v", c.q, len(c.values), got, c.want)
		}
	}
}

func TestTally_CountsWhatBecameOfTheChecks(t *testing.T) {
	y := &tally{length: 100 * ms, sent: 6}
	wrong := func(a *answer) bool { return a.verdict != overloaded }
	for _, c := range []struct {
		a  answer
		at time.Duration
	}{
		{answer{planned: 10 * ms, sent: 20 * ms, verdict: decided}, 35 * ms},    // within the store timeout
		{answer{planned: 10 * ms, sent: 20 * ms, verdict: decided}, 36 * ms},    // late
		{answer{planned: 90 * ms, sent: 90 * ms, verdict: decided}, 101 * ms},   // after the end
		{answer{planned: 0, sent: 0, verdict: byFailMode}, 60 * ms},             //
		{answer{planned: 50 * ms, sent: 50 * ms, verdict: overloaded}, 55 * ms}, // the case does not expect it
		{answer{planned: 50 * ms, sent: 50 * ms, verdict: failed}, 99 * ms},
	} {
		y.add(&c.a, c.at, wrong, false)
	}
	if y.inTime != 2 || y.during != 2 || y.wrong != 1 || y.answered() != 5 || y.unanswered() != 1 ||
		y.lastFailMode != 60*ms {
		t.Errorf("got %+v", y)
	}
	if y.share(decided) != 0.6 || y.share(byFailMode) != 0.2 || y.share(overloaded) != 0.2 || y.rate() != 20 {
		t.Errorf("shares %v, %v, %v, rate %v", y.share(decided), y.share(byFailMode), y.share(overloaded), y.rate())
	}
	if late := y.late(25 * ms); late != 2 {
		t.Errorf("%d answers took more than 25 ms", late)
	}
	sent := &tally{length: 100 * ms}
	sent.add(&answer{planned: 10 * ms, sent: 20 * ms}, 36*ms, nil, true)
	if sent.inTime != 1 || sent.took[0] != 16*ms {
		t.Errorf("from sending on: got %+v", sent)
	}
	if empty := (&tally{length: time.Second}); empty.share(decided) != 0 || empty.rate() != 0 {
		t.Errorf("without answers: %v, %v", empty.share(decided), empty.rate())
	}
}
