package usage

import (
	"context"
	"sync"

	"sluice/limiter"
)

// maxNotes is the largest number of buckets that a node remembers until they are read, of some 200 bytes each.
const maxNotes = 100_000

// note is a bucket that requests have touched. at is the time of the latest such request on the clock of the store, ms:
// a reading that is not later than at may lack that request.
type note struct {
	limit limiter.Limit
	at    int64
}

// notes are the buckets that were touched since they were last read. It is safe for concurrent use.
type notes struct {
	mu   sync.Mutex
	of   map[limiter.Key]note
	most int
	// overflowed: some buckets are not among them, so that all must be read. dropped counts these.
	overflowed bool
	dropped    int64
}

func newNotes(most int) *notes { return &notes{of: map[limiter.Key]note{}, most: most} }

// add notes a bucket.
func (n *notes) add(key limiter.Key, l limiter.Limit, at int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, known := n.of[key]
	switch {
	case known && was.at >= at:
		return
	case !known && len(n.of) >= n.most:
		n.overflowed = true
		n.dropped++
		return
	}
	n.of[key] = note{l, at}
}

// take returns the notes, and whether some were dropped, and forgets both.
func (n *notes) take() (all map[limiter.Key]note, overflowed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, overflowed = n.of, n.overflowed
	n.of, n.overflowed = map[limiter.Key]note{}, false
	return all, overflowed
}

// size returns how many buckets are noted, and how many were dropped since the start.
func (n *notes) size() (noted int, dropped int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.of), n.dropped
}

// watched notes the requests that pass through a store.
type watched struct {
	limiter.Store
	notes *notes
}

// Watch returns a store that passes requests on to of, and notes the buckets with kept periods that they may have
// changed.
func (r *Recorder) Watch(of limiter.Store) limiter.Store { return &watched{of, r.notes} }

// Do implements limiter.Store.
func (w *watched) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	err := w.Store.Do(ctx, req, res)
	w.note(req, res, err)
	return err
}

// DoAll implements limiter.Store.
func (w *watched) DoAll(ctx context.Context, calls []limiter.Call) {
	w.Store.DoAll(ctx, calls)
	for i := range calls {
		w.note(&calls[i].Request, &calls[i].Result, calls[i].Err)
	}
}

// note notes the buckets of a request. A request that failed may have changed them a moment later. Its buckets are read
// until a reading is certain to be later than the request: the time of the first reading replaces the unknown time of
// the request.
func (w *watched) note(req *limiter.Request, res *limiter.Result, err error) {
	if req.Op == limiter.OpPeek || err == nil && req.Op == limiter.OpTake && !res.Allowed {
		return
	}
	for i := range req.Asks {
		a := &req.Asks[i]
		if !a.Limit.PerPeriod {
			continue
		}
		at := res.At
		if err != nil {
			at = unknownTime
		}
		w.notes.add(a.Key, a.Limit, at)
	}
}

// unknownTime is after all times of readings, so that the bucket is read twice.
const unknownTime = 1 << 62
