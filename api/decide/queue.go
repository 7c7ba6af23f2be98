package decide

import (
	"context"
	"errors"
	"time"
)

// Queue keeps deferred requests, the items of every rule by the rule's id. Every
// method is atomic and safe for concurrent use, on one node or, for a shared queue,
// on many. internal/deferred has the queues: one in Redis, one in files.
//
// A worked example. A rule allows 5 a second and keeps up to 1,000 requests for an
// hour. The sixth request of a second is put into the queue of the rule and its
// caller gets a ticket. A runner asks for what may go: the item is leased for 30,000
// ms, the rule's own bucket is asked, says no, and the item goes back to its place. A
// second later the bucket says yes: the runner gets the item, sends it on, and
// acknowledges the ticket; only then is it gone. Had the runner died, the item would
// have come back after those 30,000 ms.
//
// An item is in one of three states. It waits; or it is leased, until Finish
// ends or returns it or its time is over; or it is gone: ended, or dropped
// because it became too old. A queue never gives an item to two lessees whose
// times overlap, and never loses one that is not ended and not too old, but for
// what is lost with the disk or the server it is kept on.
type Queue interface {
	// Put adds an item at the end and gives its ticket. Errors wrap ErrQueueFull,
	// ErrQueueUnavailable or ErrQueueInvalid.
	Put(ctx context.Context, rule int64, it QueueItem, b QueueBounds) (ticket string, err error)
	// Lease takes the oldest items that wait, in order, and keeps them from others.
	// It looks at a bounded number of items, so it may give none although some
	// wait behind very many that it is told to leave out.
	Lease(ctx context.Context, rule int64, w QueueWant) ([]QueueItem, error)
	// Finish removes the items named by done for good and lets those named by back
	// wait again at their old places, as if they had not been leased. Tickets of
	// items that are not leased are passed over. It gives the number removed.
	Finish(ctx context.Context, rule int64, done, back []string) (int, error)
	// Rules lists up to most rules in whose queues something waits, by their ids in
	// ascending order. A queue outlives its rule.
	Rules(ctx context.Context, most int) ([]int64, error)
	// Status looks.
	Status(ctx context.Context, rule int64) (QueueStatus, error)
}

// Bounds of what a queue accepts.
const (
	// MaxQueueBody bounds QueueItem.Body, in bytes.
	MaxQueueBody = 256 << 10
	// MaxQueueName bounds QueueItem.ID and QueueItem.Bucket, in bytes.
	MaxQueueName = 64
	// MaxQueueLease bounds how many items one call leases, ends or returns.
	MaxQueueLease = 1000
	// MaxQueueHold bounds for how long an item may be leased.
	MaxQueueHold = time.Hour
)

// ErrQueueFull says that a queue holds as many items as it may. The item was not
// taken; those in the queue stay.
var ErrQueueFull = errors.New("the queue is full")

// ErrQueueUnavailable wraps every failure of what a queue is kept in. A Put that fails
// so may have been carried out all the same.
var ErrQueueUnavailable = errors.New("the queue is not available")

// ErrQueueInvalid says that an argument is out of its bounds.
var ErrQueueInvalid = errors.New("not a valid item or lease")

// QueueItem is one request that waits.
type QueueItem struct {
	// Ticket names the item within its rule's queue, in letters, digits and -.
	// The queue gives it.
	Ticket string
	// ID, if not "", makes a second Put of the same item give the same ticket for
	// as long as the first is in the queue. At most MaxQueueName bytes.
	ID string
	// Bucket tells apart items that do not wait for each other: a lease can leave
	// out the items of some buckets. At most MaxQueueName bytes.
	Bucket string
	// Body is opaque to the queue. At most MaxQueueBody bytes.
	Body []byte
	// At is when the item was put, Expires when it is dropped, in ms since the
	// epoch on the queue's clock.
	At, Expires int64
	// Deliveries is how often the item has been leased and not returned since, the
	// present lease included.
	Deliveries int64
}

// QueueBounds are those of one rule's queue.
type QueueBounds struct {
	// Items is the most that wait at once, 1 or more; leased ones count too.
	Items int64
	// Age is how long an item may wait, 1 ms or more, measured from its Put.
	Age time.Duration
}

// QueueWant says what to lease.
type QueueWant struct {
	// Max is the most items, 1 to MaxQueueLease.
	Max int
	// Hold is how long they are kept from others, 1 ms to MaxQueueHold.
	Hold time.Duration
	// Except names the buckets to leave out.
	Except []string
}

// QueueStatus is what a rule's queue holds.
type QueueStatus struct {
	// Depth counts the items, leased ones too.
	Depth int64
	// Age is how long the oldest has waited, 0 when there is none.
	Age time.Duration
}

// QueueDropped hears, from a queue, how many items of a rule became too old. It must
// be quick and must not call the queue.
type QueueDropped func(rule int64, n int)

// Check reports whether an item can be put under these bounds.
func (it *QueueItem) Check(b QueueBounds) error {
	if len(it.ID) > MaxQueueName || len(it.Bucket) > MaxQueueName || len(it.Body) > MaxQueueBody || b.Items < 1 ||
		b.Age < time.Millisecond {
		return ErrQueueInvalid
	}
	return nil
}

// Check reports whether a lease is within its bounds.
func (w *QueueWant) Check() error {
	if w.Max < 1 || w.Max > MaxQueueLease || w.Hold < time.Millisecond || w.Hold > MaxQueueHold ||
		len(w.Except) > MaxQueueLease {
		return ErrQueueInvalid
	}
	return nil
}
