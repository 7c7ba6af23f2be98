package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/api/plain"
)

// firstByteListener is a listener that returns a connection from Accept once its
// first byte has arrived. Clients open connections before they need them, and
// net/http counts the time until the first request against the header timeout: it
// would close such a connection after two seconds, while the client believes that
// it is ready for use. Here a new connection may stay idle as long as a used one.
// From the first byte on, the timeouts of net/http apply.
//
// If plain is set, it answers plain checks first. A connection is returned from Accept once
// a request is not plain.
//
// With TLS, the handshake comes first, within handshakeTimeout, and the first byte is the first byte of a request. All
// following rules concern bytes of requests, so that deadlines and drain work as they do without TLS.
//
// It tracks every open connection, so that drain can close them without losing a
// request whose bytes have arrived. It is safe for concurrent use.
type firstByteListener struct {
	*net.TCPListener
	idle     time.Duration // after which a connection without a first byte is closed
	tls      *tls.Config   // nil: no TLS
	plain    *plain.Server // nil: net/http answers plain checks too
	loop     *plain.Loop   // reads new connections; nil: each has a goroutine
	stopLoop func(context.Context) error
	log      *slog.Logger
	ceiling  int // of file descriptors; see waitForDescriptors
	accepted chan acceptResult
	closing  chan struct{} // closed by Close
	draining chan struct{} // closed by drain: accept what the kernel has queued, then stop
	stopped  chan struct{} // closed when no more connections are accepted
	freed    chan struct{} // holds a token after a connection has ended
	lost     lostTime      // since the drain delay began
	// ceilingLogged is when waitForDescriptors last wrote to the log.
	ceilingLogged time.Time

	mu     sync.Mutex
	conns  map[*trackedConn]bool // every open connection; true once Accept returned it
	closed bool
	wg     sync.WaitGroup

	badHandshakes atomic.Int64
}

type acceptResult struct {
	conn net.Conn
	err  error
}

// newFirstByteListener takes over l. A connection that sends nothing within idle
// is closed. secure is nil for connections without TLS, and checks if net/http
// answers all requests. loops: checks are read in a loop, without TLS.
func newFirstByteListener(l *net.TCPListener, idle time.Duration, secure *tls.Config, checks *plain.Server, loops bool,
	log *slog.Logger) (*firstByteListener, error) {
	f := &firstByteListener{
		TCPListener: l, idle: idle, tls: secure, plain: checks, log: log, ceiling: descriptorCeiling(),
		accepted: make(chan acceptResult), closing: make(chan struct{}), draining: make(chan struct{}),
		stopped: make(chan struct{}), freed: make(chan struct{}, 1), conns: map[*trackedConn]bool{},
	}
	if loops {
		if err := f.openLoop(); err != nil {
			return nil, err
		}
	}
	f.wg.Go(f.acceptAll)
	return f, nil
}

// Accept returns the next connection that has something to read.
func (f *firstByteListener) Accept() (net.Conn, error) {
	select {
	case a := <-f.accepted:
		return a.conn, a.err
	case <-f.closing:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and the connections that Accept has not returned.
func (f *firstByteListener) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return net.ErrClosed
	}
	f.closed = true
	close(f.closing)
	err := f.TCPListener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // drain closed it
	}
	for c, returned := range f.conns {
		if !returned {
			_ = c.Conn.Close()
		}
	}
	f.mu.Unlock()
	f.closeLoop()
	f.wg.Wait()
	return err
}

// acceptAll accepts connections until the listener is closed or drained. It passes
// errors on to Accept and waits until they are received, because the server logs
// them and decides how long to pause.
func (f *firstByteListener) acceptAll() {
	defer close(f.stopped)
	drained, crowded := queueDrain{listener: f}, false
	for {
		tcp, err := f.AcceptTCP()
		if drained.after(err) {
			// New connections are refused from now on. An error of Close changes nothing.
			_ = f.TCPListener.Close()
			return
		}
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) && !f.send(acceptResult{err: err}) {
				return
			}
			continue
		}
		highest := descriptor(tcp)
		if f.loop != nil {
			f.addToLoop(tcp)
		} else if !f.awaitOne(tcp) {
			return
		}
		// Once the ceiling was met, closed connections leave gaps below it: each connection is counted from then on.
		if crowded = crowded || highest >= f.ceiling; crowded && !f.waitForDescriptors() {
			return
		}
	}
}

// awaitOne gives a connection a goroutine. It reports false if the listener is closed.
func (f *firstByteListener) awaitOne(tcp *net.TCPConn) bool {
	c := &trackedConn{Conn: tcp, listener: f, idle: true, grace: newConnGrace, since: time.Now()}
	if f.tls != nil {
		c.Conn = tls.Server(tcp, f.tls)
	}
	if !f.track(c) {
		_ = c.Conn.Close()
		return false
	}
	f.wg.Go(func() { f.awaitFirstByte(c) })
	return true
}

// track adds c to the open connections. It reports false if the listener is closed.
func (f *firstByteListener) track(c *trackedConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.conns[c] = false
	}
	return !f.closed
}

// untrack is called once for each connection that ends.
func (f *firstByteListener) untrack(c *trackedConn) {
	f.mu.Lock()
	delete(f.conns, c)
	f.mu.Unlock()
	f.free()
}

