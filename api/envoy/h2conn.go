package envoy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2conn is a connection of the loop.
//
// One goroutine at a time has the role of the reader: it reads once, parses the frames, decides the complete calls,
// writes the answers, and reads again. If that takes long, the role passes to another goroutine, so that pings,
// cancellations and other calls do not wait for one slow batch; see readOn.
type h2conn struct {
	net.Conn
	loop   *loop
	chains [][]*x509.Certificate
	ctx    context.Context //nolint:containedctx // the context of all its calls, which ends with the connection
	cancel context.CancelFunc
	watched

	// Of the reader.
	in     input
	framer *http2.Framer
	hpack  *hpack.Decoder
	head   headers
	more   bool   // frames were read that are not parsed
	held   []byte // the frames that grpc-go gets if the first call is not one of the loop's; nil once that is decided

	writing sync.Mutex // is held during a write
	// Locked by writing: the memory of the next out, and whether nothing more can be written.
	spare []byte
	ended bool

	mu      sync.Mutex // guards all that follows
	changed sync.Cond  // of what exchanges wait for
	stage   stage
	now     time.Time // of the turn
	turns   int64     // counts turns, see watched.busy
	role    int       // counts how often the role of the reader has passed on
	batches int       // how many batches are under way
	closed  bool
	closing bool // as soon as out is written

	streams map[uint32]*h2stream
	last    uint32 // the highest number of a stream of the client
	free    []*h2stream
	ready   []*h2stream // are complete, and in no batch yet
	idle    *batch      // is not in use
	soonest time.Time   // when the first stream expires; zero for never

	out     []byte // is to be written
	updated bool   // a header block has said that this end uses no dynamic table
	acks    int    // settings that are acknowledged as soon as the connection is the loop's
	send    flow
	initial int64       // what the other end receives on a new stream
	blocked []*h2stream // their answers wait for the window, in order
	widened bool        // the windows were widened, see unblock
	credit  int64       // bytes that the other end may still send
	limits
	aging
}

// stage is how far a connection has come.
type stage uint8

const (
	stagePreface  stage = iota
	stageSettings       // the first settings are awaited
	stageFirst          // the first call is awaited
	stageOpen           // the loop serves the connection
	stagePassed         // grpc-go does
)

const (
	// receiveWindow is what a client may send ahead on a connection. That of a stream is the default of HTTP/2.
	receiveWindow = 1 << 20
	defaultWindow = 1<<16 - 1
	maxWindow     = 1<<31 - 1
	// maxHeld bounds the bytes that are kept for grpc-go.
	maxHeld = 64 << 10
	// maxBatches bounds the batches of a connection that are under way. Above it reading pauses.
	maxBatches = 8
	// largestKept is the most memory of out that is kept for reuse.
	largestKept = 64 << 10
	// mostOut bounds what frames of one turn may make of out: a short header can have a long refusal. The others are
	// parsed after the write.
	mostOut = 256 << 10
)

func newConn(p *loop, nc net.Conn) *h2conn {
	c := &h2conn{Conn: nc, loop: p, chains: connChains(nc), streams: map[uint32]*h2stream{},
		send: flow{left: defaultWindow}, initial: defaultWindow, credit: defaultWindow, held: []byte{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.changed.L = &c.mu
	c.framer = http2.NewFramer(io.Discard, &c.in)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(maxFrame)
	c.hpack = hpack.NewDecoder(tableSize, c.field)
	c.hpack.SetMaxStringLength(maxHeaderList)
	// The settings of grpc-go, which may get the connection.
	c.out = appendSettings(c.out, http2.Setting{ID: http2.SettingMaxFrameSize, Val: maxFrame},
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeaderList})
	return c
}

// run has the role of the reader until it passes on, or the connection ends.
func (c *h2conn) run(role int) {
	if role == 0 {
		c.flush()
		if c.SetReadDeadline(clock().Add(connectionTimeout)) != nil {
			c.abort()
			return
		}
	}
	for {
		b := c.turn()
		if b != nil {
			c.answer(b)
		}
		c.flush()
		switch mayRead, pass := c.endTurn(role); {
		case pass:
			c.passOn()
			return
		case !mayRead:
			return
		}
		if !c.more && c.in.fill(c.Conn) != nil {
			c.abort()
			return
		}
	}
}

// turn parses what was read, and returns the calls that are complete, nil for none.
func (c *h2conn) turn() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns++
	c.busy.Store(c.turns)
	c.loop.watch.list(c)
	c.now = clock()
	c.heard = c.now
	if c.closing {
		c.in.r = c.in.w // drops the input behind the last frame
	}
	if c.stage == stagePreface {
		switch ok, known := c.in.preface(); {
		case ok:
			c.stage = stageSettings
		case known:
			c.closing = true
		}
	}
	c.more = false
	for c.stage != stagePreface && c.stage != stagePassed && !c.closing && c.in.hasFrame() {
		if c.more = len(c.out) > mostOut; c.more {
			break
		}
		c.frame()
	}
	c.unblock()
	if len(c.ready) == 0 {
		return nil
	}
	b := c.idle
	if c.idle = nil; b == nil {
		b = &batch{}
	}
	for _, st := range c.ready {
		st.phase = phaseBatch
		b.calls = append(b.calls, call{stream: st})
	}
	clear(c.ready)
	c.ready = c.ready[:0]
	c.batches++
	return b
}

// endTurn reports whether the goroutine of a role may read on, or is to hand the connection over.
func (c *h2conn) endTurn(role int) (mayRead, pass bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.role != role || c.closed {
		return false, false
	}
	c.busy.Store(0)
	return true, c.stage == stagePassed
}

