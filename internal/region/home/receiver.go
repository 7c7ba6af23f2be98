package home

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"sluice/internal/region"
	"sluice/limiter"
	"sluice/rules/match"
)

// maxAnswering is how many messages are answered at once; further ones are refused.
const maxAnswering = 128

// maxAge is the greatest age of a message that is carried out, by the clocks of both regions. The sender may already
// have given back the units of an older message, for example one that waited in a frozen node. A message whose time is
// that far in the future is refused too: with such clocks an old message looks young.
const maxAge = 10 * time.Second

// leastTime is the least time that the store gets for a message, even if its sender waits for less. With less, calls of
// a healthy store time out, its circuit breaker opens, and the checks of this region fail too.
const leastTime = 25 * time.Millisecond

// maxAtOnce is how many limits are decided in one call of the store, unless one request has more, so that checks do not
// wait long behind a message, and each call has time.
const maxAtOnce = 100

// ReceiverOptions configure a Receiver. All are required.
type ReceiverOptions struct {
	Self   string
	Others []string
	Prefix string
	// Store has the buckets of this region. It may have a Store of this package in it.
	Store limiter.Store
	Sets  *match.Current
	// Timeout bounds each call of the store.
	Timeout time.Duration
	Now     func() time.Time
}

// Receiver answers what other regions ask about keys that are at home here. It is safe for concurrent use.
type Receiver struct {
	opt       ReceiverOptions
	answering chan struct{}
	// check returns why a call is not carried out here, nil if it is.
	check func(set *match.Set, req *limiter.Request) error

	decided, failed, foreign, invalid atomic.Int64
}

// NewReceiver returns a Receiver. It fails only if an option is missing.
func NewReceiver(opt ReceiverOptions) (*Receiver, error) {
	if opt.Self == "" || len(opt.Others) == 0 || opt.Prefix == "" || opt.Store == nil || opt.Sets == nil ||
		opt.Timeout <= 0 || opt.Now == nil {
		return nil, errors.New("home: all options are required")
	}
	return &Receiver{opt: opt, answering: make(chan struct{}, maxAnswering), check: checkCall}, nil
}

// Receive carries out the calls of a message and returns the answer to it. The error is region.ErrBusy, a
// *region.RefusedError, or wraps region.ErrMessage; nothing was carried out then.
func (r *Receiver) Receive(ctx context.Context, body []byte) ([]byte, error) {
	select {
	case r.answering <- struct{}{}:
		defer func() { <-r.answering }()
	default:
		return nil, region.ErrBusy
	}
	m, err := decode(body)
	if err != nil {
		r.invalid.Add(1)
		return nil, err
	}
	if refused := m.Refuse(r.opt.Self, r.opt.Prefix, r.opt.Others); refused != nil {
		r.invalid.Add(1)
		return nil, refused
	}
	age := r.opt.Now().UnixMilli() - m.At
	if most := maxAge.Milliseconds(); age > most || age < -most {
		r.invalid.Add(1)
		return nil, &region.RefusedError{From: m.From, Field: "at", Message: fmt.Sprintf("is %d ms ago by the clock of %s, "+
			"must be from %d to %d: the message is late, or the clocks differ", age, r.opt.Self, -most, most)}
	}
	calls := make([]limiter.Call, len(m.Calls))
	set := r.opt.Sets.Load()
	var known []int
	for i := range m.Calls {
		calls[i].Request = m.Calls[i]
		calls[i].Request.Brief = strings.HasPrefix(m.Calls[i].ID, madeHere)
		if calls[i].Err = r.check(set, &m.Calls[i]); calls[i].Err == nil {
			known = append(known, i)
		}
	}
	left := max(maxAge-time.Duration(age)*time.Millisecond, r.opt.Timeout)
	ctx, cancel := context.WithTimeout(Here(ctx), min(left, max(m.Wait, leastTime)))
	defer cancel()
	r.do(ctx, calls, known)
	answer := appendNumbers([]byte{Version}, int64(len(calls)))
	for i := range calls {
		r.count(calls[i].Err)
		answer = appendAnswer(answer, &calls[i])
	}
	return answer, nil
}

// do carries out the calls whose buckets are at home here, some at a time.
func (r *Receiver) do(ctx context.Context, calls []limiter.Call, known []int) {
	for len(known) > 0 {
		n, asks := 0, 0
		for n < len(known) && (n == 0 || asks+len(calls[known[n]].Request.Asks) <= maxAtOnce) {
			asks += len(calls[known[n]].Request.Asks)
			n++
		}
		some := make([]limiter.Call, n)
		for i, at := range known[:n] {
			some[i].Request = calls[at].Request
		}
		bounded, cancel := context.WithTimeout(ctx, r.opt.Timeout)
		r.opt.Store.DoAll(bounded, some)
		cancel()
		for i, at := range known[:n] {
			calls[at].Result, calls[at].Err = some[i].Result, some[i].Err
		}
		known = known[n:]
	}
}

// checkCall refuses buckets that have no home by the rules of this region, and malformed requests.
func checkCall(set *match.Set, req *limiter.Request) error {
	for i := range req.Asks {
		a := &req.Asks[i]
		if set == nil {
			return errForeign
		}
		c := set.Exact(a.Key)
		switch {
		case c == nil:
			return errForeign
		case limiter.IsBanKey(a.Key):
			if c.Ban == nil || !limiter.IsBan(a.Limit) {
				return errForeign
			}
		case a.Limit.Algorithm != c.Limit.Algorithm || a.Limit.Sparing(0).Validate() != nil:
			return errForeign
		}
	}
	return req.Check()
}

func (r *Receiver) count(err error) {
	switch {
	case err == nil:
		r.decided.Add(1)
	case errors.Is(err, errForeign):
		r.foreign.Add(1)
	default:
		r.failed.Add(1)
	}
}

// Answered counts what a Receiver has answered since its start, in calls; Invalid ones are messages.
type Answered struct {
	// Decided were carried out, Failed were not because the store could not, and Foreign are of buckets that are not at
	// home here: no such rule, another span or algorithm. Invalid messages were refused as a whole.
	Decided, Failed, Foreign, Invalid int64
}

// Answered returns the counters.
func (r *Receiver) Answered() Answered {
	return Answered{Decided: r.decided.Load(), Failed: r.failed.Load(), Foreign: r.foreign.Load(),
		Invalid: r.invalid.Load()}
}
