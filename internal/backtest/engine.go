package backtest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sluice/api/decide"
	"sluice/internal/records"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules/match"
)

const (
	// maxKeys bounds the buckets of a replay unless Options say otherwise.
	maxKeys = 500_000
	// maxTokens bounds the leases and reservations that a replay remembers.
	maxTokens = 200_000
)

// engine decides events by one set of rules, in memory. It belongs to one goroutine.
type engine struct {
	store   *memstore.Store
	part    *partial
	checker *decide.Checker
	sets    *match.Current
	now     atomic.Int64 // ms since the epoch
	tokens  map[string]token
	order   []string // of the tokens
}

// token contains the tokens of a check for later operations.
type token struct {
	lease, reservation string
}

// secret seals the reservations of a replay, which nobody else sees.
type secret struct{}

// Secrets implements decide.Secrets.
func (secret) Secrets(context.Context, bool) ([][]byte, error) {
	return [][]byte{[]byte("reservations of a replay, unseen")}, nil
}

// newEngine returns an engine with at most maxKeys buckets; close ends it.
func newEngine(set *match.Set, maxKeys int) (*engine, error) {
	e := &engine{sets: &match.Current{}, tokens: map[string]token{}}
	e.store = memstore.New(memstore.Options{Clock: e.now.Load, Steady: true, MaxKeys: maxKeys})
	e.part = &partial{inner: e.store, engine: e}
	e.use(set)
	var err error
	e.checker, err = decide.NewChecker(decide.CheckerOptions{
		Sets: e.sets, Store: e.part, Timeout: -1, Secrets: secret{},
		Now:  func() time.Time { return time.UnixMilli(e.now.Load()) },
		Rand: func(int64) int64 { return 0 },
	})
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// use replaces the rules, as an edit does: consumed units stay.
func (e *engine) use(set *match.Set) {
	e.sets.Store(set)
	e.part.judged = map[int64]needs{}
	for i := range set.Len() {
		c := set.At(i)
		e.part.judged[c.Rule.ID] = needsOf(set, c)
	}
}

func (e *engine) close() error { return e.store.Close() }

// do decides an event at its time. The error is a leftOut or the error of ctx.
func (e *engine) do(ctx context.Context, from *records.Event, ts int64, a *decide.Answer) error {
	e.now.Store(ts)
	var q decide.Question
	err := question(from, &q)
	if errors.Is(err, errNoQuestion) {
		return e.byToken(ctx, from, a)
	}
	if err != nil {
		return err
	}
	e.part.begin(from)
	if from.ReserveMS > 0 {
		err = e.checker.Reserve(ctx, &q, min(from.ReserveMS, decide.MaxReservationLife), a)
	} else {
		err = e.checker.Do(ctx, &q, a)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return leftOut(leftInvalid)
	}
	if q.Op == limiter.OpTake && from.RequestID != "" {
		e.remember(from.RequestID, token{lease: a.Lease, reservation: a.Reservation})
	}
	return nil
}

// remember keeps the tokens of a check for the operations that follow it.
func (e *engine) remember(id string, t token) {
	old, known := e.tokens[id]
	if !known {
		e.order = append(e.order, id)
	}
	if t.lease == "" { // a repeat got none
		t.lease = old.lease
	}
	if t.reservation == "" {
		t.reservation = old.reservation
	}
	e.tokens[id] = t
	if len(e.order) > maxTokens {
		delete(e.tokens, e.order[0])
		e.order = e.order[1:]
	}
}

// byToken replays a release, a renewal or a settlement with what its check got here.
func (e *engine) byToken(ctx context.Context, from *records.Event, a *decide.Answer) error {
	t, known := e.tokens[from.RequestID]
	if !known {
		return leftOut(leftToken)
	}
	*a = decide.Answer{Verdict: decide.Allowed, Strictest: -1, Limits: a.Limits[:0]}
	e.part.begin(from)
	var err error
	switch {
	case from.Op == "settle" && t.reservation != "":
		s := decide.Settlement{Reservation: t.reservation, Weight: from.Weight}
		if from.Facts != nil {
			s.Fields = from.Facts.Fields
		}
		err = e.checker.SettleReservation(ctx, &s, a)
	case from.Op == "release" && t.lease != "":
		err = e.checker.Lease(ctx, limiter.OpRelease, t.lease, decide.Origin{}, a)
	case from.Op == "renew" && t.lease != "":
		err = e.checker.Lease(ctx, limiter.OpRenew, t.lease, decide.Origin{}, a)
	}
	if err != nil && !errors.Is(err, decide.ErrReservationEnded) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return leftOut(leftInvalid)
	}
	return nil
}

