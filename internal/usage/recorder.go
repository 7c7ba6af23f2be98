package usage

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/tick"
	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/rules/match"
)

const (
	// recordEvery is how often a node reads the noted buckets and writes their counts.
	recordEvery = 10 * time.Second
	// readBatch is how many buckets are read in one call, and readPause the pause after each, so that reading takes a
	// small part of Redis.
	readBatch = 100
	readPause = 2 * time.Millisecond
	// readTimeout bounds one call of the counter store.
	readTimeout = 2 * time.Second
	// lastTimeout bounds the last round at shutdown.
	lastTimeout = 3 * time.Second
)

// Options configure a Recorder. All but Trouble are required.
type Options struct {
	// Store is the counter store, and Lister finds its buckets.
	Store    limiter.Store
	Lister   limiter.PeriodLister
	Database Database
	Sets     *match.Current
	// Left is the number of nodes sharing the counters that this node has seen disappear. It never decreases.
	Left    func() int64
	Now     func() time.Time
	Trouble *trouble.Registry // nil discards
}

var (
	unwritten = trouble.Declare(trouble.Condition{Code: "usage_unwritten",
		Advice: "see whether the rules database answers; the node writes them when it does",
		Starts: "statements cannot be written to the rules database; they wait", Ends: "statements are written again"})
	unreadable = trouble.Declare(trouble.Condition{Code: "usage_unread",
		Advice: "see to Redis",
		Starts: "what keys have spent cannot be read for statements; they wait",
		Ends:   "what keys have spent can be read for statements again"})
	lost = trouble.Declare(trouble.Condition{Code: "usage_lost",
		Advice: "run sluice usage restore",
		Starts: "the counter store has lost its data, so keys may spend again what statements say they have spent",
		Ends:   "the counters are those of the statements again"})
)

// Recorder keeps the statements of the buckets that this node touches up to date. Run it in one goroutine; its other
// methods are safe for concurrent use.
type Recorder struct {
	opt   Options
	notes *notes

	mu sync.Mutex
	// since asks for a reading of all buckets whose periods ended after it, ms; nobody for none.
	since int64

	written, wholes atomic.Int64
	// saidLost: this node says that the counters are lost.
	saidLost atomic.Bool
}

// nobody is no instant of Recorder.since.
const nobody = math.MaxInt64

// NewRecorder creates a Recorder.
func NewRecorder(opt Options) *Recorder {
	return &Recorder{opt: opt, notes: newNotes(maxNotes), since: nobody}
}

