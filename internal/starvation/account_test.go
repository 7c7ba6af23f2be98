package starvation

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestAccount_LostIsDelayWithoutOwnWork(t *testing.T) {
	for _, c := range []struct {
		name           string
		due, now, used time.Duration
		processors     int
		want           time.Duration
	}{
		{"in time", 5 * ms, 5 * ms, 1 * ms, 2, 0},
		{"the timer of an idle process", 5 * ms, 7*ms - 1, 0, 2, 0},
		{"the shortest gap that counts", 5 * ms, 7 * ms, 0, 2, 2 * ms},
		{"stopped", 5 * ms, 100 * ms, 2 * ms, 2, 94 * ms},
		{"busy on both processors", 5 * ms, 100 * ms, 190 * ms, 2, 0},
		{"busy since before the tick was due", 5 * ms, 100 * ms, 200 * ms, 2, 0},
		{"one processor of two", 5 * ms, 100 * ms, 95 * ms, 2, 47*ms + 500*time.Microsecond},
		{"one processor of one", 5 * ms, 100 * ms, 95 * ms, 1, 0},
		{"suspended for an hour", 5 * ms, time.Hour, 0, 2, time.Second},
		{"busy for an hour", 5 * ms, time.Hour, 2 * time.Hour, 2, 0},
	} {
		const before = 7 * time.Second // CPU time used earlier
		a := account{processors: c.processors, cpu: before}
		if got := a.lost(c.due, c.now, before+c.used); got != c.want {
			t.Errorf("%s: lost %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAccount_CountsAGapOnce(t *testing.T) {
	a := account{processors: 1}
	first := a.lost(5*ms, 55*ms, 0)
	second := a.lost(5*ms, 60*ms, 0) // the tick itself, which was due before the first look
	third := a.lost(60*ms, 61*ms, 0)
	if first != 50*ms || second != 5*ms || third != 0 {
		t.Errorf("lost %s, %s and %s, want 50 ms, 5 ms and 0", first, second, third)
	}
}

func TestDelays_AGapStandsForTheWorkThatItDelayed(t *testing.T) {
	var d delays
	if got := d.percentile(99); got != 0 {
		t.Errorf("without samples %s", got)
	}
	for range 2 * samples {
		d.add(100 * time.Microsecond)
	}
	if got := d.percentile(99); got != 100*time.Microsecond {
		t.Errorf("of an idle process %s, want 100µs", got)
	}
	d.add(500 * ms) // a twentieth of the time
	if got, want := d.percentile(99), 400*ms; got != want {
		t.Errorf("with one gap of half a second %s, want %s", got, want)
	}
	for range samples {
		d.add(0)
	}
	if got := d.percentile(99); got != 0 {
		t.Errorf("10 s after the gap %s, want 0", got)
	}
	d.add(time.Hour)
	if got := d.percentile(100); got != mostLost {
		t.Errorf("after a suspend %s, want %s", got, mostLost)
	}
}
