package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// patient is a listener that hands on a connection when its first byte arrives.
// Clients open connections ahead of need; net/http would count the time until
// the first request against that request's headers, and cut off after two
// seconds what a client believes to be ready for use. Here such a connection may
// wait as long as one that has been used; from its first byte on net/http's own
// limits hold.
//
// It knows every open connection, so that drain can end them without dropping a
// request whose bytes have arrived.
type patient struct {
	*net.TCPListener
	wait    time.Duration
	log     *slog.Logger
	ceiling int // of descriptors; see waitForRoom
	next    chan accepted
	done    chan struct{} // closed by Close
	leaving chan struct{} // closed by drain: accept what the kernel holds, then stop
	stopped chan struct{} // closed when nothing is accepted any more
	freed   chan struct{} // holds a token after a connection has ended
	// roomSaid is when waitForRoom last wrote to the log.
	roomSaid time.Time

	mu     sync.Mutex
	guests map[*guest]bool // every open connection; true once it was handed on
	closed bool
	wg     sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

// newPatient takes over l. A connection that says nothing for wait is closed.
func newPatient(l *net.TCPListener, wait time.Duration, log *slog.Logger) *patient {
	p := &patient{
		TCPListener: l, wait: wait, log: log, ceiling: descriptorCeiling(), next: make(chan accepted), done: make(chan struct{}),
		leaving: make(chan struct{}), stopped: make(chan struct{}), freed: make(chan struct{}, 1), guests: map[*guest]bool{},
	}
	p.wg.Go(p.accept)
	return p
}

// Accept gives the next connection with something to read.
func (p *patient) Accept() (net.Conn, error) {
	select {
	case a := <-p.next:
		return a.conn, a.err
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and the connections that have said nothing.
func (p *patient) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return net.ErrClosed
	}
	p.closed = true
	close(p.done)
	err := p.TCPListener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // by drain
	}
	for g, handed := range p.guests {
		if !handed {
			_ = g.Conn.Close()
		}
	}
	p.mu.Unlock()
	p.wg.Wait()
	return err
}

// accept passes errors on, so that the server logs them and decides how long to
// pause: handing one over waits for it.
func (p *patient) accept() {
	defer close(p.stopped)
	q := quiet{p: p}
	for {
		c, err := p.AcceptTCP()
		if q.ended(err) {
			// Whoever connects from now on is refused. Errors of closing change nothing.
			_ = p.TCPListener.Close()
			return
		}
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) && !p.hand(accepted{err: err}) {
				return
			}
			continue
		}
		g := &guest{Conn: c, home: p, silent: true, moment: firstMoment, since: time.Now()}
		if !p.admit(g) {
			_ = c.Close()
			return
		}
		p.wg.Go(func() { p.await(g) })
		if descriptor(c) >= p.ceiling && !p.waitForRoom() {
			return
		}
	}
}

func (p *patient) admit(g *guest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.guests[g] = false
	}
	return !p.closed
}

// await hands g on with its first bytes, or closes it.
func (p *patient) await(g *guest) {
	first := make([]byte, firstBytes)
	n, ok := 0, g.SetReadDeadline(time.Now().Add(p.wait)) == nil
	if ok {
		n, _ = g.Read(first) // whatever is wrong besides shows at the next read
	}
	if g.first = first[:n]; n == 0 || !p.hand(accepted{conn: g}) {
		_ = g.Close()
		return
	}
	p.mu.Lock()
	if _, open := p.guests[g]; open {
		p.guests[g] = true
	}
	p.mu.Unlock()
}

func (p *patient) hand(a accepted) bool {
	select {
	case p.next <- a:
		return true
	case <-p.done:
		return false
	}
}

// leave is called once for each connection that ends.
func (p *patient) leave(g *guest) {
	p.mu.Lock()
	delete(p.guests, g)
	p.mu.Unlock()
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// Times of a drain.
const (
	// firstMoment is how long a new connection may take to say something.
	firstMoment = time.Second
	// idleMoment is the same after an answer. Clients were told with their
	// answers to leave, so only those without traffic are left here.
	idleMoment = 100 * time.Millisecond
	// lastLook is how long a connection that is about to end is read once more.
	lastLook = 20 * time.Millisecond
	// drainTick is how often a drain looks at its connections.
	drainTick = 5 * time.Millisecond
)

// drain accepts what the kernel has accepted already, then nothing more, lets
// all requests finish and ends the connections that stay silent. It returns nil
// when none is left, or when ctx ends its error. The server must be serving.
func (p *patient) drain(ctx context.Context) error {
	close(p.leaving)
	// Without an error the queue of the kernel does not grow any more. With one,
	// say on another system than Linux, it is emptied as far as possible.
	if err := refuseNew(p.TCPListener); err != nil {
		p.log.Debug("refusing new connections failed; they are accepted until the listener closes", "error", err)
	}
	if err := p.SetDeadline(time.Now().Add(queueQuiet)); err != nil {
		return err
	}
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for !p.empty(time.Now()) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// empty reports whether nobody can come and nobody is left, and makes haste
// where a connection stays silent.
func (p *patient) empty(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for g := range p.guests {
		g.hurry(now)
	}
	select {
	case <-p.stopped:
		return len(p.guests) == 0
	default:
		return false
	}
}

const (
	// queueQuiet is how long nobody may come out of the kernel's queue before it
	// counts as empty, twice in a row. Connections whose handshake is under way
	// get this time to finish it.
	queueQuiet = 50 * time.Millisecond
	// queueLimit bounds emptying the queue where newcomers cannot be refused.
	queueLimit = time.Second
)

// quiet notices that nobody is left in the kernel's queue.
type quiet struct {
	p      *patient
	misses int
	limit  time.Time
}

// ended takes the outcome of an Accept and reports whether it was the last one.
func (q *quiet) ended(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return true
	}
	select {
	case <-q.p.leaving:
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
	return q.misses >= 2 || now.After(q.limit) || q.p.SetDeadline(now.Add(queueQuiet)) != nil
}
