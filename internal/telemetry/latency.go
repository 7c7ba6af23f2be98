package telemetry

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
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
// client_golang's own native histogram costs several times as much: see BenchmarkLatency.
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
	// latencyCells is the number of cells: one for each native bucket, the zero bucket among them,
	// and one more for each classic bound within a bucket. ¼ s and 1 s are bounds of both.
	latencyCells = nativeBuckets + 1 + len(latencyBounds) - 2
	// latencyStripes is how many copies of the cells there are, so that processors seldom write to
	// the same cache line.
	latencyStripes = 4
	cacheLine      = 64
)

// latencyBounds are the upper bounds of the classic buckets, in seconds.
var latencyBounds = [...]float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1,
	.25, 1}

// latencyStripe has the cells of latencyUpTo.
type latencyStripe struct {
	ns    atomic.Int64 // the sum
	_     [cacheLine - 8]byte
	cells [latencyCells]atomic.Int64
	_     [cacheLine]byte
}

// latencyUpTo are the largest durations in each cell, in ns, ascending.
var latencyUpTo = func() (upTo [latencyCells]int64) {
	all := append(nativeUpTo[:], classicUpTo[:]...)
	slices.Sort(all)
	copy(upTo[:], slices.Compact(all))
	return upTo
}()

// nativeUpTo are the largest durations in each native bucket, in ns, the zero bucket first.
var nativeUpTo = func() (upTo [nativeBuckets + 1]int64) {
	for i := range nativeBuckets {
		fraction := math.Exp2(float64(i%perOctave)/perOctave - 1)
		upTo[i] = nanoseconds(math.Ldexp(fraction, i/perOctave+1+minOctave))
	}
	upTo[nativeBuckets] = math.MaxInt64
	return upTo
}()

// classicUpTo are the largest durations in each classic bucket, in ns.
var classicUpTo = func() (upTo [len(latencyBounds)]int64) {
	for i, b := range latencyBounds {
		upTo[i] = nanoseconds(b)
	}
	return upTo
}()

// nanoseconds returns the longest duration that is not longer than a number of seconds.
func nanoseconds(seconds float64) int64 {
	d := time.Duration(seconds*1e9) + 1
	for d.Seconds() > seconds {
		d--
	}
	return int64(d)
}

// The table of cellOf has a row for each number of bits that a duration in ns may have, from
// leastBits, and in each row 2^rowBits entries, by the bits that follow the first.
const (
	rowBits             = 5
	leastBits, mostBits = 10, 36 // 512 ns to 68 s
)

// latencyTable has the first cell that a duration with the bits of the entry may be in.
var latencyTable = func() (table [(mostBits - leastBits + 1) << rowBits]uint8) {
	for i := range table {
		least := int64(1<<rowBits|i&(1<<rowBits-1)) << (i>>rowBits + leastBits - rowBits - 1)
		cell, _ := slices.BinarySearch(latencyUpTo[:], least)
		table[i] = uint8(cell) //nolint:gosec // latencyCells is less than 256
	}
	return table
}()

// cellOf returns the cell of a duration in ns, at least 0.
func cellOf(ns int64) int {
	n := bits.Len64(uint64(ns)) //nolint:gosec // not negative
	if n < leastBits {
		return 0
	}
	if n > mostBits {
		return latencyCells - 1
	}
	cell := int(latencyTable[(n-leastBits)<<rowBits|int(ns>>(n-rowBits-1))&(1<<rowBits-1)])
	for ns > latencyUpTo[cell] {
		cell++
	}
	return cell
}

// observe counts n durations of d. A negative d counts as 0.
func (l *latency) observe(d time.Duration, n int64) {
	d = max(d, 0)
	s := l.stripe()
	s.cells[cellOf(int64(d))].Add(n)
	if d > 0 {
		s.ns.Add(int64(d) * n)
	}
}

