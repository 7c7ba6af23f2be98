package access

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// hashesAtOnce bounds how many passwords are hashed at a time, and so the memory
// that strangers can make this process use: 19 MiB each.
const hashesAtOnce = 2

// ErrBusy refuses to hash a password because too many callers wait already.
var ErrBusy = errors.New("too many passwords are being checked; try again in a few seconds")

// Lane is one of the two queues for hashing. They take turns, so a flood in one
// delays the other by a single hash at a time.
type Lane int

const (
	// LaneStrangers is for callers who have not proved who they are.
	LaneStrangers Lane = iota
	// LaneSignedIn is for people with a session, and for the command line.
	LaneSignedIn
)

// waitingRoom bounds how many callers wait in each lane. A hash was measured at 33 ms,
// so two at a time work off 24 + 8 callers and their own in 0.6 s: on a machine half
// as fast nobody waits much longer than a second. Whoever would is refused at once.
var waitingRoom = [...]int{LaneStrangers: 24, LaneSignedIn: 8}

// hashQueue lets hashesAtOnce callers in and makes a bounded number wait, each lane
// in the order of arrival. It is safe for concurrent use.
type hashQueue struct {
	mu      sync.Mutex
	running int
	// waiting holds a channel for each caller; closing it lets the caller in.
	waiting [len(waitingRoom)][]chan struct{}
	// next is the lane whose turn it is.
	next Lane
}

// enter returns nil once the caller may hash; leave must follow. Otherwise the
// error is ErrBusy or that of ctx, and the caller holds no place.
func (q *hashQueue) enter(ctx context.Context, lane Lane) error {
	if err := ctx.Err(); err != nil {
		return err
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
		if err := ctx.Err(); err != nil {
			q.leave()
			return err
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
	if i < 0 { // the turn came at the same moment; pass it on
		q.leave()
	}
	return ctx.Err()
}

// leave ends what enter began, and lets the next caller in.
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
