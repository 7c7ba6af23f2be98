package telemetry

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"sluice/api/decide"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// written returns what a scrape sees of l.
func written(t interface{ Fatal(...any) }, l *latency) *dto.Histogram {
	var out dto.Metric
	var now durations
	now.add(l)
	if err := now.metric(stageDuration, "queue").Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetHistogram()
}

// client_golang's own histogram of the same schema and bounds says the same of any durations.
func TestLatency_SaysWhatTheClientDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, together := new(latency), new(latency)
		var waits []redisstore.Wait
		want := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "x", Buckets: latencyBounds[:],
			NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: math.Exp2(minOctave)})
		edges := rapid.SampledFrom([]time.Duration{0, 953, 954, 10_000, 10_001, 25_000_000, 25_000_001, time.Second})
		all := rapid.Int64Range(0, int64(30*time.Second))
		small := rapid.Int64Range(0, int64(100*time.Microsecond))
		for range rapid.IntRange(0, 200).Draw(t, "n") {
			d := rapid.OneOf(edges, rapid.Map(all, toDuration), rapid.Map(small, toDuration)).Draw(t, "d")
			l.observe(d, 1)
			waits = append(waits, redisstore.Wait{Time: d, Requests: 1})
			want.Observe(d.Seconds())
		}
		var out dto.Metric
		if err := want.Write(&out); err != nil {
			t.Fatal(err)
		}
		together.observeAll(waits)
		g, w := written(t, l), out.GetHistogram()
		if all := written(t, together); all.String() != g.String() {
			t.Fatalf("one by one\n%v\ntogether\n%v", g, all)
		}
		if math.Abs(g.GetSampleSum()-w.GetSampleSum()) > 1e-6 {
			t.Fatalf("sum %v, want %v", g.GetSampleSum(), w.GetSampleSum())
		}
		show := func(h *dto.Histogram) string {
			return fmt.Sprint(h.GetSampleCount(), h.GetSchema(), h.GetZeroThreshold(), h.GetZeroCount(), h.PositiveSpan,
				h.PositiveDelta, h.Bucket)
		}
		if len(w.PositiveSpan) > 0 && show(g) != show(w) {
			t.Fatalf("got\n%s\nwant\n%s", show(g), show(w))
		}
	})
}

// The bounds themselves, and 1 ns on either side, are where the client puts them.
func TestLatency_BoundsAreExact(t *testing.T) {
	for i, upTo := range latencyUpTo {
		if got := cellOf(upTo); got != i {
			t.Errorf("%d ns is in cell %d, want %d", upTo, got, i)
		}
		if upTo == math.MaxInt64 {
			break
		}
		if got := cellOf(upTo + 1); got != i+1 {
			t.Errorf("%d ns is in cell %d, want %d", upTo+1, got, i+1)
		}
	}
	if !slices.IsSorted(latencyUpTo[:]) || latencyUpTo[latencyCells-1] != math.MaxInt64 ||
		!slices.Contains(latencyUpTo[:], int64(objectiveTime)) {
		t.Errorf("%v", latencyUpTo)
	}
}

func toDuration(ns int64) time.Duration { return time.Duration(ns) }

func TestLatency_KeepsWhatIsOutside(t *testing.T) {
	l := new(latency)
	l.observe(-time.Second, 1)
	l.observe(time.Hour, 2)
	if h := written(t, l); h.GetSampleCount() != 3 || h.GetZeroCount() != 1 || h.GetSampleSum() != 7200 ||
		h.Bucket[len(h.Bucket)-1].GetCumulativeCount() != 1 {
		t.Errorf("%v", h)
	}
}

func TestLatency_AllocatesNothing(t *testing.T) {
	l := new(latency)
	if n := testing.AllocsPerRun(1000, func() { l.observe(3*time.Millisecond, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestObjective_CountsTakesOnce(t *testing.T) {
	m := New(Build{})
	observe := func(change func(d *decide.Decision)) {
		d := taken("a")
		d.Outcome, d.By = decide.OutcomeAdmitted, decide.ByStore
		change(d)
		m.ObserveDecision(d)
	}
	observe(func(d *decide.Decision) { d.Took = objectiveTime })
	observe(func(d *decide.Decision) { d.Took = objectiveTime + 1 })
	observe(func(d *decide.Decision) { d.Answer.Degraded = "open" })
	observe(func(d *decide.Decision) { d.Answer.Verdict = decide.Unavailable })
	observe(func(d *decide.Decision) { d.Outcome = "" })
	observe(func(d *decide.Decision) { d.Answer.Op = limiter.OpCharge })
	testenv.Served(t, m, `sluice_objective_checks_total{result="met"} 1`, `sluice_objective_checks_total{result="late"} 1`,
		`sluice_objective_checks_total{result="fail_mode"} 2`)
}

func BenchmarkLatency(b *testing.B) {
	l := new(latency)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for d := time.Duration(900_000); p.Next(); d += 100 {
			l.observe(d, 1)
		}
	})
}

// BenchmarkLatencyOfClient is the histogram that latency replaces.
func BenchmarkLatencyOfClient(b *testing.B) {
	l := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "x", Buckets: latencyBounds[:],
		NativeHistogramBucketFactor: 1.1})
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for d := time.Duration(900_000); p.Next(); d += 100 {
			l.Observe(d.Seconds())
		}
	})
}
