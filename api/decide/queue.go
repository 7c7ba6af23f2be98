package decide

import (
	"context"
	"errors"
	"time"
)

// Queue holds deferred requests as items, in one queue for each rule's id. Every method is
// atomic and safe for concurrent use, on one node or, for a shared queue, on many.
// internal/deferred has two implementations: one in Redis, one in files.
//
// A worked example. A rule allows 5 requests per second and queues up to 1,000 requests for an
// hour. The sixth request of a second is put into the rule's queue and its caller gets a
// ticket. A runner asks for requests that may pass: the item is leased for 30,000 ms, the
// rule's bucket denies it, and the item returns to its place. A second later the bucket allows
// it: the runner gets the item, delivers it, and acknowledges the ticket, which removes the
// item. If the runner crashes, the item returns to the queue after the 30,000 ms.
//
// An item has one of three states. It waits; or it is leased until Finish removes or returns
// it or the lease expires; or it is gone: removed, or dropped because it became too old. A
// queue never leases an item to two callers at the same time. It never loses an item that is
// neither removed nor too old, unless its disk or server is lost.
type Queue interface {
	// Put adds an item at the end and returns its ticket. Errors wrap ErrQueueFull,
	// ErrQueueUnavailable or ErrQueueInvalid. A Put that may have been carried out, or may still
	// be, wraps ErrQueueUnsure too; Withdraw ends the doubt.
	Put(ctx context.Context, rule int64, it QueueItem, b QueueBounds) (ticket string, err error)
	// Withdraw takes back the Put with the nonce, within MaxWithdraw of it. It returns "" if that Put has no item in
	// the queue and never will have, even if it arrives later. An item that was leased and not returned, or whose
	// ticket another Put returned, stays: Withdraw returns its ticket, even if the item was removed since.
	Withdraw(ctx context.Context, rule int64, nonce string) (ticket string, err error)
	// Lease leases the oldest waiting items, in order. It reads a bounded number of items, so
	// it may return none although some wait behind very many excluded ones.
	Lease(ctx context.Context, rule int64, w QueueWant) ([]QueueItem, error)
	// Finish removes the items with the tickets done and returns the items with the tickets back to their places, as if
	// they had not been leased. It ignores tickets of items that are not leased. It returns the number of removed
	// items.
	Finish(ctx context.Context, rule int64, done, back []string) (int, error)
	// Drop removes up to MaxQueueLease of the oldest items, leased or not, that were added no later than until, in ms
	// since the epoch on the queue's clock. It returns their number. Their tickets are worthless then.
	Drop(ctx context.Context, rule, until int64) (int, error)
	// Rules returns the ids of up to most rules whose queues are not empty, in ascending
	// order. A queue outlives its rule.
	Rules(ctx context.Context, most int) ([]int64, error)
	// Status returns the depth and the age of a queue.
	Status(ctx context.Context, rule int64) (QueueStatus, error)
}

// Bounds of what a queue accepts.
const (
	// MaxQueueBody bounds QueueItem.Body, in bytes.
	MaxQueueBody = 256 << 10
	// MaxQueueName bounds QueueItem.ID, Nonce and Bucket, in bytes.
	MaxQueueName = 64
	// MaxQueueLease bounds how many items one call leases, removes or returns.
	MaxQueueLease = 1000
	// MaxQueueHold bounds the time of a lease.
	MaxQueueHold = time.Hour
	// MaxWithdraw bounds the time from a Put to its Withdraw.
	MaxWithdraw = 30 * time.Second
)

// ErrQueueFull means that a queue is full. The item was not added.
var ErrQueueFull = errors.New("the queue is full")

// ErrQueueUnavailable wraps every failure of a queue's storage.
var ErrQueueUnavailable = errors.New("the queue is not available")

// ErrQueueUnsure means that a Put may have been carried out, or may still be.
var ErrQueueUnsure = errors.New("the outcome is unknown")

// ErrQueueInvalid means that an argument is out of bounds.
var ErrQueueInvalid = errors.New("not a valid item or lease")

// QueueItem is one deferred request.
type QueueItem struct {
	// Ticket identifies the item within its rule's queue, in letters, digits and -. The
	// queue assigns it.
	Ticket string
	// ID, if not "", makes a second Put of the same item return the same ticket while the
	// first is in the queue. At most MaxQueueName bytes.
	ID string
	// Nonce names one Put for Withdraw, and makes its repeats by the transport add one item. The
	// queue forgets it some time after MaxWithdraw. At most MaxQueueName bytes, "" for none.
	Nonce string
	// Bucket groups items that wait for each other: a lease can exclude the items of some
	// buckets. At most MaxQueueName bytes.
	Bucket string
	// Body is opaque to the queue. At most MaxQueueBody bytes.
	Body []byte
	// At is when the item was added, Expires when it is dropped, in ms since the epoch on the
	// queue's clock.
	At, Expires int64
	// Deliveries is the number of leases that did not end with a return, including the
	// current one.
	Deliveries int64
}

// QueueBounds are the bounds of one rule's queue.
type QueueBounds struct {
	// Items is the maximum number of items, 1 or more, including leased ones.
	Items int64
	// Age is how long an item may wait after its Put, 1 ms or more.
	Age time.Duration
}

// QueueWant selects the items to lease.
type QueueWant struct {
	// Max is the maximum number of items, 1 to MaxQueueLease.
	Max int
	// Hold is the time of the lease, 1 ms to MaxQueueHold.
	Hold time.Duration
	// Except lists the buckets to exclude.
	Except []string
}

// QueueStatus describes a rule's queue.
type QueueStatus struct {
	// Depth is the number of items, including leased ones.
	Depth int64
	// Age is how long the oldest item has waited, 0 if there is none.
	Age time.Duration
	// Repeated is the number of items that were leased more than once and not returned, which a receiver failed to
	// acknowledge: all of them, or those among the thousand oldest that were leased.
	Repeated int64
	// At is the time of the queue's clock, in ms since the epoch.
	At int64
}

// QueueDropped is called by a queue with the number of items of a rule that became too old. It
// must be fast and must not call the queue.
type QueueDropped func(rule int64, n int)

// Check returns an error unless an item can be added under the bounds.
func (it *QueueItem) Check(b QueueBounds) error {
	if max(len(it.ID), len(it.Nonce), len(it.Bucket)) > MaxQueueName || len(it.Body) > MaxQueueBody || b.Items < 1 ||
		b.Age < time.Millisecond {
		return ErrQueueInvalid
	}
	return nil
}

// Check returns an error unless a lease is within its bounds.
func (w *QueueWant) Check() error {
	if w.Max < 1 || w.Max > MaxQueueLease || w.Hold < time.Millisecond || w.Hold > MaxQueueHold ||
		len(w.Except) > MaxQueueLease {
		return ErrQueueInvalid
	}
	return nil
}
