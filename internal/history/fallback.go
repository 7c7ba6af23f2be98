package history

import (
	"context"
	"errors"
	"time"
)

// OwnError says that the shared board is unavailable and that the result covers this
// node only.
type OwnError struct {
	// Since is the time of the last read of the shared board, zero without any.
	Since time.Time
	// Err is the error of the read.
	Err error
}

func (e *OwnError) Error() string { return e.Err.Error() }

// Unwrap returns that error.
func (e *OwnError) Unwrap() error { return e.Err }

// postFallback stores the entries and new samples of a post in Fallback as well.
func (p *Publisher) postFallback(ctx context.Context, entries []Entry, samples postedSamples) {
	if p.opt.Fallback == nil {
		return
	}
	_ = p.opt.Fallback.Post(ctx, entries) // memory never fails
	for list, fresh := range samples {
		_ = p.opt.Fallback.Append(ctx, list, fresh, sampleLists[list])
	}
}

// FallBackOn makes the reader use this node's own figures while its board is
// unavailable. Call it before the first read.
func (r *LiveReader) FallBackOn(own *Memory) { r.own = own }

// Behind notes whether the board lacks figures of this node, because the last post failed. Until it has them, the
// reader leaves the board alone: a Redis that comes back may be empty, and would say that nobody asked for
// anything.
func (r *LiveReader) Behind(behind bool) { r.behind.Store(behind) }

// errBehind means that the board lacks figures of this node.
var errBehind = errors.New("the figures of this node could not be shared yet")

// from calls read with the shared board, or, if that fails, with this node's own and
// returns an *OwnError. After a failure it leaves the shared board alone for a
// second, so that a page waits for it once.
func (r *LiveReader) from(ctx context.Context, read func(ctx context.Context, b Board) error) error {
	if r.own != nil && r.behind.Load() {
		if err := read(ctx, r.own); err != nil {
			return err
		}
		return &OwnError{Since: r.lastGood(), Err: errBehind}
	}
	now := r.now()
	failed := r.failed.Load()
	if age := now.UnixNano() - failedAt(failed); failed == nil || r.own == nil || age < 0 || age >= int64(fresh) {
		limited, cancel := context.WithTimeout(ctx, wholeTimeout)
		defer cancel()
		err := read(limited, timed{r.board})
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

// timed bounds each read of a board, so that one that does not answer at all is noticed soon.
type timed struct{ Board }

func (t timed) Read(ctx context.Context, tables []string) ([]map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return t.Board.Read(ctx, tables)
}

func (t timed) Recent(ctx context.Context, list string, skip, n int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return t.Board.Recent(ctx, list, skip, n)
}

// failure is a failed read of the shared board.
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

// lastGood is the time of the last read of the shared board, zero without any.
func (r *LiveReader) lastGood() time.Time {
	if at := r.good.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// ownLive is this node's own state, with the other nodes as they were at the last
// read of the shared board.
func (r *LiveReader) ownLive(ctx context.Context, now time.Time, err error) Live {
	before := r.live
	live, _ := r.read(ctx, r.own, now, map[int64]map[string]Figures{}) // memory never fails
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
