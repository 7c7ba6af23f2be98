package redisstore

import "time"

// terms say how long a request may wait, and for which event. The zero value waits for as long as its caller does.
//
// A request that waits for its turn is not given up at the deadline while the server answers: a fail mode would decide
// it although nothing has failed. The store holds it until its turn has passed. Then it counts as overload, which
// denies and never engages a fail mode. Only if the server does not answer does the deadline end the wait, for waiting
// and for sent requests. An example with a store timeout of 21 ms and a caller who waits for 100 ms:
//
//	the server answers, and the turn comes after 60 ms     decided then
//	the server answers others, and no turn comes           overload after 80 ms
//	the server does not answer                             its fail mode decides after 21 ms, 42 as it begins to fail
//	no turn comes, and this node was not run for 50 ms     overload after 130 ms
type terms struct {
	start, deadline time.Time     // the deadline is start plus the store timeout; zero for none
	turn            time.Time     // zero: the request waits for as long as its caller does
	hard            time.Time     // the caller's own deadline, which nothing extends; zero for none
	impatient       bool          // some of the requests wait for a turn until the deadline only
	lost            time.Duration // how long this process had not been run when the request arrived
}

// mostGiven bounds the time that a check gets back because this process was not run: ten periods of a CPU quota, which
// is 100 ms in Linux. A node that gets nothing done in ten periods is not late but stopped, and its callers are gone.
const mostGiven = time.Second

// leastSilence is the time without any answer from the server after which it counts as silent: longer than the calls of
// a busy server, and shorter than the patience of a gateway that waits 20 ms.
const leastSilence = 5 * time.Millisecond

// fate is the outcome of a waiting request.
type fate uint8

const (
	held       fate = iota // it waits on
	overloaded             // no turn came in time
	unanswered             // the server does not answer: its fail mode decides
)

// circumstances are the conditions under which requests wait.
type circumstances struct {
	failing   bool                 // the server does not answer
	succeeded time.Time            // when the server answered last
	lost      func() time.Duration // how long this process was not run since it started; nil: never
}

// waiting returns what becomes at now of a request that was not sent yet, and when to look again if it is held; zero:
// never.
func (t *terms) waiting(now time.Time, c *circumstances) (fate, time.Time) {
	switch {
	case c.failing && !t.deadline.IsZero():
		if !now.Before(t.deadline) {
			return unanswered, time.Time{}
		}
		return held, t.deadline
	case t.turn.IsZero():
		return held, time.Time{}
	}
	return t.until(t.turn, now, c)
}

// refuses returns the outcome at now of the held requests that are impatient.
func (t *terms) refuses(now time.Time, c *circumstances) (fate, time.Time) {
	end := t.deadline
	if t.turn.Before(end) {
		end = t.turn
	}
	f, again := t.until(end, now, c)
	if f == unanswered { // not yet: a call under way may still succeed
		return held, t.turn
	}
	return f, again
}

// until holds a request until end plus the time that this process was not run since the request arrived. Then it is
// overload, unless the server has answered nobody since the request arrived.
func (t *terms) until(end, now time.Time, c *circumstances) (fate, time.Time) {
	if now.Before(end) {
		return held, end
	}
	if t.hard.IsZero() && c.lost != nil {
		end = end.Add(min(c.lost()-t.lost, mostGiven))
	}
	switch {
	case now.Before(end):
		return held, end
	case c.succeeded.After(t.start):
		return overloaded, time.Time{}
	case t.hard.IsZero() && now.Before(t.deadline): // a short turn takes nothing from the server's time
		return held, t.deadline
	case now.Sub(t.start) < leastSilence:
		return overloaded, time.Time{}
	}
	return unanswered, time.Time{}
}

// sent returns whether to give up a sent request at now: the server does not answer, or the deadline of the caller has
// passed. Otherwise again is the time of the next check. Zero means never, because its call ends without one.
func (t *terms) sent(now time.Time, failing bool) (ended bool, again time.Time) {
	switch {
	case failing && !t.deadline.IsZero():
		again = t.deadline
	case !t.hard.IsZero():
		again = t.hard
	default:
		return false, again
	}
	return !now.Before(again), again
}
