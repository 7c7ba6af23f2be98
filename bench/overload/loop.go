package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// wire is the protocol of one connection. It encodes requests and recognizes answers.
type wire interface {
	// begin appends the first bytes of the connection to out.
	begin(out []byte) []byte
	// room reports whether the connection can send another request now.
	room() bool
	// request appends a request to out.
	request(out []byte, a *answer) []byte
	// read consumes the answers at the beginning of in, calls got for each, and returns the number of bytes consumed.
	// It appends the acknowledgements of the protocol to out.
	read(in, out []byte, got func(*answer)) (consumed int, _ []byte, err error)
	// open calls lost for each request without an answer.
	open(lost func(*answer))
}

// load is a number of checks in a closed or an open loop. One thread serves all connections with non-blocking calls, so
// that the generator uses little of the processors that it shares with the node.
type load struct {
	addr  string
	conns int
	wire  func() wire
	// rate is the number of checks per second of an open loop. 0 means a closed loop: each connection is kept full.
	rate   int
	length time.Duration
	// right reports whether an answer is as the case expects. nil accepts every answer.
	right func(*answer) bool
	// inTurn uses connections with one check at a time in turn. Without it the last used connection is used first, as
	// in connection pools.
	inTurn bool
	// fromSending counts latency from sending in an open loop too, not from when a check was due.
	fromSending bool
	// during starts work that runs while checks are sent and answered, and returns the function that ends it. It may be
	// nil.
	during func() (end func() error, err error)
}

const (
	// grace is how long a load waits for the answers to the last checks.
	grace = 5 * time.Second
	// tick is how long the thread sleeps between two turns. A turn for each answer would take the processor from the
	// node too often. Latencies are longer by up to a tick.
	tick       = 500 * time.Microsecond
	readBuffer = 64 << 10
)

// socket is one connection of a load.
type socket struct {
	fd     int
	wire   wire
	in     []byte // received bytes of an incomplete answer
	out    []byte // unsent bytes
	dirty  bool   // waits for a flush
	listed bool   // among the free ones
	dead   bool
}

// looper runs one load.
type looper struct {
	*load
	tally   *tally
	poll    int
	sockets []*socket
	free    []*socket // sockets with room; longest free first
	dirty   []*socket
	next    int // number of the next check
	open    int // checks without an answer
	buffer  []byte
	events  []unix.EpollEvent
	now     time.Duration
}

// run sends the checks and returns the counts of their answers.
func (l *load) run(ctx context.Context) (*tally, error) {
	defer urgent()()
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(poll) }()
	lp := &looper{load: l, poll: poll, buffer: make([]byte, readBuffer),
		events: make([]unix.EpollEvent, 512), tally: &tally{length: l.length}}
	defer func() {
		for _, s := range lp.sockets {
			lp.drop(s)
		}
	}()
	for range l.conns {
		if err := lp.dial(); err != nil {
			return nil, err
		}
	}
	if err := lp.settle(ctx); err != nil {
		return nil, err
	}
	end := func() error { return nil }
	if l.during != nil {
		if end, err = l.during(); err != nil {
			return nil, err
		}
	}
	lp.tally.begin = time.Now()
	err = errors.Join(lp.serve(ctx), end())
	for _, s := range lp.sockets {
		s.wire.open(func(*answer) { lp.tally.verdicts[failed]++ })
	}
	return lp.tally, err
}

// dial opens one connection.
func (lp *looper) dial() error {
	addr, err := netip.ParseAddrPort(lp.addr)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s := &socket{fd: fd, wire: lp.wire()}
	lp.sockets = append(lp.sockets, s)
	err = errors.Join(unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}),
		unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.EpollCtl(lp.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
			Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
			Fd:     int32(len(lp.sockets) - 1), //nolint:gosec // a few thousand
		}))
	if err != nil {
		return fmt.Errorf("connection %d: %w", len(lp.sockets), err)
	}
	s.out = s.wire.begin(s.out)
	lp.soil(s)
	lp.list(s)
	return nil
}

// settle waits until every connection has room.
func (lp *looper) settle(ctx context.Context) error {
	for end := time.Now().Add(grace); len(lp.free) < len(lp.sockets); {
		if err := lp.turn(ctx); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d connections take no checks", len(lp.sockets)-len(lp.free), len(lp.sockets))
		}
	}
	return nil
}

