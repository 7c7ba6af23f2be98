package kafkasink

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/internal/records"
)

// event is one event until it is known what became of it.
type event struct {
	id     uint64
	size   int // bytes of key and value
	since  time.Time
	record kgo.Record
	header [1]kgo.RecordHeader

	// The ledger's lock guards the rest.
	next, prev *event
	batch      uint64 // the batch it was encoded in last
	waiting    int    // requests with it that are on the wire
	lost       int    // requests with it whose answer did not come or did not say whether it was taken
	failed     bool   // the client gave it up
	reason     records.Reason
	settled    bool // it is in the account
	finished   bool // the client has nothing more to do with it
}

// verdict is the result of a batch according to an answer.
type verdict uint8

const (
	taken   verdict = iota // it is in the topic
	refused                // it is not in the topic
	unsure                 // nobody knows
)

// ledger tracks the events of the client, and counts each of them once in the account. It is safe for concurrent use.
type ledger struct {
	account *records.Account
	// delivered is called when events were delivered, noticed with the error codes of other answers. Both are called
	// without a lock.
	delivered func()
	noticed   func(error)

	mu   sync.Mutex
	last uint64
	// open is the number of events that are not in the account yet, and size their total size in bytes.
	open, size int
	// events are the open events, and confirmed events that the client may still send again, because it ignores answers
	// that arrive out of order. Kafka recognises repeated events by their sequence and stores them once.
	events map[uint64]*event
	// head is a ring of the open events by age: head.next is the oldest.
	head event
	// encoded are batches that were encoded and not yet written, by the hash of their bytes.
	encoded map[uint64][]*event
	shut    bool
	// idle, if it is not nil, is closed when there are no events.
	idle chan struct{}
}

func newLedger(account *records.Account) *ledger {
	l := &ledger{account: account, events: map[uint64]*event{}, encoded: map[uint64][]*event{}}
	l.head.next, l.head.prev = &l.head, &l.head
	return l
}

// add adds an event of size bytes. It returns nil if there is no room.
func (l *ledger) add(size int, now time.Time) *event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= maxEvents || l.size+size > maxBytes {
		return nil
	}
	e := &event{size: size, since: now}
	l.open, l.size = l.open+1, l.size+size
	l.last++
	e.id = l.last
	l.events[e.id] = e
	e.prev, e.next = l.head.prev, &l.head
	e.prev.next, e.next.prev = e, e
	return e
}

// oldest returns when the oldest open event was added, zero if there is none.
func (l *ledger) oldest() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.next.since
}

// encode notes the events of a batch by the hash of the batch.
func (l *ledger) encode(batch uint64, ids []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := make([]*event, 0, len(ids))
	for _, id := range ids {
		e := l.events[id]
		if e == nil { // write will refuse the batch
			return
		}
		delete(l.encoded, e.batch)
		e.batch = batch
		events = append(events, e)
	}
	l.encoded[batch] = events
}

// write returns the events of a batch, which is about to be written. It is false if it must not be written, because
// the account already says of one of its events that it was not.
func (l *ledger) write(batch uint64) ([]*event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, ok := l.encoded[batch]
	delete(l.encoded, batch)
	if l.shut || !ok {
		return nil, false
	}
	for _, e := range events {
		e.waiting++
	}
	return events, true
}

// answer notes what became of a batch that was written.
func (l *ledger) answer(events []*event, v verdict) {
	if v == taken && len(events) > 0 {
		defer l.delivered()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		e.waiting--
		switch {
		case e.settled:
			continue
		case v == taken:
			l.account.Deliver(1)
			l.settle(e)
			continue
		case v == unsure:
			e.lost++
		}
		l.giveUp(e)
	}
}

// deliver notes that the client says an event is in the topic.
func (l *ledger) deliver(e *event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.finished = true
	if e.settled {
		l.forget(e)
		return
	}
	l.account.Deliver(1)
	l.settle(e)
}

// fail notes that the client gave an event up. If it is on the wire, the account waits for the answer.
func (l *ledger) fail(e *event, r records.Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.finished = true
	if e.settled {
		l.forget(e)
		return
	}
	e.failed, e.reason = true, r
	l.giveUp(e)
}

// giveUp counts an event that the client gave up, unless an answer may still come.
func (l *ledger) giveUp(e *event) {
	if !e.failed || e.waiting > 0 {
		return
	}
	if e.lost > 0 {
		l.account.Doubt(1)
	} else {
		l.account.Drop(e.reason, 1)
	}
	l.settle(e)
}

// remains are the events that were open when the ledger closed: dropped or doubtful, with the bytes of both.
type remains struct{ dropped, doubtful, bytes int }

// close counts all events that are left. After it nothing is written.
func (l *ledger) close() (left remains) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut, left.bytes = true, l.size
	for e := l.head.next; e != &l.head; e = l.head.next {
		if !e.failed {
			e.failed, e.reason = true, records.Shutdown
		}
		e.lost, e.waiting = e.lost+e.waiting, 0
		if e.lost > 0 {
			left.doubtful++
		} else {
			left.dropped++
		}
		l.giveUp(e)
	}
	clear(l.events)
	clear(l.encoded)
	return left
}

// wait waits until it is known of all events what became of them.
func (l *ledger) wait(ctx context.Context) error {
	l.mu.Lock()
	if l.open == 0 {
		l.mu.Unlock()
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle notes that an event is in the account. Who waits for the last one then finds it there.
func (l *ledger) settle(e *event) {
	e.settled = true
	l.open, l.size = l.open-1, l.size-e.size
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
	if e.finished || l.shut {
		l.forget(e)
	}
	if l.open == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// forget removes an event. A batch that was encoded with the event can no longer be written.
func (l *ledger) forget(e *event) {
	delete(l.events, e.id)
	delete(l.encoded, e.batch)
}
