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

// found notes that the counter store has lost its data, or has none yet, and returns when: first in the database, then
// in the store. So a node that is killed in between leaves it to the next.
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

// lostAt returns when the counter store was found to have lost its data, ms, 0 for never or once no period of that time
// goes on. No statement of a period that began before it becomes lower.
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
