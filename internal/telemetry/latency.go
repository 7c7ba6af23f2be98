package telemetry

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"sluice/limiter/redisstore"
)

// latency is a histogram of durations, as a native histogram of schema 3 (eight buckets for each
// doubling, from 1 µs to 32 s) and with the classic buckets of latencyBounds. Both are sums of the
// same cells. Observing does not allocate and takes no lock. It is safe for concurrent use.
//
// client_golang's own native histogram costs twice as much on one processor: see BenchmarkLatency.
type latency struct {
	stripes [latencyStripes]latencyStripe
}

const (
	latencySchema = 3
	perOctave     = 1 << latencySchema
	// Durations up to 2^minOctave s are in the zero bucket. Durations above 2^maxOctave s are in
	// the last bucket.
	minOctave, maxOctave = -20, 5
	nativeBuckets        = (maxOctave - minOctave) * perOctave
	// latencyStripes is how many copies of the cells there are, so that processors seldom write to
	// the same cache line.
	latencyStripes = 4
	cacheLine      = 64
)

// latencyBounds are the upper bounds of the classic buckets, in seconds.
var latencyBounds = [...]float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1,
	.25, 1}

// latencyStripe has two cells for each native bucket, the zero bucket first: what is up to the
// classic bound within it, and what is above. Without such a bound the second stays 0.
type latencyStripe struct {
	ns    atomic.Int64 // the sum
	_     [cacheLine - 8]byte
	cells [2 * (nativeBuckets + 1)]atomic.Int64
	_     [cacheLine - 16]byte
}

// octaveBounds are the upper bounds of the native buckets of an octave, as fractions from ½ to 1.
var octaveBounds = func() (bounds [perOctave]float64) {
	for i := range bounds {
		bounds[i] = math.Exp2(float64(i)/perOctave - 1)
	}
	return bounds
}()

// splits are the classic bounds within each native bucket, +Inf where there is none.
var splits = func() (bounds [nativeBuckets + 1]float64) {
	for i := range bounds {
		bounds[i] = math.Inf(1)
	}
	for _, b := range latencyBounds {
		bounds[nativeBucket(b)] = b
	}
	return bounds
}()

// nativeBucket returns the place of a duration: 0 is the zero bucket.
func nativeBucket(seconds float64) int {
	if seconds == 0 {
		return 0
	}
	frac, exp := math.Frexp(seconds)
	i := 0
	for i < perOctave && octaveBounds[i] < frac {
		i++
	}
	return min(max((exp-1-minOctave)*perOctave+i, 0), nativeBuckets)
}

// observe counts n durations of d. A negative d counts as 0.
func (l *latency) observe(d time.Duration, n int64) {
	d = max(d, 0)
	seconds := d.Seconds()
	bucket := nativeBucket(seconds)
	cell := 2 * bucket
	if seconds > splits[bucket] {
		cell++
	}
	s := &l.stripes[rand.Uint32()%latencyStripes] //nolint:gosec // spreads writes
	s.cells[cell].Add(n)
	s.ns.Add(int64(d) * n)
}

// metric returns what was observed until now.
func (l *latency) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	var m latencyMetric
	native := map[int]int64{}
	var zero, count uint64
	var ns int64
	next := 0 // of latencyBounds
	for i := range nativeBuckets + 1 {
		var low, high int64
		for s := range l.stripes {
			low += l.stripes[s].cells[2*i].Load()
			high += l.stripes[s].cells[2*i+1].Load()
		}
		if !math.IsInf(splits[i], 1) {
			m.classic[next] = count + uint64(low) //nolint:gosec // never negative
			next++
		}
		count += uint64(low + high) //nolint:gosec // never negative
		switch n := low + high; {
		case i == 0:
			zero = uint64(n) //nolint:gosec // never negative
		case n > 0:
			native[minOctave*perOctave+i] = n
		}
	}
	for s := range l.stripes {
		ns += l.stripes[s].ns.Load()
	}
	m.Metric = prometheus.MustNewConstNativeHistogram(desc, count, time.Duration(ns).Seconds(), native, nil, zero,
		latencySchema, math.Exp2(minOctave), time.Time{}, labels...)
	return m
}

// latencyMetric adds classic buckets to a native histogram.
type latencyMetric struct {
	prometheus.Metric
	classic [len(latencyBounds)]uint64
}

// Write implements prometheus.Metric.
func (m latencyMetric) Write(out *dto.Metric) error {
	if err := m.Metric.Write(out); err != nil {
		return err
	}
	h := out.GetHistogram()
	h.CreatedTimestamp = nil
	h.Bucket = make([]*dto.Bucket, len(latencyBounds))
	for i := range latencyBounds {
		h.Bucket[i] = &dto.Bucket{UpperBound: &latencyBounds[i], CumulativeCount: &m.classic[i]}
	}
	return nil
}

// Describe implements prometheus.Collector.
func (t *timings) Describe(out chan<- *prometheus.Desc) {
	out <- checkDuration
	out <- stageDuration
}

// Collect implements prometheus.Collector.
func (t *timings) Collect(out chan<- prometheus.Metric) {
	if seen := t.checks.seen.Load(); seen != nil {
		for k, l := range *seen {
			out <- l.metric(checkDuration, k.op.String(), outcome(k.allowed))
		}
	}
	if t.hasStages.Load() {
		out <- t.queue.metric(stageDuration, "queue")
		out <- t.store.metric(stageDuration, "store")
	}
}

// timings is how long checks take. It implements redisstore.Timings.
type timings struct {
	checks       handles[durationKey, *latency]
	hasStages    atomic.Bool
	queue, store latency
}

var (
	checkDuration = prometheus.NewDesc("sluice_check_duration_seconds",
		"Time from a decoded request to its decision, by operation and outcome.", []string{"op", "outcome"}, nil)
	stageDuration = prometheus.NewDesc("sluice_check_stage_duration_seconds",
		"Parts of the time of a check, by stage: queue (from its start to the script call that carried it) and store "+
			"(that call).", []string{"stage"}, nil)
)

// Queued implements redisstore.Timings.
func (t *timings) Queued(d time.Duration, requests int) { t.queue.observe(d, int64(requests)) }

// Called implements redisstore.Timings.
func (t *timings) Called(d time.Duration, requests int) { t.store.observe(d, int64(requests)) }

// Timings returns what counts the stages of checks that a counter store decides, whose series exist
// from then on.
func (m *Metrics) Timings() redisstore.Timings {
	m.timings.hasStages.Store(true)
	return &m.timings
}
