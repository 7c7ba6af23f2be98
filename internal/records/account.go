package records

import (
	"sync/atomic"
	"time"
)

// Reason is why an event was dropped. It is a label of metrics.
type Reason uint8

// The reasons.
const (
	// RingFull: the sink was slower than the events, and their buffer was full.
	RingFull Reason = iota
	// ClientFull: the buffer of the Kafka client was full.
	ClientFull
	// TooOld: Kafka did not take the event in time.
	TooOld
	// Refused: the sink said no for good: a disk that is full, a topic that does not exist.
	Refused
	// Shutdown: the node stopped before the event was delivered.
	Shutdown
	reasons
)

// String is the label.
func (r Reason) String() string {
	return [...]string{"ring_full", "client_full", "too_old", "refused", "shutdown"}[r]
}

// Reasons are all of them.
func Reasons() []Reason { return []Reason{RingFull, ClientFull, TooOld, Refused, Shutdown} }

// Account says what became of the events of one sink. It is safe for concurrent use.
type Account struct {
	produced, delivered, doubtful, folded atomic.Int64
	dropped                               [reasons]atomic.Int64
}

// Deliver counts n events that the sink has finally stored.
func (a *Account) Deliver(n int) { a.delivered.Add(int64(n)) }

// Drop counts n events that the sink certainly did not store.
func (a *Account) Drop(r Reason, n int) { a.dropped[r].Add(int64(n)) }

// Doubt counts n events that were sent but given up, at a forced stop or after the delivery timeout of the sink,
// without an answer that says whether they arrived.
func (a *Account) Doubt(n int) { a.doubtful.Add(int64(n)) }

// Totals are the counts of an account since the start of the node. Once Buffered is 0, Produced is the sum of
// Delivered, Dropped and Doubtful.
type Totals struct {
	Produced  int64            `json:"produced"`
	Delivered int64            `json:"delivered"`
	Dropped   map[string]int64 `json:"dropped"`
	Doubtful  int64            `json:"doubtful"`
	// Buffered counts events whose result is not known yet.
	Buffered int64 `json:"buffered"`
	// Folded is the number of denials that the events of other denials represent.
	Folded int64 `json:"folded"`
	// Age is the age of the oldest buffered event, 0 if there is none. Only Log.Totals sets it.
	Age time.Duration `json:"-"`
}

// Totals returns the counts.
func (a *Account) Totals() Totals {
	// The results of events are read before their number, so that Buffered is never negative.
	t := Totals{Delivered: a.delivered.Load(), Doubtful: a.doubtful.Load(), Folded: a.folded.Load(),
		Dropped: make(map[string]int64, reasons)}
	settled := t.Delivered + t.Doubtful
	for _, r := range Reasons() {
		n := a.dropped[r].Load()
		t.Dropped[r.String()] = n
		settled += n
	}
	t.Produced = a.produced.Load()
	t.Buffered = t.Produced - settled
	return t
}
