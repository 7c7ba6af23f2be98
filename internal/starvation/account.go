package starvation

import (
	"slices"
	"time"
)

const (
	// period is how often a Meter wants to run. It bounds by how much a gap is measured too short.
	period = 5 * time.Millisecond
	// leastLate is the delay below which nothing counts as lost: timers of an idle process are up to a millisecond late.
	leastLate = 2 * time.Millisecond
	// mostLost bounds what one gap counts for. A machine that was suspended for hours has lost no check for so long.
	mostLost = time.Second
	// samples are so many that they cover 10 s.
	samples = int(10 * time.Second / period)
)

// account counts lost time. Times are since the start of a Meter.
type account struct {
	processors int
	// counted is the time up to which everything is counted, cpu is the CPU time that the process had used then.
	counted, cpu time.Duration
}

// lost counts up to now. due is when the meter wanted to run, cpu is the CPU time that the process has used. The result
// is the lost time since the previous call.
func (a *account) lost(due, now, cpu time.Duration) time.Duration {
	late, used := now-max(due, a.counted), cpu-a.cpu
	a.counted, a.cpu = now, cpu
	if late < leastLate {
		return 0
	}
	return min(max(0, late-used/time.Duration(a.processors)), mostLost)
}

// delays are the scheduling delays of the last 10 s.
type delays struct {
	ring [samples]time.Duration
	next int
	size int // how many of ring are set
}

// add adds the delay of a tick, and the delays of the ticks that it represents: a gap of 50 ms has delayed work that
// began 5 ms into it by 45 ms, and so on. Without them a single long gap would be one sample among 2,000.
func (d *delays) add(late time.Duration) {
	late = max(0, min(late, mostLost))
	for {
		d.ring[d.next] = late
		d.next = (d.next + 1) % samples
		d.size = min(d.size+1, samples)
		if late -= period; late <= 0 {
			return
		}
	}
}

// percentile returns the smallest delay that at least p percent of the delays do not exceed, 0 if there are none.
func (d *delays) percentile(p int) time.Duration {
	if d.size == 0 {
		return 0
	}
	sorted := slices.Clone(d.ring[:d.size])
	slices.Sort(sorted)
	return sorted[(d.size*p+99)/100-1]
}
