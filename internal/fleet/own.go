package fleet

import (
	"context"
	"time"
)

// ownTTL bounds how long a node keeps figures of its own for when the shared
// board cannot be read.
const ownTTL = minutesTTL

// OwnError says that the shared board could not be read: what was returned with
// it is this node's alone.
type OwnError struct {
	// Since is when the shared board was last read, zero if never.
	Since time.Time
	// Err is why it cannot be read now.
	Err error
}

func (e *OwnError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *OwnError) Unwrap() error { return e.Err }

// postOwn keeps for this node itself what it is about to post for all: entries,
// and the denials that are new.
func (p *Publisher) postOwn(ctx context.Context, entries []Entry, denials []string) {
	if p.opt.Own == nil {
		return
	}
	mine := make([]Entry, len(entries))
	for i, e := range entries {
		e.TTL = min(e.TTL, ownTTL)
		mine[i] = e
	}
	_ = p.opt.Own.Post(ctx, mine) // memory takes everything
	_ = p.opt.Own.Append(ctx, denials, keptDenials)
}

// FallBackOn lets the reader tell what this node knows of itself while its board
// cannot be read. Call it before the first read.
func (r *Reader) FallBackOn(own *Memory) { r.own = own }

// from reads the shared board by read, or this node's own if that fails; the error
// is then an *OwnError. A shared board that has just failed is not asked again
// within a second, so that a page waits for it once.
func (r *Reader) from(ctx context.Context, read func(ctx context.Context, b Board) error) error {
	now := r.now()
	failed := r.failed.Load()
	if age := now.UnixNano() - failedAt(failed); failed == nil || r.own == nil || age < 0 || age >= int64(fresh) {
		limited, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		err := read(limited, r.board)
		if err == nil {
			r.good.Store(now.UnixNano())
			r.failed.Store(nil)
			return nil
		}
		if r.own == nil || ctx.Err() != nil {
			return err
		}
		failed = &failure{at: now.UnixNano(), err: err}
		r.failed.Store(failed)
	}
	if err := read(ctx, r.own); err != nil {
		return err
	}
	return &OwnError{Since: r.lastGood(), Err: failed.err}
}

// failure is a read of the shared board that failed.
type failure struct {
	at  int64
	err error
}

func failedAt(f *failure) int64 {
	if f == nil {
		return 0
	}
	return f.at
}

// lastGood is when the shared board was last read, zero if never.
func (r *Reader) lastGood() time.Time {
	if at := r.good.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// ownLive is what this node knows of itself, with the other nodes as they were
// when the shared board was last read.
func (r *Reader) ownLive(ctx context.Context, now time.Time, err error) Live {
	before := r.live
	live, _ := r.read(ctx, r.own, now, map[int64]map[string]Counts{}) // memory never fails
	live.At, live.Err, live.Own = before.At, err, true
	known := map[string]bool{}
	for i := range live.Nodes {
		known[live.Nodes[i].ID] = true
	}
	for _, n := range before.Nodes {
		if !known[n.ID] {
			n.Unknown = true
			live.Nodes = append(live.Nodes, n)
		}
	}
	return live
}
