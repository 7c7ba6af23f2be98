package usage

import (
	"context"
	"errors"
	"fmt"

	"sluice/limiter"
)

// marks is the number of buckets that say whether the counter store still has its data. They are in different slots of
// a cluster, so that the loss of one of its primaries is likely to be noticed.
const marks = 8

// markCalls returns one call for each mark.
func markCalls(op limiter.Op) []limiter.Call {
	calls := make([]limiter.Call, marks)
	for i := range calls {
		l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: limiter.MaxWindow}
		ask := limiter.Ask{Key: limiter.Key(fmt.Sprintf("{usage:%d}|usage|%s", i, l.Suffix())), Limit: l}
		if op != limiter.OpPeek {
			ask.Weight = 1
		}
		calls[i].Request = limiter.Request{Op: op, Asks: []limiter.Ask{ask}}
	}
	return calls
}

// found notes that the counter store has lost its data, or contains none yet, and returns the time of the loss, ms. It
// writes to the database first and to the store second: if this node is killed in between, the next node detects the
// loss again.
func (r *Recorder) found(ctx context.Context) (at int64, err error) {
	at = r.opt.Now().UnixMilli()
	if err := r.opt.Database.SetUsageLost(ctx, at); err != nil {
		return 0, err
	}
	calls := markCalls(limiter.OpTake)
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r.opt.Store.DoAll(limited, calls)
	if err := firstError(calls); err != nil {
		return at, err
	}
	return r.lostAt(ctx)
}

// lostAt returns the time at which the loss of the counter store's data was detected, ms. It is 0 if there was no loss,
// or once all periods of that time have ended. Statements of periods that began before the loss never decrease.
func (r *Recorder) lostAt(ctx context.Context) (int64, error) {
	at, err := r.opt.Database.UsageLost(ctx)
	if err != nil {
		return 0, err
	}
	if at == 0 || !r.goesOn(at) {
		r.saidLost.Store(false)
		r.opt.Trouble.Clear(lost, "")
		return 0, nil
	}
	r.saidLost.Store(true)
	r.opt.Trouble.Note(lost, "", errors.New("sluice usage restore charges what is missing"))
	return at, nil
}

// goesOn reports whether a period that contained an instant (ms) is readable, of any rule whose periods are kept.
func (r *Recorder) goesOn(at int64) bool {
	set, now := r.opt.Sets.Load(), r.opt.Now().UnixMilli()
	if set == nil {
		return true
	}
	for i := range set.Len() {
		if c := set.At(i); c.Limit.PerPeriod && c.Base(at).PeriodEnd()+limiter.PeriodKept > now {
			return true
		}
	}
	return false
}