// free notes that a descriptor is free.
func (f *firstByteListener) free() {
	select {
	case f.freed <- struct{}{}:
	default:
	}
}

// awaitFirstByte passes c to Accept with its first bytes, or closes it.
func (f *firstByteListener) awaitFirstByte(c *trackedConn) {
	first := make([]byte, firstRead)
	n := 0
	conn, encrypted := c.Conn.(*tls.Conn)
	if (!encrypted || f.handshake(c, conn)) && c.SetReadDeadline(time.Now().Add(f.idle)) == nil {
		n, _ = c.Read(first) // the next read returns the same error
	}
	if !f.servePlain(c, first[:n]) {
		_ = c.Close()
		return
	}
	f.offer(c)
}

// offer passes c to Accept, or closes it if the listener is closed.
func (f *firstByteListener) offer(c *trackedConn) {
	if !f.send(acceptResult{conn: c}) {
		_ = c.Close()
		return
	}
	f.mu.Lock()
	if _, open := f.conns[c]; open {
		f.conns[c] = true
	}
	f.mu.Unlock()
}

// send waits until Accept receives a. It reports false if the listener is closed.
func (f *firstByteListener) send(a acceptResult) bool {
	select {
	case f.accepted <- a:
		return true
	case <-f.closing:
		return false
	}
}

// Times of a drain.
const (
	// newConnGrace is how long a new connection may stay without a first byte.
	newConnGrace = time.Second
	// idleGrace is the same for a connection after a response. The responses have asked clients to close the
	// connection, so only idle connections remain.
	idleGrace = 100 * time.Millisecond
	// finalRead is how long a connection is read once more before it is closed.
	finalRead = 20 * time.Millisecond
	// drainTick is how often a drain checks its connections.
	drainTick = 5 * time.Millisecond
	// starvedGrace is how long a drain of a node that lacked CPU closes no idle connection. Their grace times may have
	// passed while the node was not run, and the same cause may delay clients on the same machine.
	starvedGrace = 500 * time.Millisecond
)

// lostTime measures for how long this process was not run although it had work (starvation.Meter). The zero value
// measures nothing. It is not safe for concurrent use.
type lostTime struct {
	total func() time.Duration
	begun time.Duration
}

// begin makes since count from now on.
func (l *lostTime) begin(total func() time.Duration) {
	if l.total = total; total != nil {
		l.begun = total()
	}
}

// since is the time that was lost since begin.
func (l *lostTime) since() time.Duration {
	if l.total == nil {
		return 0
	}
	return l.total() - l.begun
}

// drain accepts the connections that the kernel has queued, and then no more. It
// lets all requests finish and closes idle connections. It returns nil when no
// connection is left, or the error of ctx. The server must be serving.
func (f *firstByteListener) drain(ctx context.Context) error {
	return f.refuse(ctx, func(*trackedConn) bool { return false })
}

// handOver accepts the connections that the kernel has queued, and then no more. It returns nil when the server has
// begun to read every open connection, or the error of ctx. The server must be serving.
func (f *firstByteListener) handOver(ctx context.Context) error {
	return f.refuse(ctx, func(c *trackedConn) bool { return c.begun.Load() })
}

// refuse refuses new connections and waits until all that are left may stay.
func (f *firstByteListener) refuse(ctx context.Context, mayStay func(*trackedConn) bool) error {
	close(f.draining)
	// If this succeeds, the kernel's queue grows no more. If not, as on systems other
	// than Linux, the queue is emptied as far as possible.
	if err := refuseNew(f.TCPListener); err != nil {
		f.log.Debug("refusing new connections failed; they are accepted until the listener closes", "error", err)
	}
	if err := f.SetDeadline(time.Now().Add(queueQuiet)); err != nil {
		return err
	}
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for began := time.Now(); !f.drained(began, time.Now(), mayStay); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// drained ends the waits of idle connections in a drain that began at a time. It reports whether all remaining
// connections may stay, and no other can arrive.
func (f *firstByteListener) drained(began, now time.Time, mayStay func(*trackedConn) bool) bool {
	// A loss below finalRead harms nobody: the last read of a connection takes that long.
	closes := now.Sub(began) >= starvedGrace || f.lost.since() < finalRead
	done := f.drainLoop(closes) // before the others: it hands connections over to them
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if closes {
			c.expireIdle(now)
		}
		done = done && mayStay(c)
	}
	select {
	case <-f.stopped:
		return done
	default:
		return false
	}
}

const (
	// queueQuiet is how long the kernel's queue must yield no connection before it
	// counts as empty, twice in a row. Handshakes that are under way get this time to
	// finish.
	queueQuiet = 50 * time.Millisecond
	// queueLimit bounds the time to empty the queue if new connections cannot be
	// refused.
	queueLimit = time.Second
)

// queueDrain detects that the kernel's queue of connections is empty.
type queueDrain struct {
	listener *firstByteListener
	misses   int
	limit    time.Time
}

// after takes the result of an Accept and reports whether it was the last one.
func (q *queueDrain) after(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return true
	}
	select {
	case <-q.listener.draining:
	default:
		return false
	}
	now := time.Now()
	if q.limit.IsZero() {
		q.limit = now.Add(queueLimit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		q.misses++
	} else {
		q.misses = 0
	}
	return q.misses >= 2 || now.After(q.limit) || q.listener.SetDeadline(now.Add(queueQuiet)) != nil
}
