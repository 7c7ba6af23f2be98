package envoy

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"sync/atomic"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// kind is a kind of call.
type kind uint8

const (
	kindOther kind = iota // grpc-go answers it
	kindLimit
	kindAuthorization
	kindHealth
	kindQuota // grpc-go answers it, and it has no end
)

func kindOf(path string) kind {
	switch path {
	case ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName:
		return kindLimit
	case authv3.Authorization_Check_FullMethodName:
		return kindAuthorization
	case grpc_health_v1.Health_Check_FullMethodName:
		return kindHealth
	case quotav3.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName:
		return kindQuota
	}
	return kindOther
}

// method returns how a call is answered that needs credentials, nil for one that needs none.
func (k kind) method() *method {
	switch k {
	case kindLimit:
		return &limitCall
	case kindAuthorization:
		return &authorizationCall
	case kindOther, kindHealth, kindQuota:
	}
	return nil
}

// face returns the face of a call that needs credentials.
func (k kind) face() (face, bool) {
	if m := k.method(); m != nil {
		return m.face, true
	}
	return quotas, k == kindQuota
}

// phase is how far a call has come.
type phase uint8

const (
	phaseOpen     phase = iota // it is in no batch, or grpc-go answers it
	phaseBatch                 // it belongs to a batch
	phaseAnswered              // its answer waits for the window
)

var errTimeout = context.DeadlineExceeded

// h2stream is a call of a connection. h2conn.mu guards it, and while it is in a batch only left changes.
type h2stream struct {
	id      uint32
	kind    kind
	subtype string // of its content type
	ended   bool   // the client has sent everything
	phase   phase
	left    atomic.Bool
	message []byte    // what was sent, with prefixes
	until   time.Time // when its caller waits no longer; zero if it has not said so
	// expires is when the stream ends unless its message has arrived, or its answer was sent; zero for never. If hard,
	// the client set this time and receives no reason.
	expires time.Time
	hard    bool
	send    flow
	credit  int64  // bytes that the client may send
	owed    int64  // bytes received since the last window update
	out     []byte // the rest of its answer, which waits for the window
	other   *exchange
}

// open opens a stream.
func (c *h2conn) open(h *headers, r *request, k kind) {
	var st *h2stream
	if n := len(c.free); n > 0 {
		st, c.free = c.free[n-1], c.free[:n-1]
	} else {
		st = &h2stream{}
	}
	st.id, st.kind, st.subtype, st.send.left, st.credit = h.stream, k, r.subtype, c.initial, defaultWindow
	wait := c.loop.server.messageWait
	if r.timed {
		st.until = c.now.Add(min(r.timeout, longestCall))
		if r.timeout > longestCall {
			st.until = c.now.Add(longestCall)
		}
	}
	st.expires, st.hard = c.now.Add(wait), false
	if r.timed && r.timeout <= wait {
		st.expires, st.hard = st.until, true
	}
	if k == kindQuota { // its handler waits for the first message
		st.until, st.expires = time.Time{}, time.Time{}
	} else {
		c.soon(st.expires)
	}
	c.streams[st.id] = st
	if k == kindOther || k == kindQuota {
		c.exchange(st, h, r)
	}
	if h.ended {
		c.onEnd(st)
	}
}

// soon makes expire look at an instant.
func (c *h2conn) soon(at time.Time) {
	if c.soonest.IsZero() || at.Before(c.soonest) {
		c.soonest = at
	}
}

// end forgets a stream. One that is in a batch belongs to it.
func (c *h2conn) end(st *h2stream) {
	delete(c.streams, st.id)
	if st.phase != phaseBatch {
		c.recycle(st)
	}
	if c.moved && len(c.streams) == 0 {
		c.closing = true
	}
}

const (
	// maxFree is the largest number of streams kept for reuse, and maxSmall the most memory that each keeps for its
	// message.
	maxFree  = 128
	maxSmall = 2 << 10
)

func (c *h2conn) recycle(st *h2stream) {
	if st.other != nil || len(c.free) >= maxFree {
		return
	}
	message, out := st.message[:0], st.out[:0]
	if cap(message) > maxSmall || cap(out) > maxSmall {
		return
	}
	st.left.Store(false)
	st.message, st.out = message, out
	st.ended, st.phase, st.until, st.expires, st.owed = false, phaseOpen, time.Time{}, time.Time{}, 0
	c.free = append(c.free, st)
}

// leave notes that the caller of a stream has left.
func (c *h2conn) leave(st *h2stream) {
	st.left.Store(true)
	if m := st.kind.method(); m != nil && st.phase == phaseOpen {
		c.loop.server.deps.Observe.CountCall(faceNames[m.face], resultError)
	}
	if st.other != nil {
		st.other.cancel()
		c.changed.Broadcast()
	}
}

// cut ends a stream without an answer.
func (c *h2conn) cut(st *h2stream) {
	c.leave(st)
	for _, list := range []*[]*h2stream{&c.blocked, &c.ready} {
		if i := slices.Index(*list, st); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
		}
	}
	c.end(st)
}

// reset resets a stream because of an error of its client.
func (c *h2conn) reset(id uint32, code http2.ErrCode) {
	if c.resets.full(c.now, resetBurst, resetRate) {
		c.flood(floodResets)
		return
	}
	if id > c.last {
		c.last = id // it was refused
	}
	c.out = appendReset(c.out, id, code)
	if st := c.streams[id]; st != nil {
		c.cut(st)
	}
}

