package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/limiter"
)

// errGiven says that a request was given up on while parts of it were under way.
var errGiven = errors.New("given up; what was taken is being given back")

// across carries out requests whose limits live in different slots. Its zero
// value is ready. It is safe for concurrent use.
type across struct {
	spanning, gives, lost atomic.Int64

	mu       sync.Mutex
	closed   bool
	settling int // given-up rounds that are being given back
	wg       sync.WaitGroup
}

// Stats counts since the store was started.
type Stats struct {
	// Spanning is requests whose limits live in different slots of a cluster.
	Spanning int64
	// GiveBacks is parts of such requests that were taken and given back because
	// another limit denied or could not decide.
	GiveBacks int64
	// GiveBacksPending is parts that could not be given back yet and are tried
	// again.
	GiveBacksPending int64
	// GiveBacksLost is parts of requests that were not admitted of which it is
	// not known whether anything is still taken: an upper bound of the units
	// (times weight) that a client was charged for nothing.
	GiveBacksLost int64
	// Reloads is how often the view of a cluster was reloaded after an error.
	Reloads int64
}

// Stats returns the counters. It may be called at any time.
func (s *Store) Stats() Stats {
	st := Stats{
		Spanning: s.across.spanning.Load(), GiveBacks: s.across.gives.Load(), GiveBacksPending: s.gives.pending(),
		GiveBacksLost: s.across.lost.Load(),
	}
	if s.view != nil {
		st.Reloads = s.view.reloads.Load()
	}
	return st
}

// spans reports whether the limits of a request live in different slots.
func (s *Store) spans(req *limiter.Request) bool {
	if !s.clustered() || len(req.Asks) < 2 {
		return false
	}
	first := slotOf(s.opt.Prefix + string(req.Asks[0].Key))
	for i := range req.Asks[1:] {
		if slotOf(s.opt.Prefix+string(req.Asks[i+1].Key)) != first {
			return true
		}
	}
	return false
}

// doAcross decides one request that spans slots.
func (s *Store) doAcross(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	calls := []*limiter.Call{{Request: *req, Result: *res}}
	s.drive(ctx, calls)
	if calls[0].Err != nil {
		return calls[0].Err
	}
	*res = calls[0].Result
	return nil
}

// drive decides requests that span slots, round by round, all at once.
func (s *Store) drive(ctx context.Context, calls []*limiter.Call) {
	s.across.spanning.Add(int64(len(calls)))
	if ctx.Err() != nil {
		for _, c := range calls {
			c.Err = given(ctx, false)
		}
		return
	}
	js := make([]*joint, len(calls))
	for i, c := range calls {
		js[i] = split(s.opt.Prefix, &c.Request)
	}
	pending := s.rounds(ctx, js)
	var left []*joint
	for i, c := range calls {
		if js[i].done() {
			s.count(js[i])
			c.Err = js[i].answer(&c.Result)
			continue
		}
		left = append(left, js[i])
		c.Err = given(ctx, true)
	}
	if len(left) > 0 {
		s.settle(left, pending)
	}
}

// rounds drives the joints until all are done or ctx ends. In the second case
// it returns the groups that are still under way; the joints that are not done
// must go to settle.
func (s *Store) rounds(ctx context.Context, js []*joint) []*group {
	for {
		groups := s.gather(js)
		if len(groups) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return []*group{} // nothing of this round has been sent
		}
		if pending := s.await(ctx, groups); len(pending) > 0 {
			return pending
		}
		for _, j := range js {
			if !j.done() {
				j.advance()
			}
		}
	}
}

// gather packs what the joints want to send, a group for each lane.
func (s *Store) gather(js []*joint) map[*lane]*group {
	n := make(map[*lane]int)
	for _, j := range js {
		for _, p := range j.sending {
			n[s.laneOf(p.slot)]++
		}
	}
	groups := make(map[*lane]*group, len(n))
	for _, j := range js {
		for _, p := range j.sending {
			l := s.laneOf(p.slot)
			g := groups[l]
			if g == nil {
				g = newGroup(n[l]) // grows no further: parts point into it
				groups[l] = g
			}
			j.encode(&s.names, p, g.add())
			g.giving = g.giving || j.stage == stageGive
		}
	}
	return groups
}

// await sends the groups and waits. It returns those still under way when ctx
// ended; all others have been answered, if only with an error. What gives back
// is bound by MaxWait alone: the caller's deadline, which may be the very reason
// for it, must not cut it off.
func (s *Store) await(ctx context.Context, groups map[*lane]*group) (pending []*group) {
	for l, g := range groups {
		if !g.giving {
			g.deadline, g.bounded = ctx.Deadline()
		}
		if err := l.submit(g); err != nil {
			g.refuse(err)
			delete(groups, l)
		}
	}
	for l, g := range groups {
		select {
		case <-g.done:
			continue
		case <-ctx.Done():
		}
		if !g.giving && l.withdraw(g) {
			g.refuse(given(ctx, false))
			continue
		}
		select {
		case <-g.done:
		default:
			pending = append(pending, g)
		}
	}
	return pending
}

// refuse answers all of g with err.
func (g *group) refuse(err error) {
	for i := range g.ops {
		g.ops[i].Err = err
	}
}

// settle gives back, in the background and whatever the caller does, what
// joints have taken whose caller did not wait. It never holds up Close for
// longer than two round trips may take.
func (s *Store) settle(js []*joint, pending []*group) {
	if !s.across.begin(s.opt.MaxQueue) {
		for _, j := range js {
			for _, p := range j.parts {
				if p.booked != nil || slices.Contains(j.sending, p) && p.takes() {
					s.leave(j.giveBack(p, errGiven))
				}
			}
		}
		return
	}
	go func() {
		defer s.across.end()
		for _, g := range pending {
			<-g.done
		}
		for _, j := range js {
			j.giveUp = true
			if len(pending) > 0 {
				j.advance()
			} else {
				j.abandon()
			}
		}
		s.rounds(context.Background(), js)
		for _, j := range js {
			s.count(j)
		}
	}()
}

// abandon gives back before a round that has not been sent.
func (j *joint) abandon() {
	j.sending = nil
	if j.err == nil {
		j.err = &limiter.StoreError{Cause: limiter.CauseCanceled, Err: errGiven}
	}
	j.give()
}

// count adds up what a finished joint gave back, and keeps what it could not.
func (s *Store) count(j *joint) {
	s.across.gives.Add(int64(j.givesOut))
	for _, b := range j.left {
		if s.leave(b) {
			continue
		}
		if j.err == nil {
			j.err = &limiter.StoreError{Cause: asStoreError(b.err).Cause, Err: b.err}
		}
		j.err.Unknown = true
	}
}

// begin makes room for one more goroutine, up to most.
func (a *across) begin(most int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.settling >= most {
		return false
	}
	a.settling++
	a.wg.Add(1)
	return true
}

func (a *across) end() {
	a.mu.Lock()
	a.settling--
	a.mu.Unlock()
	a.wg.Done()
}

// close waits for what is being given back; lanes must still be open.
func (a *across) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.wg.Wait()
}

// asStoreError gives any error of an op as a StoreError.
func asStoreError(err error) *limiter.StoreError {
	var se *limiter.StoreError
	if errors.As(err, &se) {
		return se
	}
	return &limiter.StoreError{Cause: limiter.CauseInternal, Unknown: true, Err: err}
}
