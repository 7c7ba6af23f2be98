package home

import (
	"context"
	"sync"
	"time"

	"sluice/limiter"
)

const (
	// maxUndos bounds the takes that wait to be given back.
	maxUndos = 10_000
	// undoFirst is the pause after the first try, and before that of a take that may still be on its way. It doubles up to
	// undoMost. undoLife is for how long it is tried.
	undoFirst, undoMost = 500 * time.Millisecond, 8 * time.Second
	undoLife            = time.Minute
	// undoSure is for how long a take that may still be on its way is given back again although there was nothing to give
	// back. A region carries out no message that is older than maxAge; the difference is for clocks that differ.
	undoSure = 20 * time.Second
)

// undo is a take that must not stay charged: its request was denied or failed elsewhere, or its answer was lost.
type undo struct {
	to     string // the region, "" for this one
	req    limiter.Request
	since  time.Time
	due    time.Time
	pause  time.Duration
	unsure bool // it may not have been charged, or not yet
}

// undos wait to be carried out. They are safe for concurrent use.
type undos struct {
	mu   sync.Mutex
	list []*undo
	wake chan struct{} // of size 1
	lost int64
}

// undoLater keeps a take to be given back.
func (s *Store) undoLater(to string, req *limiter.Request, unsure bool) {
	now := s.opt.Now()
	u := &undo{to: to, req: refundOf(req), since: now, due: now, pause: undoFirst, unsure: unsure}
	if unsure {
		u.due = now.Add(undoFirst)
	}
	s.undos.mu.Lock()
	defer s.undos.mu.Unlock()
	if s.closed || len(s.undos.list) >= maxUndos {
		s.undos.lost++
		return
	}
	s.undos.list = append(s.undos.list, u)
	select {
	case s.undos.wake <- struct{}{}:
	default:
	}
}

// refundOf is the request that gives back what another has spent, in memory of its own.
func refundOf(req *limiter.Request) limiter.Request {
	return limiter.Request{Op: limiter.OpRefund, ID: req.ID, Attempt: req.Attempt,
		Asks: append([]limiter.Ask(nil), req.Asks...)}
}

// due takes the undos whose time has come, and returns how long to wait for the next, 0 for none.
func (us *undos) due(now time.Time) (due []*undo, wait time.Duration) {
	us.mu.Lock()
	defer us.mu.Unlock()
	rest := us.list[:0]
	for _, u := range us.list {
		switch d := u.due.Sub(now); {
		case d <= 0:
			due = append(due, u)
			continue
		case wait == 0 || d < wait:
			wait = d
		}
		rest = append(rest, u)
	}
	clear(us.list[len(rest):])
	us.list = rest
	return due, wait
}

// repeatUndos is the goroutine that carries undos out until each has been, or is given up.
func (s *Store) repeatUndos() {
	for {
		due, wait := s.undos.due(s.opt.Now())
		if len(due) > 0 {
			s.carryOut(due)
			continue
		}
		if wait == 0 {
			wait = undoLife // nothing waits
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.ctx.Done():
			timer.Stop()
			return
		case <-s.undos.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// carryOut tries undos once, those of one place together.
func (s *Store) carryOut(due []*undo) {
	byPlace := map[string][]*undo{}
	for _, u := range due {
		byPlace[u.to] = append(byPlace[u.to], u)
	}
	var wg sync.WaitGroup
	for to, us := range byPlace {
		wg.Go(func() {
			for len(us) > 0 {
				n := min(len(us), maxTogether)
				s.undoAt(to, us[:n])
				us = us[n:]
			}
		})
	}
	wg.Wait()
}

// undoAt gives back takes at one place. What could not be given back is tried again later.
func (s *Store) undoAt(to string, us []*undo) {
	calls := make([]limiter.Call, len(us))
	for i, u := range us {
		calls[i].Request = u.req
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.opt.Timeout)
	defer cancel()
	asked := s.opt.Now()
	s.at(ctx, to, calls)
	now := s.opt.Now()
	s.undos.mu.Lock()
	defer s.undos.mu.Unlock()
	for i, u := range us {
		gave := false
		for k := range calls[i].Result.Limits {
			gave = gave || calls[i].Result.Limits[k].Refunded > 0
		}
		switch {
		case calls[i].Err == nil && (gave || !u.unsure || asked.Sub(u.since) >= undoSure):
			s.undone.Add(1)
			continue
		case now.Sub(u.since) >= undoLife || s.closed:
			s.undos.lost++
			continue
		}
		u.pause = min(2*u.pause, undoMost)
		u.due = now.Add(u.pause)
		s.undos.list = append(s.undos.list, u)
	}
}