// onReset ends a stream that the client has canceled. Clients with short deadlines cancel many calls that are complete
// while the node or Redis is slow. That is no flood: it costs less than deciding them. Those of grpc-go have
// goroutines.
func (c *h2conn) onReset(f *http2.RSTStreamFrame) {
	st := c.streams[f.StreamID]
	if st == nil {
		if c.isIdle(f.StreamID) {
			c.fail(http2.ErrCodeProtocol, "RST_STREAM of an idle stream")
		}
		return
	}
	if (!st.ended || st.other != nil) && c.resets.full(c.now, resetBurst, resetRate) {
		c.flood(floodResets)
		return
	}
	c.cut(st)
}

// onData takes up a part of a message.
func (c *h2conn) onData(f *http2.DataFrame) {
	st := c.streams[f.StreamID]
	if st == nil && c.isIdle(f.StreamID) {
		c.fail(http2.ErrCodeProtocol, "DATA of an idle stream")
		return
	}
	data, n := f.Data(), int64(f.Length)
	if !c.received(st, n) || st == nil {
		return // of a call that was answered before it came
	}
	if len(data) == 0 && !f.StreamEnded() && c.empty.full(c.now, emptyBurst, emptyRate) {
		c.flood(floodEmpty)
		return
	}
	if st.ended {
		c.reset(st.id, http2.ErrCodeStreamClosed)
		return
	}
	st.message = append(st.message, data...)
	if f.StreamEnded() {
		c.onEnd(st)
		return
	}
	if st.other != nil {
		c.giveBack(st, n-int64(len(data))) // the rest when it is read
		c.changed.Broadcast()
		return
	}
	c.giveBack(st, n)
	if _, err := messageOf(st.message, false); err != nil {
		c.refuseMessage(st, err)
	}
}

// onEnd notes that the client has sent everything.
func (c *h2conn) onEnd(st *h2stream) {
	st.ended, st.expires = true, time.Time{}
	if st.other != nil {
		c.changed.Broadcast()
		return
	}
	if _, err := messageOf(st.message, true); err != nil {
		c.refuseMessage(st, err)
		return
	}
	c.ready = append(c.ready, st)
}

// refuseMessage ends a call whose message grpc-go would refuse.
func (c *h2conn) refuseMessage(st *h2stream, err error) {
	if m := st.kind.method(); m != nil {
		c.loop.server.deps.Observe.CountCall(faceNames[m.face], resultError)
	}
	c.finish(st, err)
}

// Statuses of messages that grpc-go refuses.
var (
	errNoMessage = status.Error(codes.Internal,
		"cardinality violation: received no request message from non-client-streaming RPC")
	errTwoMessages = status.Error(codes.Internal,
		"cardinality violation: received multiple request messages for non-client-streaming RPC")
	errCutShort = status.Error(codes.Internal, io.ErrUnexpectedEOF.Error())
)

// messageOf returns the message of a call, of which sent is what has come so far. Until all has come, only errors are
// final.
func messageOf(sent []byte, all bool) ([]byte, error) {
	if all && len(sent) == 0 {
		return nil, errNoMessage
	}
	first, rest, err := nextMessage(sent, all)
	if err != nil || len(rest) == 0 {
		return first, err
	}
	second, _, err := nextMessage(rest, all)
	if err == nil && second != nil {
		err = errTwoMessages
	}
	return first, err
}

// nextMessage splits what was sent after a message. The message is nil while it is not complete.
func nextMessage(sent []byte, all bool) (message, rest []byte, _ error) {
	const (
		plain      = 0
		compressed = 1
	)
	n := maxMessage
	if len(sent) >= prefixSize {
		n = int(binary.BigEndian.Uint32(sent[1:]))
	}
	switch {
	case n > maxMessage:
		return nil, nil, tooLarge(n)
	case len(sent) < prefixSize+n && all:
		return nil, nil, errCutShort
	case len(sent) < prefixSize+n:
		return nil, nil, nil
	case sent[0] == compressed:
		return nil, nil, status.Error(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
	case sent[0] != plain:
		return nil, nil, status.Errorf(codes.Internal, "grpc: received unexpected payload format %d", sent[0])
	}
	return sent[prefixSize : prefixSize+n], sent[prefixSize+n:], nil
}

// expire ends the calls whose time is over, and reports whether others wait.
func (c *h2conn) expire(now time.Time) (waits bool) {
	c.mu.Lock()
	if c.soonest.IsZero() || now.Before(c.soonest) || c.closed {
		defer c.mu.Unlock()
		return !c.soonest.IsZero() && !c.closed
	}
	c.soonest, c.now = time.Time{}, now
	for _, st := range c.streams {
		switch {
		case st.expires.IsZero():
		case now.Before(st.expires):
			c.soon(st.expires)
		case st.hard || st.other != nil || st.phase == phaseAnswered:
			c.out = appendReset(c.out, st.id, http2.ErrCodeCancel)
			c.cut(st)
		case st.kind == kindHealth:
			c.finish(st, status.FromContextError(context.DeadlineExceeded).Err())
		default:
			c.refuseMessage(st, status.FromContextError(context.Canceled).Err())
		}
	}
	waits = !c.soonest.IsZero()
	c.mu.Unlock()
	c.spawn(c.flush) // which may block
	return waits
}
