package home

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"sluice/internal/region"
	"sluice/internal/wire"
	"sluice/limiter"
)

const (
	// MediaType is the media type of messages and of answers.
	MediaType = "application/vnd.sluice.regions.asks"
	// Version is the first byte of both. Another version is refused. 1 had no used units in answers.
	Version = 2
	// maxCalls is the largest number of calls in a message. maxBody bounds both, in bytes.
	maxCalls, maxBody = 1024, region.MaxMessage
	// maxKey, maxID and maxCause bound texts, in bytes.
	maxKey, maxID, maxCause = 2048, 64, 32
	// maxWait bounds the time that a sender waits, in ms.
	maxWait = 10_000
	// minCall and minAsk are the shortest forms of a call and an ask, in bytes: a shorter message cannot hold the
	// number that it states.
	minCall, minAsk = 4, 11
)

// errMessage wraps region.ErrMessage.
var errMessage = fmt.Errorf("%w that asks", region.ErrMessage)

// message is what another region asks.
type message struct {
	region.Head
	// Wait is how long the sender waits for the answer.
	Wait  time.Duration
	Calls []limiter.Request
}

// A message is
//
//	version            byte
//	head               as region.Head.Append
//	wait in ms, calls  uvarints
//	each call: operation, byte, plus attempted if the attempt, uvarint, follows; id, text; keep in ms, uvarint;
//	  number of asks, uvarint;
//	  each ask: looks, 0 or 1; key, text; weight, uvarint; algorithm and align, bytes;
//	            count, window, burst and buckets, uvarints; anchor, varint
//
// An answer is
//
//	version            byte
//	number of calls    uvarint
//	each call: 0, then allowed, replayed, 0 or 1 each; at, varint; number of decisions, uvarint;
//	             each: allowed + 2 if a ban began, byte; limit, rate, remaining, used and refunded, uvarints;
//	                   retry-after, reset and delay, varints
//	      or   1, then the cause of the store's error, text; unknown, 0 or 1
//	      or   2 for a bucket that is not at home here: no such rule, or another span or algorithm

// attempted is added to the operation of a call with an attempt. Nodes that do not know attempts refuse the message,
// and the fail mode decides.
const attempted = 128

const (
	answered byte = iota
	failed
	foreign
)

// appendCall appends one call.
func appendCall(b []byte, req *limiter.Request) []byte {
	if req.Attempt != 0 {
		b = appendNumbers(append(b, byte(req.Op)+attempted), req.Attempt)
	} else {
		b = append(b, byte(req.Op))
	}
	b = wire.AppendText(b, req.ID)
	b = appendNumbers(b, req.Keep, int64(len(req.Asks)))
	for i := range req.Asks {
		a := &req.Asks[i]
		b = wire.AppendText(appendBool(b, a.Look), string(a.Key))
		l := &a.Limit
		b = append(appendNumbers(b, a.Weight), byte(l.Algorithm), byte(l.Align))
		b = binary.AppendVarint(appendNumbers(b, l.Count, l.Window, l.Burst, l.Buckets), l.Anchor)
	}
	return b
}

// appendStart begins a message: what comes before the calls.
func appendStart(head *region.Head, wait time.Duration, calls int) []byte {
	return appendNumbers(head.Append([]byte{Version}), min(max(wait.Milliseconds(), 1), maxWait), int64(calls))
}