// observeAll counts the waits of one call. Successive waits of similar length are counted at once.
func (l *latency) observeAll(waits []redisstore.Wait) {
	s := l.stripe()
	var ns, n int64
	cell := 0
	for _, w := range waits {
		d := int64(max(w.Time, 0))
		if c := cellOf(d); c != cell {
			if n > 0 {
				s.cells[cell].Add(n)
			}
			cell, n = c, 0
		}
		n += int64(w.Requests)
		ns += d * int64(w.Requests)
	}
	if n > 0 {
		s.cells[cell].Add(n)
	}
	if ns > 0 {
		s.ns.Add(ns)
	}
}

// stripe returns one of the stripes.
func (l *latency) stripe() *latencyStripe {
	return &l.stripes[rand.Uint32()%latencyStripes] //nolint:gosec // spreads writes
}

// durations are what a latency, or several, had observed at an instant.
type durations struct {
	cells [latencyCells]int64
	ns    int64
}

// add adds what was observed by l until now.
func (d *durations) add(l *latency) {
	for s := range l.stripes {
		for i := range d.cells {
			d.cells[i] += l.stripes[s].cells[i].Load()
		}
		d.ns += l.stripes[s].ns.Load()
	}
}

// join adds what others had observed.
func (d *durations) join(others *durations) {
	for i, n := range others.cells {
		d.cells[i] += n
	}
	d.ns += others.ns
}

// count returns how many durations there are, and how many of them are at most limit, the bound of a cell.
func (d *durations) count(limit time.Duration) (all, within int64) {
	for i, n := range d.cells {
		all += n
		if latencyUpTo[i] <= int64(limit) {
			within += n
		}
	}
	return all, within
}

// metric returns the histogram.
func (d *durations) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	var m latencyMetric
	native := map[int]int64{}
	var count, zero int64
	bucket, classic := 0, 0
	for i, n := range d.cells {
		count += n
		switch {
		case bucket == 0:
			zero += n
		case n > 0:
			native[minOctave*perOctave+bucket] += n
		}
		if upTo := latencyUpTo[i]; classic < len(classicUpTo) && upTo == classicUpTo[classic] {
			m.classic[classic] = uint64(count) //nolint:gosec // never negative
			classic++
		}
		if latencyUpTo[i] == nativeUpTo[bucket] {
			bucket++
		}
	}
	//nolint:gosec // never negative
	m.Metric = prometheus.MustNewConstNativeHistogram(desc, uint64(count), time.Duration(d.ns).Seconds(), native, nil,
		uint64(zero), latencySchema, math.Exp2(minOctave), time.Time{}, labels...)
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

// stages is how long the parts of checks take that a counter store decides. It implements
// redisstore.Timings.
type stages struct {
	exist        atomic.Bool
	queue, store latency
}

var stageDuration = prometheus.NewDesc("sluice_check_stage_duration_seconds",
	"Parts of the time of a check, by stage: queue (from its start to the script call that carried it) and store "+
		"(that call).", []string{"stage"}, nil)

// Describe implements prometheus.Collector.
func (s *stages) Describe(out chan<- *prometheus.Desc) { out <- stageDuration }

// Collect implements prometheus.Collector.
func (s *stages) Collect(out chan<- prometheus.Metric) {
	if !s.exist.Load() {
		return
	}
	var queue, store durations
	queue.add(&s.queue)
	store.add(&s.store)
	out <- queue.metric(stageDuration, "queue")
	out <- store.metric(stageDuration, "store")
}

// Called implements redisstore.Timings.
func (s *stages) Called(took time.Duration, requests int, waits []redisstore.Wait) {
	s.store.observe(took, int64(requests))
	s.queue.observeAll(waits)
}

// CalledAtOnce implements redisstore.Timings.
func (s *stages) CalledAtOnce(took time.Duration, requests int) {
	s.store.observe(took, int64(requests))
	s.queue.observe(0, int64(requests))
}

// Timings returns what counts the stages of checks that a counter store decides, whose series exist
// from then on.
func (m *Metrics) Timings() redisstore.Timings {
	m.stages.exist.Store(true)
	return &m.stages
}
