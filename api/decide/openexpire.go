package decide

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"

	"sluice/internal/tick"
)

// settleDue settles what is due.
func (c *Checker) settleDue(ctx context.Context) {
	for more := true; more; {
		more = c.settleSome(ctx) && tick.Wait(ctx, 0)
	}
}

// settleSome settles up to dueBatch entries that are due, dueAtOnce at the same time. It reports whether there may be
// more.
func (c *Checker) settleSome(ctx context.Context) bool {
	o := c.opt.Open
	listing, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	due, err := o.list.Due(listing, dueBatch)
	if err != nil || len(due) == 0 {
		return false
	}
	errs, turns := make([]error, len(due)), make(chan struct{}, dueAtOnce)
	var settling sync.WaitGroup
	for i := range due {
		turns <- struct{}{}
		settling.Go(func() {
			errs[i] = c.expire(ctx, due[i].Body)
			<-turns
		})
	}
	settling.Wait()
	var done []*ListChange
	given, last := 0, error(nil)
	for i, err := range errs {
		if err != nil && !c.isLate(due[i].Body) {
			continue // it is due again
		}
		if err != nil {
			given, last = given+1, err
		}
		done = append(done, &ListChange{Op: ListRemove, Name: due[i].Name, Version: due[i].Version})
	}
	writing, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	o.list.Write(writing, done) // one that fails is due once more, which changes nothing
	if o.givenUp.Add(int64(given)); given > 0 && o.gaveUp != nil {
		o.gaveUp(given, last)
	}
	return len(due) == dueBatch
}

// isLate reports whether a reservation ended so long ago that it is given up if its settlement fails.
func (c *Checker) isLate(body []byte) bool {
	var e openEntry
	return json.Unmarshal(body, &e) != nil || c.opt.Now().UnixMilli() > e.Expires+giveUpAfter
}

// expire does with a reservation what is to happen at its end. An error means that it is not done and may be tried
// again.
func (c *Checker) expire(ctx context.Context, body []byte) error {
	var e openEntry
	if json.Unmarshal(body, &e) != nil {
		return nil
	}
	limited, cancel := c.limited(ctx)
	defer cancel()
	r, err := c.open(limited, e.Token)
	switch {
	case errors.Is(err, ErrBadReservation):
		return nil
	case err != nil:
		return err
	case r.keeps == 100:
		return c.keepExpired(limited, r, &e)
	}
	var a Answer
	s := &Settlement{Reservation: e.Token, Weight: -1, expired: true, keeps: r.keeps, Origin: Origin{}}
	err = c.settleOpened(ctx, r, s, c.opt.Now(), &a)
	if err == nil && !a.Replayed {
		c.opt.Open.count(&e, false)
	}
	if errors.Is(err, ErrReservationEnded) {
		return nil
	}
	return err
}

// keepExpired counts the units of an expired reservation that stays charged, unless it was settled.
func (c *Checker) keepExpired(ctx context.Context, r *reservation, e *openEntry) error {
	calls := r.keepAlive(1)[:len(r.calls)]
	c.opt.Store.DoAll(ctx, calls)
	open := false
	for i := range calls {
		if calls[i].Err != nil {
			return calls[i].Err
		}
		open = open || r.calls[i].kind == resEnforced && calls[i].Result.Allowed
	}
	if open {
		c.opt.Open.count(e, true)
	}
	return nil
}

// count counts the units of an expired reservation.
func (o *OpenReservations) count(e *openEntry, kept bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range e.Limits {
		stays := l.Units
		if !kept {
			stays = l.Units/100*e.Keeps + (l.Units%100*e.Keeps+99)/100
		}
		if l.Rule != "" {
			o.add(ExpiredUnits{l.Rule, true}, stays)
			o.add(ExpiredUnits{l.Rule, false}, l.Units-stays)
		}
	}
}

// add adds units to a sum, which ends at the largest number.
func (o *OpenReservations) add(to ExpiredUnits, units int64) {
	o.expired[to] += min(units, math.MaxInt64-o.expired[to])
}
