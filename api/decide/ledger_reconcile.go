package decide

import (
	"context"
	"errors"
	"time"

	"sluice/limiter"
)

const (
	// reconcileEvery is the pause between two attempts, reconcileBatch the number of buckets
	// that one attempt charges, reconcileWait its timeout.
	reconcileEvery = 200 * time.Millisecond
	reconcileBatch = 100
	reconcileWait  = time.Second
	// reconcileRepeat is how long a charge whose response was lost is repeated. The store
	// remembers its id for longer (limiter/record.go).
	reconcileRepeat = 30 * time.Second
)

// Reconcile charges the recorded debts to the counter store as soon as it answers, in bounded
// batches, until ctx ends. Then it tries once more. The caller runs it in one goroutine for
// each Ledger. A charge whose response is lost is repeated under its id, so it counts once.
func (l *Ledger) Reconcile(ctx context.Context, store limiter.Store) {
	tick := time.NewTicker(reconcileEvery)
	defer tick.Stop()
	var sent []*debt // of unknown result, repeated first
	for ctx.Err() == nil {
		if len(sent) == 0 && l.Stats().Pending == 0 {
			select {
			case <-ctx.Done():
			case <-l.wake:
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
			sent = l.reconcileAll(ctx, store, sent)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), reconcileWait)
	defer cancel()
	l.reconcileAll(last, store, sent)
}

// reconcileAll charges debts until none is left or one is not answered. It returns the debts to
// repeat.
func (l *Ledger) reconcileAll(ctx context.Context, store limiter.Store, again []*debt) []*debt {
	size := 1 // so that a store that is still unavailable costs one call
	for ok := true; ok && ctx.Err() == nil; size = reconcileBatch {
		if len(again) == 0 {
			if again = l.collect(size); len(again) == 0 {
				return nil
			}
		}
		again, ok = l.charge(ctx, store, again)
	}
	return again
}

// collect removes up to n debts with units that still count.
func (l *Ledger) collect(n int) []*debt {
	now := l.opt.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*debt
	for key, d := range l.debts {
		if len(out) == n {
			break
		}
		delete(l.debts, key)
		d.held = d.due(now.UnixMilli())
		l.stats.Expired += d.units - d.held
		l.stats.Pending -= d.units - d.held
		if d.held > 0 {
			d.id, d.since = "settle:"+randomID(), now
			out = append(out, d)
		}
	}
	return out
}

// charge sends debts. It returns the debts to repeat and whether all were answered.
func (l *Ledger) charge(ctx context.Context, store limiter.Store, debts []*debt) (again []*debt, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, reconcileWait)
	defer cancel()
	calls := make([]limiter.Call, len(debts))
	for i, d := range debts {
		calls[i].Request = limiter.Request{Op: limiter.OpCharge, ID: d.id,
			Asks: []limiter.Ask{{Key: d.key, Limit: d.limit, Weight: d.held, Spans: d.spans, HighWater: d.high}}}
	}
	store.DoAll(ctx, calls)
	now := l.opt.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	ok = true
	for i, d := range debts {
		if l.record(d, calls[i].Err, now) {
			continue
		}
		ok = false
		if d.doubted {
			again = append(again, d)
		} else {
			l.putBack(d, now.UnixMilli())
		}
	}
	return again, ok
}

// record counts the result of a charge and reports whether the debt is finished. The caller
// holds mu.
func (l *Ledger) record(d *debt, err error, now time.Time) bool {
	var se *limiter.StoreError
	passing := errors.As(err, &se) && transient(se.Cause)
	if err != nil {
		d.doubted = d.doubted || se == nil || se.Unknown
	}
	switch {
	case err == nil:
		l.stats.Reconciled += d.held
	case passing && (!d.doubted || now.Sub(d.since) < reconcileRepeat):
		return false
	case d.doubted:
		l.stats.Doubtful += d.held
	default:
		l.stats.Dropped += d.held
	}
	l.stats.Pending -= d.held
	return true
}

// transient reports whether a cause is temporary, not a defect of one bucket.
func transient(c limiter.Cause) bool {
	return c != limiter.CauseWrongType && c != limiter.CauseBadState && c != limiter.CauseInternal
}

// putBack records a debt again that was certainly not charged. The caller holds mu.
func (l *Ledger) putBack(d *debt, now int64) {
	if newer := l.debts[d.key]; newer != nil {
		newer.add(d.held, now)
		return
	}
	d.units = d.held
	l.debts[d.key] = d
}
