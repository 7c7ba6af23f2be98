package sense

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
)

// maxWaiting is how many reports wait in memory.
const maxWaiting = 1000

// buffer holds reports until they are stored, in order.
type buffer struct {
	mu      sync.Mutex
	waiting []evaluate.Sighting
	seq     int64
}

// add adds a report, or drops and counts it if the buffer is full.
func (s *Sensor) add(report evaluate.Sighting, now time.Time) {
	report.Node, report.At = s.opt.Node, now.UnixMilli()
	report.Address = s.opt.Address()
	b := &s.buffer
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= maxWaiting {
		s.counts.drop(report.Subject.Kind, 1)
		return
	}
	b.seq++
	report.Seq = b.seq
	b.waiting = append(b.waiting, report)
}

// first returns what waits.
func (b *buffer) first() []evaluate.Sighting {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clip(b.waiting)
}

// drop removes the first n waiting reports.
func (b *buffer) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.Clone(b.waiting[n:])
}

// counts counts reports by kind and result.
type counts struct{ stored, dropped [kinds]atomic.Int64 }

// kinds bounds the number of kinds.
const kinds = 16

var kindNames = alerts.Kinds()

func (c *counts) drop(kind alerts.Kind, n int64)  { add(&c.dropped, kind, n) }
func (c *counts) store(kind alerts.Kind, n int64) { add(&c.stored, kind, n) }

func add(to *[kinds]atomic.Int64, kind alerts.Kind, n int64) {
	for i, name := range kindNames {
		if name == string(kind) {
			to[i].Add(n)
		}
	}
}

// Count is how many reports of a kind were stored and dropped since the start of the node.
type Count struct{ Stored, Dropped int64 }

// Counts are the reports by kind, and how many wait.
func (s *Sensor) Counts() (of map[string]Count, waiting int) {
	of = map[string]Count{}
	for i, name := range kindNames {
		of[name] = Count{s.counts.stored[i].Load(), s.counts.dropped[i].Load()}
	}
	s.buffer.mu.Lock()
	defer s.buffer.mu.Unlock()
	return of, len(s.buffer.waiting)
}
