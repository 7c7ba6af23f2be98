package redisstore

import "time"

// deadlines is a lane's one timer for the deadlines of all that it holds. A
// timer for each request would cost more than deciding it; here, under load, one
// rings once in the time that a check may take.
type deadlines struct {
	timer *time.Timer
	due   time.Time // when it rings; zero if it is not set
}

// expect makes the timer ring at t at the latest. The caller holds mu.
func (l *lane) expect(t time.Time) {
	w := &l.watch
	if !w.due.IsZero() && !t.Before(w.due) {
		return
	}
	w.due = t
	in := t.Sub(wallTime())
	if w.timer == nil {
		w.timer = time.AfterFunc(in, l.expire)
		return
	}
	w.timer.Reset(in)
}

// expire answers every watched group whose deadline has passed, and takes those
// that have not been sent out of the queue.
func (l *lane) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := wallTime()
	l.watch.due = time.Time{}
	kept := l.queue[:0]
	for _, g := range l.queue {
		if l.overdue(g, now) {
			l.queued -= len(g.ops)
			continue
		}
		kept = append(kept, g)
	}
	clear(l.queue[len(kept):])
	l.queue = kept
	for i := range l.flights {
		for _, g := range l.flights[i].groups {
			l.overdue(g, now)
		}
	}
}

// overdue answers g if its deadline has passed, and else sees to it that the
// timer rings then.
func (l *lane) overdue(g *group, now time.Time) bool {
	switch {
	case !g.watched || g.expired:
		return false
	case g.deadline.After(now):
		l.expect(g.deadline)
		return false
	}
	g.expired = true
	g.done <- struct{}{} // never blocks: a group is answered once
	return true
}