// partial is the store of an engine. It leaves out limits that an event does not tell enough about: they allow, and
// nothing is spent.
type partial struct {
	inner  limiter.Store
	engine *engine
	judged map[int64]needs // by rule

	whole  bool    // every limit of the present event is judged
	direct bool    // the caller sent its limits
	drawn  factSet // the fact by which the event's entity was drawn, 0 if all events are in the log
	hashed factSet // the facts of the event that are hashes

	// left counts, for each rule and reason, the events for which its limit was not judged.
	left map[leftLimit]int64
	asks []limiter.Ask
	at   []int
	res  limiter.Result
}

// leftLimit is a rule whose limit was not judged, and why.
type leftLimit struct {
	rule, reason string
	facts        factSet
}

// begin prepares the limits of an event.
func (p *partial) begin(e *records.Event) {
	p.drawn, p.hashed, p.direct = 0, 0, e.Facts == nil
	if e.Facts != nil {
		p.hashed, _ = concealed(e.Facts)
		if e.Rate < 100 {
			p.drawn = entity(e.Facts)
		}
	}
	p.whole = p.direct || p.drawn == 0 && p.hashed == 0
}

// judges reports whether the limit of a bucket is judged, and counts it if not.
func (p *partial) judges(key limiter.Key) bool {
	why := leftLimit{rule: poolOf(key), reason: partShared}
	if id, ok := ruleOf(key); ok {
		n := p.judged[id]
		switch {
		case n.values&p.hashed != 0:
			why = leftLimit{n.name, partHashed, n.values & p.hashed}
		case p.drawn != 0 && n.scope&p.drawn == 0:
			why = leftLimit{n.name, partShared, p.drawn}
		default:
			return true
		}
	} else if p.drawn == 0 {
		return true
	}
	if strings.Contains(string(key), candidateMark) {
		return false // counted with its rule
	}
	if p.left == nil {
		p.left = map[leftLimit]int64{}
	}
	p.left[why]++
	return false
}

// Do implements limiter.Store.
func (p *partial) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if p.whole {
		return p.inner.Do(ctx, req, res)
	}
	p.asks, p.at = p.asks[:0], p.at[:0]
	for i := range req.Asks {
		if p.judges(req.Asks[i].Key) {
			p.asks, p.at = append(p.asks, req.Asks[i]), append(p.at, i)
		}
	}
	if len(p.asks) == len(req.Asks) {
		return p.inner.Do(ctx, req, res)
	}
	*res = limiter.Result{Allowed: true, At: p.engine.now.Load(), Limits: res.Limits[:0]}
	for i := range req.Asks {
		l := &req.Asks[i].Limit
		res.Limits = append(res.Limits, limiter.Decision{Allowed: true, Limit: l.Capacity(), Rate: l.Rate(),
			Remaining: l.Capacity()})
	}
	if len(p.asks) == 0 {
		return nil
	}
	some := *req
	some.Asks = p.asks
	if err := p.inner.Do(ctx, &some, &p.res); err != nil {
		return err
	}
	res.Allowed, res.Replayed = p.res.Allowed, p.res.Replayed
	for k, i := range p.at {
		res.Limits[i] = p.res.Limits[k]
	}
	return nil
}

// DoAll implements limiter.Store.
func (p *partial) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = p.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

// candidateMark stands in the keys of candidates after the number of the rule.
const candidateMark = ".c|"

// ruleOf returns the number of the rule that a bucket belongs to, false for a pool.
func ruleOf(key limiter.Key) (int64, bool) {
	text := string(key)
	end := strings.LastIndexByte(text, '|')
	if end < 0 {
		return 0, false
	}
	number, _, _ := strings.Cut(text[strings.LastIndexByte(text[:end], '|')+1:end], ".") // see candidateMark
	id, err := strconv.ParseInt(number, 10, 64)
	return id, err == nil
}

// poolOf returns how a pool is named in a report.
func poolOf(key limiter.Key) string {
	name, _, _ := strings.Cut(strings.Trim(string(key), "{"), "}")
	return name
}