// readOn gives the role of the reader to a new goroutine if a turn is still under way. While a write is, nothing is
// read: its client has to read first.
func (c *h2conn) readOn(turn int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy.Load() != turn || c.writes.Load() != 0 || c.batches == 0 || c.batches >= maxBatches || c.closed {
		return
	}
	c.busy.Store(0)
	c.role++
	role := c.role
	c.spawn(func() { c.run(role) })
}

// spawn runs a goroutine of the connection. A panic ends the connection; panics of single calls are handled before.
func (c *h2conn) spawn(f func()) {
	c.loop.running.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				c.loop.server.deps.Panicked()
				c.loop.server.deps.Logger.Error("panic in a connection of gRPC", "panic", fmt.Sprint(v), "stack",
					string(debug.Stack()))
				c.abort()
			}
		}()
		f()
	})
}

// passOn gives the connection to grpc-go.
func (c *h2conn) passOn() {
	c.mu.Lock()
	c.closed = true
	c.stopAging()
	unread := slices.Concat([]byte(http2.ClientPreface), c.held, c.in.buf[c.in.r:c.in.w])
	c.mu.Unlock()
	c.cancel()
	c.loop.remove(c)
	c.loop.passed.give(c.Conn, unread)
}

// flush writes what is to be written.
func (c *h2conn) flush() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	out, closing, over := c.out, c.closing, c.closed || c.ended
	c.out, c.spare = c.spare, nil
	if len(out) > 0 && !over {
		c.writes.Store(clock().UnixNano())
		c.loop.watch.list(c)
	}
	c.mu.Unlock()
	if over {
		return
	}
	if len(out) > 0 {
		_, err := c.Write(out)
		c.writes.Store(0)
		if err != nil {
			c.abort()
			return
		}
	}
	if cap(out) <= largestKept {
		c.spare = out[:0]
	}
	if closing {
		c.ended = true
		c.closeWrite()
	}
}

// lastRead is how long the other end has, after the last frame, to close the connection too: closing it with bytes
// unread would take that frame from a client that is still sending.
const lastRead = time.Second

// closeWrite says that nothing follows. The reader closes the connection when the other end has done so too.
func (c *h2conn) closeWrite() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(clock().Add(lastRead)) != nil {
		c.abort()
	}
}

// abort closes the connection. Calls that are under way are decided and not answered.
func (c *h2conn) abort() {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	if !closed {
		for _, st := range c.streams {
			c.leave(st)
		}
		c.stopAging()
		c.changed.Broadcast()
	}
	c.mu.Unlock()
	if !closed {
		c.cancel()
		c.loop.remove(c)
		_ = c.Close()
	}
}

// fail ends the connection with a GOAWAY.
func (c *h2conn) fail(code http2.ErrCode, why string) {
	if c.closing {
		return
	}
	c.out = appendGoAway(c.out, c.last, code, why)
	c.closing = true
}

// frame parses one frame.
func (c *h2conn) frame() {
	start := c.in.r
	f, err := c.framer.ReadFrame()
	if err != nil {
		c.invalidFrame(err, http2.FrameType(c.in.buf[start+3]))
		return
	}
	settings, isSettings := f.(*http2.SettingsFrame)
	if c.stage == stageSettings {
		if !isSettings || settings.IsAck() {
			c.fail(http2.ErrCodeProtocol, "the first frame is not SETTINGS")
			return
		}
		c.stage = stageFirst
		if c.SetReadDeadline(time.Time{}) != nil {
			c.closing = true
		}
		c.startAging()
	}
	if c.stage == stageFirst {
		if _, ping := f.(*http2.PingFrame); !ping { // which is answered
			c.held = append(c.held, c.in.buf[start:c.in.r]...)
		}
		if len(c.held) > maxHeld {
			c.flood(floodSettings)
			return
		}
	}
	switch f := f.(type) {
	case *http2.DataFrame:
		c.onData(f)
	case *http2.HeadersFrame:
		c.onHeaders(f)
	case *http2.ContinuationFrame:
		c.onContinuation(f)
	case *http2.RSTStreamFrame:
		c.onReset(f)
	case *http2.SettingsFrame:
		c.onSettings(f)
	case *http2.PingFrame:
		c.onPing(f)
	case *http2.WindowUpdateFrame:
		c.onWindow(f)
	case *http2.PushPromiseFrame:
		c.fail(http2.ErrCodeProtocol, "a client promises nothing")
	}
}

// invalidFrame ends the stream or the connection of a frame that is not valid. Headers end the connection: the decoder
// has not seen their block.
func (c *h2conn) invalidFrame(err error, kind http2.FrameType) {
	var stream http2.StreamError
	var conn http2.ConnectionError
	switch {
	case errors.As(err, &stream) && kind != http2.FrameHeaders && !c.isIdle(stream.StreamID):
		c.reset(stream.StreamID, stream.Code)
	case errors.As(err, &conn):
		c.fail(http2.ErrCode(conn), "")
	case errors.Is(err, http2.ErrFrameTooLarge):
		c.fail(http2.ErrCodeFrameSize, "")
	default:
		c.fail(http2.ErrCodeProtocol, "")
	}
}

// own makes the connection one of the loop for good.
func (c *h2conn) own() {
	c.stage, c.held = stageOpen, nil
	for range c.acks {
		c.out = appendFrame(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	}
	c.acks = 0
	c.credit += receiveWindow - defaultWindow
	c.out = appendWindow(c.out, 0, receiveWindow-defaultWindow)
}

// clock is the wall clock of deadlines of sockets, which know no other.
func clock() time.Time { return time.Now() } //nolint:forbidigo // see above
