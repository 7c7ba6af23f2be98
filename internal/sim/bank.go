package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"sluice/limiter"
)

// bank is one counter store with its books: the shared store, or the store of a node. It applies, records and audits
// every request that reaches the store.
type bank struct {
	name    string
	model   *model
	books   books
	epoch   int
	shadows map[string]bool         // ids of the shadow rules
	meters  map[limiter.Key]meterOf // the buckets that never drain

	// twin is a real store that must answer exactly like the model; nil for none. open
	// creates it again after a failover.
	twin     limiter.Store
	open     func(clock func() int64) limiter.Store
	twinTime int64
}

// meterOf is the last request for a meter, a bucket that never drains.
type meterOf struct {
	limit limiter.Limit
	now   int64
}

func newBank(name string, clock func() int64, d Defect, shadows map[string]bool,
	open func(clock func() int64) limiter.Store) *bank {
	b := &bank{name: name, model: newModel(clock, d), shadows: shadows, meters: map[limiter.Key]meterOf{}, open: open}
	b.books = books{mixed: map[limiter.Key]int{}, asked: map[limiter.Key]limiter.Limit{}}
	b.renewTwin()
	return b
}

func (b *bank) close() error {
	if c, ok := b.twin.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// renewTwin creates the twin again from the writes that were not lost.
func (b *bank) renewTwin() {
	if b.open == nil {
		return
	}
	if c, ok := b.twin.(io.Closer); ok {
		_ = c.Close() // a memory store's Close has nothing to report
	}
	b.twin = b.open(func() int64 { return b.twinTime })
	for i := range b.model.log {
		var res limiter.Result
		b.twinTime = b.model.log[i].now
		_ = b.twin.Do(context.Background(), &b.model.log[i].req, &res) // judged when it was first applied
	}
}

// failover loses up to k last writes and returns how many it lost.
func (b *bank) failover(k int) int {
	k = min(k, len(b.model.log)-b.model.replicated)
	b.model.undo(k)
	b.books.lose(b.model.writes)
	b.renewTwin()
	return k
}

// flush empties the store.
func (b *bank) flush() {
	b.model.flush()
	b.books.flush()
	b.renewTwin()
}

// violation is a broken invariant.
type violation struct{ err error }

func (v violation) Error() string { return v.err.Error() }

// broken returns a violation.
func broken(format string, args ...any) error {
	return violation{fmt.Errorf(format, args...)}
}

// apply applies one request, audits its effect and records it. The error is the store's refusal of
// a malformed request, or a violation.
func (b *bank) apply(req *limiter.Request, res *limiter.Result, heard bool) error {
	before, writes := maps.Clone(b.model.buckets), b.model.writes
	b.books.ask(req)
	old := b.model.recordOf(req)
	err := b.model.Do(context.Background(), req, res)
	now := b.model.clock()
	if terr := b.compareTwin(req, res, err, now); terr != nil {
		return terr
	}
	if err != nil {
		return err
	}
	a := audit{bank: b, req: req, res: res, now: now, before: before, after: b.model.buckets, record: old}
	e, err := a.run()
	if err != nil {
		return broken("%s, %s %q: %w", b.name, req.Op, req.ID, err)
	}
	if b.model.writes > writes && e.matters(req, res) {
		e.write, e.heard, e.epoch = b.model.writes, heard, b.epoch
		e.req, e.res = copyRequest(req), *res
		e.res.Limits = append([]limiter.Decision(nil), res.Limits...)
		e.shadow = shadowCall(req, b.shadows)
		b.books.add(e)
	}
	return cmp.Or(a.bounds(), b.checkMeters(req, now))
}

// compareTwin sends the same request to the real store at the same time.
func (b *bank) compareTwin(req *limiter.Request, res *limiter.Result, err error, now int64) error {
	if b.twin == nil {
		return nil
	}
	b.twinTime = now
	var got limiter.Result
	gotErr := b.twin.Do(context.Background(), req, &got)
	switch {
	case (gotErr == nil) != (err == nil):
		return broken("%s: the real store says %v, the model %v", b.name, gotErr, err)
	case err != nil:
		return nil
	}
	same := got.Allowed == res.Allowed && got.Replayed == res.Replayed && got.At == res.At &&
		len(got.Limits) == len(res.Limits)
	for i := 0; same && i < len(got.Limits); i++ {
		same = got.Limits[i] == res.Limits[i]
	}
	if !same {
		return broken("%s, %s %q: the real store answers %+v, the model %+v", b.name, req.Op, req.ID, got, *res)
	}
	return nil
}

// checkMeters compares the request's buckets that never drain with the books: the sum of the units
// that were admitted and not refunded or lost.
func (b *bank) checkMeters(req *limiter.Request, now int64) error {
	for i := range req.Asks {
		if a := &req.Asks[i]; isMeter(a.Key) {
			b.meters[a.Key] = meterOf{a.Limit, now}
		}
	}
	return b.balance()
}

// balance does the same for every meter.
func (b *bank) balance() error {
	for key, m := range b.meters {
		want := max(0, m.limit.Capacity()-b.books.net(key))
		if got := look(b.model.buckets[key], limiter.Ask{Key: key, Limit: m.limit}, "", m.now).Remaining; got != want {
			return broken("%s: bucket %s has %d units left, the sum of its books leaves %d", b.name, key, got, want)
		}
	}
	return nil
}

// isViolation distinguishes a violation from a refusal.
func isViolation(err error) bool {
	var v violation
	return errors.As(err, &v)
}