// serve sends and reads until the load ends and every check is answered, or for grace longer.
func (lp *looper) serve(ctx context.Context) error {
	for {
		lp.now = time.Since(lp.tally.begin)
		lp.send()
		if lp.now > lp.length && lp.open == 0 || lp.now > lp.length+grace {
			return nil
		}
		if err := lp.turn(ctx); err != nil {
			return err
		}
	}
}

// turn writes the pending requests, sleeps for a tick, and reads the received bytes.
func (lp *looper) turn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	lp.flush()
	sleepUntil(time.Now().Add(tick))
	for full := true; full; {
		n, err := unix.EpollWait(lp.poll, lp.events, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for i := range max(0, n) {
			s := lp.sockets[lp.events[i].Fd]
			if len(s.out) > 0 {
				lp.soil(s)
			}
			if err := lp.receive(s); err != nil {
				return err
			}
		}
		full = n == len(lp.events)
	}
	return nil
}

// send sends the due checks: in an open loop by the clock, in a closed loop wherever there is room.
func (lp *looper) send() {
	if lp.rate == 0 {
		for len(lp.free) > 0 && lp.now < lp.length {
			lp.place(lp.now)
		}
		return
	}
	for {
		due := time.Duration(float64(lp.next+lp.tally.unplaced) * float64(time.Second) / float64(lp.rate))
		if due > lp.now || due >= lp.length {
			return
		}
		if !lp.place(due) {
			lp.tally.unplaced++
			continue
		}
		lp.tally.lag = append(lp.tally.lag, lp.now-due)
	}
}

// place gives the next check to a connection that has room. It reports false if there is none.
func (lp *looper) place(due time.Duration) bool {
	for len(lp.free) > 0 {
		s := lp.take()
		if s.dead || !s.wire.room() {
			s.listed = false
			continue
		}
		s.out = s.wire.request(s.out, &answer{n: lp.next, planned: due, sent: lp.now})
		lp.next++
		lp.open++
		lp.tally.sent++
		lp.soil(s)
		if s.listed = s.wire.room(); s.listed { // calls that share connections go to each in turn
			lp.free = slices.Insert(lp.free, 0, s)
		}
		return true
	}
	return false
}

// take removes the connection that is used next from the free ones.
func (lp *looper) take() (s *socket) {
	if lp.inTurn {
		s, lp.free = lp.free[0], lp.free[1:]
	} else {
		s, lp.free = lp.free[len(lp.free)-1], lp.free[:len(lp.free)-1]
	}
	return s
}

// list adds a connection to the free ones if it has room.
func (lp *looper) list(s *socket) {
	if !s.listed && !s.dead && s.wire.room() {
		s.listed = true
		lp.free = append(lp.free, s)
	}
}

// soil remembers a connection that has something to send.
func (lp *looper) soil(s *socket) {
	if !s.dirty {
		s.dirty = true
		lp.dirty = append(lp.dirty, s)
	}
}

// flush sends what has gathered, one write a connection.
func (lp *looper) flush() {
	for _, s := range lp.dirty {
		s.dirty = false
		if s.dead || len(s.out) == 0 {
			continue
		}
		n, err := unix.Write(s.fd, s.out)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			lp.drop(s)
			continue
		}
		s.out = append(s.out[:0], s.out[max(0, n):]...) // the rest goes when the socket is writable
	}
	lp.dirty = lp.dirty[:0]
}

// receive reads the available bytes of a connection.
func (lp *looper) receive(s *socket) error {
	for !s.dead {
		n, err := unix.Read(s.fd, lp.buffer)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil || n == 0:
			lp.drop(s)
			return nil
		}
		in := lp.buffer[:n]
		if len(s.in) > 0 {
			s.in = append(s.in, in...)
			in = s.in
		}
		lp.now = time.Since(lp.tally.begin)
		var used int
		used, s.out, err = s.wire.read(in, s.out, lp.got)
		if err != nil {
			return err
		}
		s.in = append(s.in[:0], in[used:]...)
		if len(s.out) > 0 {
			lp.soil(s)
		}
		lp.list(s)
		if n < len(lp.buffer) { // that was all
			return nil
		}
	}
	return nil
}

func (lp *looper) got(a *answer) {
	lp.open--
	lp.tally.add(a, lp.now, lp.right, lp.fromSending || lp.rate == 0)
}

// drop ends a connection. Its checks stay without an answer.
func (lp *looper) drop(s *socket) {
	if s.dead {
		return
	}
	s.dead = true
	_ = unix.Close(s.fd)
	s.wire.open(func(*answer) { lp.open-- })
}
