package home

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"sluice/limiter"
	"sluice/limiter/across"
	"sluice/rules/match"
)

const (
	// maxUndos is the largest number of takes that wait to be given back.
	maxUndos = 10_000
	// undoFirst is the pause of a region after a failure, and before the first attempt to undo a take that may still be
	// in transit. The pause doubles up to undoMost. Attempts end after undoLife.
	undoFirst, undoMost = 500 * time.Millisecond, 8 * time.Second
	undoLife            = time.Minute
	// undoSure is the time for which the undo of a take that may still be in transit is repeated although there was
	// nothing to give back. A region carries out no message that is older than maxAge; the difference is for clocks
	// that differ.
	undoSure = 20 * time.Second
)

var errClosed = errors.New("the calls to other regions were stopped")

// newUndos starts the queues of what could not be given back before the answer, one for each region.
func (s *Store) newUndos() *across.Undos[limiter.Request] {
	return across.NewUndos(across.UndoOptions[limiter.Request]{Most: maxUndos, Batch: maxTogether, First: undoFirst,
		Last: undoMost, Life: undoLife, Sure: undoSure, Send: s.undoAt, Now: s.opt.Now,
		Of: func(p *across.Part) (int, limiter.Request) { return p.Place, refundOf(p) }})
}

// spread decides calls of which some leave this region, in rounds: each round makes one call of this region's store and
// sends one message to each other region. The places of package across are the regions, 0 for this one: to give back
// here costs least.
func (s *Store) spread(ctx context.Context, set *match.Set, calls []limiter.Call) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		for i := range calls {
			calls[i].Err = &limiter.StoreError{Cause: limiter.CauseClosed, Err: errClosed}
		}
		return
	}
	requests, of := make([]*across.Request, 0, len(calls)), make([]*limiter.Call, 0, len(calls))
	for i := range calls {
		if calls[i].Err = calls[i].Request.Check(); calls[i].Err == nil {
			requests, of = append(requests, s.divide(set, &calls[i].Request)), append(of, &calls[i])
		}
	}
	across.Run(requests, func(round []*across.Part) { s.carry(ctx, round) })
	for i, r := range requests {
		s.undos.Keep(r, s.opt.Now())
		of[i].Err = r.Answer(&of[i].Result)
	}
}

// madeHere begins the id that this package makes for a take without one. No id of a caller begins with it, because ids
// of callers are text.
const madeHere = "\xff"

// randomID returns an id for a take without one. With it a take whose answer is lost can be given back, and a message
// that arrives twice counts once. The record is brief, because nobody needs it later.
func randomID() string {
	first, second := rand.Uint64(), rand.Uint64() //nolint:gosec // unique
	return madeHere + strconv.FormatUint(first, 36) + strconv.FormatUint(second, 36)
}

// divide makes the parts of a request.
//
// The caller may repeat the request by its id, perhaps in another region at this moment, and the repeat then relies on
// what was taken. An attempt gives that back only if no other one holds it. Leases alone, which have no record that
// says so, are kept after a failure.
func (s *Store) divide(set *match.Set, req *limiter.Request) *across.Request {
	r := across.New(req, across.Options{Place: func(a *limiter.Ask) int { return s.home(set, a.Key) }})
	id, attempt, several := req.ID, req.Attempt, len(r.Parts) > 1
	own := req.Unrepeated && id != "" // nobody repeats it
	brief := id == "" && (req.Op == limiter.OpTake || req.Op == limiter.OpCharge) && (several || r.Parts[0].Place != 0)
	if brief {
		id, own = randomID(), true
	}
	if attempt == 0 && req.Op == limiter.OpTake && id != "" && !own && several {
		attempt = 1 + rand.Int64N(limiter.MaxExact) //nolint:gosec // unique, not a secret
	}
	for _, p := range r.Parts {
		p.Request.ID, p.Request.Attempt, p.Request.Brief, p.Request.Impatient = id, attempt, brief, false
		leases := !slices.ContainsFunc(p.Request.Asks,
			func(a limiter.Ask) bool { return !a.Limit.Algorithm.Traits().Slots })
		p.Kept = !own && (attempt == 0 || leases)
	}
	return r
}

// carry makes the calls of one round, those of each place together. Undos are carried separately, because they continue
// after the caller has left: a repeat by the id must not find a charge that is about to be given back.
func (s *Store) carry(ctx context.Context, round []*across.Part) {
	type group struct {
		place  int
		undoes bool
	}
	groups := map[group][]*across.Part{}
	for _, p := range round {
		g := group{p.Place, p.Step == across.Undo}
		if g.undoes && p.Unsure() {
			continue // the take may still be in transit: the undo counts as unanswered and is repeated later
		}
		groups[g] = append(groups[g], p)
	}
	var wg sync.WaitGroup
	for g, parts := range groups {
		if len(groups) == 1 {
			s.ask(ctx, g.place, parts)
			return
		}
		wg.Go(func() { s.ask(ctx, g.place, parts) })
	}
	wg.Wait()
}

// ask makes the calls of parts at one place. Either all of them undo or none does.
func (s *Store) ask(ctx context.Context, place int, parts []*across.Part) {
	calls := make([]limiter.Call, len(parts))
	for i, p := range parts {
		switch req := &calls[i].Request; p.Step {
		case across.Undo:
			*req = refundOf(p)
		case across.Look:
			*req = limiter.Request{Op: limiter.OpPeek, Asks: p.Request.Asks}
		default:
			*req = p.Request
		}
	}
	if parts[0].Step == across.Undo {
		until, bounded := ctx.Deadline()
		ctx = context.WithoutCancel(ctx)
		if bounded && place != 0 { // this region is bounded by Local
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, until)
			defer cancel()
		}
	}
	s.at(ctx, place, calls)
	for i, p := range parts {
		res := &calls[i].Result
		took := res.Allowed && (!res.Replayed || p.Request.Attempt != 0) || p.Request.Op == limiter.OpCharge && !res.Replayed
		p.Got = across.Answer{Err: calls[i].Err, Result: res, Took: took && p.Spends(), Firm: true}
	}
}

// at makes calls at one place.
func (s *Store) at(ctx context.Context, place int, calls []limiter.Call) {
	if place != 0 {
		s.links[s.names[place]].do(ctx, calls)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.Local)
	defer cancel()
	s.opt.Store.DoAll(ctx, calls)
}

// refundOf is the request that gives back what a part has spent.
func refundOf(p *across.Part) limiter.Request {
	return limiter.Request{Op: limiter.OpRefund, ID: p.Request.ID, Attempt: p.Request.Attempt, Asks: p.Request.Asks}
}

// undoAt gives back takes at one place.
func (s *Store) undoAt(place int, refunds []limiter.Request) []across.Answer {
	calls, answers := make([]limiter.Call, len(refunds)), make([]across.Answer, len(refunds))
	for i := range refunds {
		calls[i].Request = refunds[i]
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.opt.Timeout)
	defer cancel()
	s.at(ctx, place, calls)
	for i := range answers {
		answers[i] = across.Answer{Err: calls[i].Err, Result: &calls[i].Result}
	}
	return answers
}