func appendNumbers(b []byte, ns ...int64) []byte {
	for _, n := range ns {
		b = binary.AppendUvarint(b, uint64(n)) //nolint:gosec // not negative
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// decode reads a message. It refuses everything that no sender writes.
func decode(b []byte) (*message, error) {
	r, err := open(b)
	if err != nil {
		return nil, err
	}
	m := &message{Head: region.ReadHead(&r), Wait: time.Duration(r.Number(maxWait)) * time.Millisecond}
	n := r.Count(minCall)
	if n > maxCalls || m.Wait == 0 {
		r.Fail()
		n = 0
	}
	m.Calls = make([]limiter.Request, 0, n)
	for i := 0; i < n && !r.Failed(); i++ {
		m.Calls = append(m.Calls, readCall(&r))
	}
	if !r.Done() || n == 0 {
		return nil, errMessage
	}
	return m, nil
}

func open(b []byte) (r wire.Reader, err error) {
	if len(b) == 0 || len(b) > maxBody {
		return r, fmt.Errorf("%w: %d bytes, must be 1 to %d", errMessage, len(b), maxBody)
	}
	if b[0] != Version {
		return r, fmt.Errorf("%w: version %d, this node reads %d", errMessage, b[0], Version)
	}
	return wire.Read(b[1:]), nil
}

func readCall(r *wire.Reader) limiter.Request {
	req := limiter.Request{Op: limiter.Op(r.Byte())}
	if req.Op >= attempted {
		if req.Op, req.Attempt = req.Op-attempted, r.Number(limiter.MaxExact); req.Attempt == 0 {
			r.Fail()
		}
	}
	req.ID, req.Keep = r.Text(maxID), r.Number(limiter.RecordKeepMax)
	n := r.Count(minAsk)
	if n == 0 || n > limiter.MaxLimits || req.Op > limiter.OpSettle {
		r.Fail()
		return req
	}
	req.Asks = make([]limiter.Ask, 0, n)
	for i := 0; i < n && !r.Failed(); i++ {
		a := limiter.Ask{Look: r.Bool(), Key: limiter.Key(r.Text(maxKey)), Weight: r.Number(limiter.MaxExact)}
		l := &a.Limit
		l.Algorithm, l.Align = limiter.Algorithm(r.Byte()), limiter.Align(r.Byte())
		l.Count, l.Window = r.Number(limiter.MaxExact), r.Number(limiter.MaxExact)
		l.Burst, l.Buckets, l.Anchor = r.Number(limiter.MaxExact), r.Number(limiter.MaxExact), r.Varint()
		if a.Key == "" || l.Align > limiter.AlignFirstHit || l.Anchor > limiter.MaxExact || l.Anchor < -limiter.MaxExact {
			r.Fail()
		}
		req.Asks = append(req.Asks, a)
	}
	return req
}

// errForeign marks a call for a bucket that is not at home here.
var errForeign = errors.New("the home region has no such rule with span global_exact and this algorithm")

// appendAnswer appends the answer to one call.
func appendAnswer(b []byte, c *limiter.Call) []byte {
	var se *limiter.StoreError
	switch {
	case c.Err == nil:
	case errors.Is(c.Err, errForeign):
		return append(b, foreign)
	case errors.As(c.Err, &se):
		return appendBool(wire.AppendText(append(b, failed), string(se.Cause)), se.Unknown)
	default:
		return appendBool(wire.AppendText(append(b, failed), string(limiter.CauseInternal)), false)
	}
	res := &c.Result
	b = appendBool(appendBool(append(b, answered), res.Allowed), res.Replayed)
	b = appendNumbers(binary.AppendVarint(b, res.At), int64(len(res.Limits)))
	for i := range res.Limits {
		d := &res.Limits[i]
		flags := byte(0)
		if d.Allowed {
			flags |= 1
		}
		if d.BanBegan {
			flags |= 2
		}
		b = appendNumbers(append(b, flags), d.Limit, d.Rate, d.Remaining, d.Used, d.Refunded)
		for _, ms := range []int64{d.RetryAfter, d.Reset, d.Delay} {
			b = binary.AppendVarint(b, ms)
		}
	}
	return b
}

// minDecision is the shortest form of a decision, in bytes, and minAnswer the shortest form of an answer to a call.
const minDecision, minAnswer = 9, 1

// decodeAnswers reads the answers to calls with so many asks each into results, and returns false if they are not that.
func decodeAnswers(b []byte, asks []int, results []limiter.Call) bool {
	r, err := open(b)
	if err != nil || r.Count(minAnswer) != len(asks) {
		return false
	}
	for i := range results {
		readAnswer(&r, asks[i], &results[i])
	}
	return r.Done()
}

func readAnswer(r *wire.Reader, asks int, c *limiter.Call) {
	switch r.Byte() {
	case answered:
	case failed:
		cause := limiter.Cause(r.Text(maxCause))
		c.Err = &limiter.StoreError{Cause: knownCause(cause), Unknown: r.Bool(), Err: errHomeStore}
		return
	case foreign:
		c.Err = &limiter.StoreError{Cause: limiter.CauseInternal, Err: errForeign}
		return
	default:
		r.Fail()
		return
	}
	res := &c.Result
	res.Allowed, res.Replayed, res.At = r.Bool(), r.Bool(), r.Varint()
	if r.Count(minDecision) != asks {
		r.Fail()
		return
	}
	res.Limits = make([]limiter.Decision, asks)
	for i := range res.Limits {
		d, flags := &res.Limits[i], r.Byte()
		d.Allowed, d.BanBegan = flags&1 != 0, flags&2 != 0
		d.Limit, d.Rate, d.Remaining = r.Number(limiter.MaxExact), r.Number(limiter.MaxExact), r.Number(limiter.MaxExact)
		d.Used, d.Refunded = r.Number(limiter.MaxExact), r.Number(limiter.MaxExact)
		d.RetryAfter, d.Reset, d.Delay = readWait(r), readWait(r), readWait(r)
		if flags > 3 {
			r.Fail()
		}
	}
}

// readWait reads a time in ms, or Never.
func readWait(r *wire.Reader) int64 {
	ms := r.Varint()
	if ms < limiter.Never || ms > limiter.MaxExact {
		r.Fail()
		return 0
	}
	return ms
}

// errHomeStore says where a store has failed.
var errHomeStore = errors.New("the counter store of the home region could not decide")

// knownCause keeps what another region sends out of metric labels.
func knownCause(c limiter.Cause) limiter.Cause {
	switch c {
	case limiter.CauseTimeout, limiter.CauseCanceled, limiter.CauseConnection, limiter.CauseBusy, limiter.CauseReadOnly,
		limiter.CauseLoading, limiter.CauseMemory, limiter.CauseAuth, limiter.CauseCluster, limiter.CauseWrongType,
		limiter.CauseBadState, limiter.CauseClosed, limiter.CauseBreaker, limiter.CauseOverload, limiter.CauseStarved:
		return c
	}
	return limiter.CauseInternal
}
