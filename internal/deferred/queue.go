package deferred

import (
	"context"
	"errors"
	"time"
)

// Bounds of what a queue accepts.
const (
	// MaxBody bounds Item.Body, in bytes.
	MaxBody = 256 << 10
	// MaxName bounds Item.ID and Item.Bucket, in bytes.
	MaxName = 64
	// MaxLease bounds how many items one call leases, ends or returns.
	MaxLease = 1000
	// MaxHold bounds for how long an item may be leased.
	MaxHold = time.Hour
)

// ErrFull says that a queue holds as many items as it may. The item was not
// taken; those in the queue stay.
var ErrFull = errors.New("the queue is full")

// ErrUnavailable wraps every failure of what a queue is kept in. A Put that fails
// so may have been carried out all the same.
var ErrUnavailable = errors.New("the queue is not available")

// ErrInvalid says that an argument is out of its bounds.
var ErrInvalid = errors.New("not a valid item or lease")

// Item is one request that waits.
type Item struct {
	// Ticket names the item within its rule's queue, in letters, digits and -.
	// The queue gives it.
	Ticket string
	// ID, if not "", makes a second Put of the same item give the same ticket for
	// as long as the first is in the queue. At most MaxName bytes.
	ID string
	// Bucket tells apart items that do not wait for each other: a lease can leave
	// out the items of some buckets. At most MaxName bytes.
	Bucket string
	// Body is opaque to the queue. At most MaxBody bytes.
	Body []byte
	// At is when the item was put, Expires when it is dropped, in ms since the
	// epoch on the queue's clock.
	At, Expires int64
	// Deliveries is how often the item has been leased and not returned since, the
	// present lease included.
	Deliveries int64
}

// Bounds are those of one rule's queue.
type Bounds struct {
	// Items is the most that wait at once, 1 or more; leased ones count too.
	Items int64
	// Age is how long an item may wait, 1 ms or more, measured from its Put.
	Age time.Duration
}

// Want says what to lease.
type Want struct {
	// Max is the most items, 1 to MaxLease.
	Max int
	// Hold is how long they are kept from others, 1 ms to MaxHold.
	Hold time.Duration
	// Except names the buckets to leave out.
	Except []string
}

// Status is what a rule's queue holds.
type Status struct {
	// Depth counts the items, leased ones too.
	Depth int64
	// Age is how long the oldest has waited, 0 when there is none.
	Age time.Duration
}

// Queue keeps the items of every rule, by the rule's id. Every method is atomic
// and safe for concurrent use, on one node or, for a shared queue, on many.
//
// An item is in one of three states. It waits; or it is leased, until Finish
// ends or returns it or its time is over; or it is gone: ended, or dropped
// because it became too old. A queue never gives an item to two lessees whose
// times overlap, and never loses one that is not ended and not too old, but for
// what is lost with the disk or the server it is kept on.
type Queue interface {
	// Put adds an item at the end and gives its ticket. Errors wrap ErrFull,
	// ErrUnavailable or ErrInvalid.
	Put(ctx context.Context, rule int64, it Item, b Bounds) (ticket string, err error)
	// Lease takes the oldest items that wait, in order, and keeps them from others.
	// It looks at a bounded number of items, so it may give none although some
	// wait behind very many that it is told to leave out.
	Lease(ctx context.Context, rule int64, w Want) ([]Item, error)
	// Finish removes the items named by done for good and lets those named by back
	// wait again at their old places, as if they had not been leased. Tickets of
	// items that are not leased are passed over. It gives the number removed.
	Finish(ctx context.Context, rule int64, done, back []string) (int, error)
	// Rules lists up to most rules in whose queues something waits, by their ids in
	// ascending order. A queue outlives its rule.
	Rules(ctx context.Context, most int) ([]int64, error)
	// Status looks.
	Status(ctx context.Context, rule int64) (Status, error)
}

// Dropped hears, from a queue, how many items of a rule became too old. It must
// be quick and must not call the queue.
type Dropped func(rule int64, n int)

// Check reports whether an item can be put under these bounds.
func (it *Item) Check(b Bounds) error {
	if len(it.ID) > MaxName || len(it.Bucket) > MaxName || len(it.Body) > MaxBody || b.Items < 1 || b.Age < time.Millisecond {
		return ErrInvalid
	}
	return nil
}

// Check reports whether a lease is within its bounds.
func (w *Want) Check() error {
	if w.Max < 1 || w.Max > MaxLease || w.Hold < time.Millisecond || w.Hold > MaxHold || len(w.Except) > MaxLease {
		return ErrInvalid
	}
	return nil
}