// Run records until ctx ends, and once more then.
func (r *Recorder) Run(ctx context.Context) {
	for range tick.Every(ctx, recordEvery) {
		r.Record(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	r.Record(last)
}

// ask asks for a reading of all buckets whose periods ended after an instant, ms, or have not ended.
func (r *Recorder) ask(since int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = min(r.since, since)
}

// asked returns since when ask has asked for a reading, nobody if it was not called, and resets it.
func (r *Recorder) asked() (since int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, r.since = r.since, nobody
	return since
}

// Record reads the noted buckets and writes their counts. It does so for all buckets if that was asked for or notes
// were dropped. Buckets that cannot be read or written stay noted.
func (r *Recorder) Record(ctx context.Context) {
	noted, overflowed := r.notes.take()
	since := r.asked()
	if overflowed {
		since = 0
	}
	if len(noted) == 0 && since == nobody && !r.saidLost.Load() {
		return
	}
	lostAt, err := r.lostAt(ctx)
	r.opt.Trouble.Note(unwritten, "", err)
	keys := slices.Collect(maps.Keys(noted))
	done := 0
	for done < len(keys) && err == nil {
		n := min(WriteBatch, len(keys)-done)
		if lostAt, err = r.batch(ctx, keys[done:done+n], noted, lostAt); err == nil {
			done += n
		}
	}
	for _, key := range keys[done:] {
		r.notes.add(key, noted[key].limit, noted[key].at)
	}
	if since != nobody && (err != nil || !r.all(ctx, since, lostAt)) {
		r.ask(since)
	}
}

// all reads every bucket of a limit that is kept and whose period did not end before an instant. It reports whether it
// came to the end.
func (r *Recorder) all(ctx context.Context, since, lostAt int64) bool {
	found := map[limiter.Key]note{}
	flush := func() (err error) {
		if len(found) > 0 {
			lostAt, err = r.batch(ctx, slices.Collect(maps.Keys(found)), found, lostAt)
			clear(found)
		}
		return err
	}
	for at := ""; ; {
		limited, cancel := context.WithTimeout(ctx, readTimeout)
		keys, next, err := r.opt.Lister.PeriodKeys(limited, at)
		cancel()
		r.opt.Trouble.Note(unreadable, "", err)
		if err != nil || !tick.Wait(ctx, readPause) {
			return false
		}
		for _, key := range keys {
			if l, ok := r.limitOf(key); ok && l.PeriodEnd() > since {
				found[key] = note{limit: l}
			}
			if len(found) == WriteBatch && flush() != nil {
				return false
			}
		}
		if next == "" {
			if flush() != nil {
				return false
			}
			r.wholes.Add(1)
			return true
		}
		at = next
	}
}

// limitOf returns the limit of a bucket of a rule in force whose periods are kept.
func (r *Recorder) limitOf(key limiter.Key) (limiter.Limit, bool) {
	set := r.opt.Sets.Load()
	id, ok := match.RuleID(key)
	_, start, period := key.Period()
	if set == nil || !ok || !period {
		return limiter.Limit{}, false
	}
	c := set.Get(id)
	if c == nil || !c.Limit.PerPeriod || !c.Own(key) {
		return limiter.Limit{}, false
	}
	l := c.Base(start)
	l.Anchor = start
	return l, true
}

// batch reads up to WriteBatch buckets and writes their rows. A bucket that may have been touched after the reading
// stays noted. It returns when the counters were found to be lost, which it may have found.
func (r *Recorder) batch(ctx context.Context, keys []limiter.Key, noted map[limiter.Key]note, lostAt int64) (int64,
	error) {
	var rows, floored []Row
	seen := make([]int64, len(keys))
	for at := 0; at < len(keys); at += readBatch {
		some := keys[at:min(at+readBatch, len(keys))]
		calls := make([]limiter.Call, len(some))
		for i, key := range some {
			calls[i].Request = limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{{Key: key, Limit: noted[key].limit}}}
		}
		intact, err := r.read(ctx, calls)
		r.opt.Trouble.Note(unreadable, "", err)
		if err != nil {
			return lostAt, err
		}
		if !intact {
			if lostAt, err = r.found(ctx); err != nil {
				r.opt.Trouble.Note(unwritten, "", err)
				return lostAt, err
			}
		}
		for i, key := range some {
			row, ok := RowOf(key)
			seen[at+i] = calls[i].Result.At
			row.Spent, row.Seen = calls[i].Result.Limits[0].Used, calls[i].Result.At
			switch {
			case !ok:
			case row.Period < lostAt:
				floored = append(floored, row)
			default:
				rows = append(rows, row)
			}
		}
		if !tick.Wait(ctx, readPause) {
			return lostAt, ctx.Err()
		}
	}
	err := r.opt.Database.WriteUsage(ctx, rows, false)
	if err == nil {
		err = r.opt.Database.WriteUsage(ctx, floored, true)
	}
	r.opt.Trouble.Note(unwritten, "", err)
	if err != nil {
		return lostAt, err
	}
	r.written.Add(int64(len(keys)))
	for i, key := range keys {
		switch n := noted[key]; {
		case n.at == unknownTime:
			r.notes.add(key, n.limit, seen[i])
		case n.at >= seen[i]:
			r.notes.add(key, n.limit, n.at)
		}
	}
	return lostAt, nil
}

// read makes some calls, and says whether the store still had its data after them.
func (r *Recorder) read(ctx context.Context, calls []limiter.Call) (intact bool, err error) {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r.opt.Store.DoAll(limited, calls)
	checks := markCalls(limiter.OpPeek)
	r.opt.Store.DoAll(limited, checks)
	if err := firstError(calls, checks); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(checks, func(c limiter.Call) bool { return c.Result.Limits[0].Used == 0 }), nil
}

// firstError returns the first error of some calls.
func firstError(lists ...[]limiter.Call) error {
	for _, calls := range lists {
		for i := range calls {
			if calls[i].Err != nil {
				return calls[i].Err
			}
		}
	}
	return nil
}
