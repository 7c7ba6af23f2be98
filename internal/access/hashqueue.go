package access

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// hashesAtOnce is how many passwords are hashed at a time. It bounds the memory that
// unauthenticated clients can make this process use, 19 MiB for each hash.
const hashesAtOnce = 2

// ErrBusy means that a password was not hashed because too many callers are waiting. It is also the cause with which
// a caller who waits no longer ends its context.
var ErrBusy = errors.New("too many passwords are being checked; try again in a few seconds")

// Lane is one of the two queues for hashing. They take turns, so that a flood in one
// queue delays the other by one hash at a time.
type Lane int

const (
	// LaneStrangers is for unauthenticated callers.
	LaneStrangers Lane = iota
	// LaneSignedIn is for people with a session, and for the command line.
	LaneSignedIn
)

// waitingRoom is how many callers can wait in each lane. A hash was measured at 33 ms, so
// that two at a time process 24 + 8 callers in 0.6 s, and on a machine half as fast
// nobody waits much longer than a second. Further callers get ErrBusy at once.
var waitingRoom = [...]int{LaneStrangers: 24, LaneSignedIn: 8}

// hashQueue lets hashesAtOnce callers proceed and a bounded number wait, in order of
// arrival in each lane. It is safe for concurrent use.
type hashQueue struct {
	mu      sync.Mutex
	running int
	// waiting has a channel for each caller, which is closed to let the caller proceed.
	waiting [len(waitingRoom)][]chan struct{}
	// next is the lane whose turn it is.
	next Lane
}

// enter returns nil once the caller may hash, who must then call leave. Otherwise the
// error is ErrBusy or the cause of the end of ctx.
func (q *hashQueue) enter(ctx context.Context, lane Lane) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	q.mu.Lock()
	if q.running < hashesAtOnce { // then nobody waits
		q.running++
		q.mu.Unlock()
		return nil
	}
	if len(q.waiting[lane]) >= waitingRoom[lane] {
		q.mu.Unlock()
		return ErrBusy
	}
	turn := make(chan struct{})
	q.waiting[lane] = append(q.waiting[lane], turn)
	q.mu.Unlock()

	select {
	case <-turn:
		if ctx.Err() != nil {
			q.leave()
			return context.Cause(ctx)
		}
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	i := slices.Index(q.waiting[lane], turn)
	if i >= 0 {
		q.waiting[lane] = slices.Delete(q.waiting[lane], i, i+1)
	}
	q.mu.Unlock()
	if i < 0 { // the caller was let in at the same moment; let the next one in
		q.leave()
	}
	return context.Cause(ctx)
}

// leave lets the next caller proceed.
func (q *hashQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for range q.waiting {
		lane := q.next
		q.next = (q.next + 1) % Lane(len(q.waiting))
		if line := q.waiting[lane]; len(line) > 0 {
			close(line[0])
			q.waiting[lane] = slices.Delete(line, 0, 1)
			return
		}
	}
	q.running--
}
