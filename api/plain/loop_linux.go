package plain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Loop reads plain checks from many connections without a goroutine for each of them. A worker waits for all of them on
// one epoll. It reads what is ready, decides all complete requests together, and writes the answers; requests that
// arrive during that time form the next batch. If that takes long, another worker gets the turn (turn_linux.go). A
// request that is no plain check goes to net/http with its connection, as in Server.Serve.
//
// A connection belongs to the worker that took it, until it is released. Events that the kernel reports before that are
// noted, and handled at the release. An idle connection has no buffer and no goroutine.
//
//	loop_linux.go   the connections and the epoll
//	turn_linux.go   whose turn it is to wait
//	owned_linux.go  whose a connection is, and what happens to it
//	batch_linux.go  the requests of a turn, from their decision to their answers
//	keep_linux.go   limits of time, and the drain
//
// It is safe for concurrent use.
type Loop struct {
	s    *Server
	d    LoopDeps
	file *os.File // the epoll: Go's own poller wakes the worker whose turn it is
	poll syscall.RawConn
	fd   int
	open atomic.Int64 // connections
	gen  atomic.Int32 // of the connection that was added last
	// conns are the connections by their descriptors, a thousand to a chunk.
	conns [1 << 10]atomic.Pointer[chunk]
	turns
	keeper
}

type chunk [1 << 10]atomic.Pointer[owned]

// LoopDeps are the dependencies of a Loop. HandOver is required.
type LoopDeps struct {
	// HandOver takes a connection that net/http is to serve, from the unread bytes on. It must not block.
	HandOver func(c net.Conn, unread []byte)
	// Freed is called after a connection was closed or handed over; it may be nil.
	Freed func()
}

// NewLoop returns a Loop for the checks of s. Run must run while it has connections.
func NewLoop(s *Server, d LoopDeps) (*Loop, error) {
	if s.d.CheckAll == nil || d.HandOver == nil {
		return nil, errors.New("plain: CheckAll and HandOver are required")
	}
	if d.Freed == nil {
		d.Freed = func() {}
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("plain: %w", err)
	}
	l := &Loop{s: s, d: d, fd: fd, turns: newTurns(), keeper: newKeeper()}
	if err = unix.SetNonblock(fd, true); err == nil { // else os.File does not give it to Go's poller
		l.file = os.NewFile(uintptr(fd), "epoll")
		l.poll, err = l.file.SyscallConn()
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("plain: %w", err)
	}
	return l, nil
}

// Add gives a connection to the loop: a descriptor of a stream socket that nobody else uses and that does not block.
// If the error is not nil, the descriptor is still the caller's.
func (l *Loop) Add(fd int) error {
	if fd >= len(l.conns)*len(chunk{}) {
		return fmt.Errorf("plain: descriptor %d is too large", fd)
	}
	_ = stamp(fd) // else nothing is too late
	c := &owned{loop: l, fd: fd, gen: l.gen.Add(1)}
	c.rest(now())
	at := &l.conns[fd/len(chunk{})]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(chunk))
	}
	at.Load()[fd%len(chunk{})].Store(c)
	first := l.open.Add(1) == 1
	// Edge-triggered: the kernel reports each event once. A worker that does not read to the end must read again
	// without an event.
	if err := l.control(unix.EPOLL_CTL_ADD, c); err != nil {
		at.Load()[fd%len(chunk{})].Store(nil)
		l.open.Add(-1)
		return fmt.Errorf("plain: %w", err)
	}
	if first {
		l.stir()
	}
	return nil
}

// control adds c to the epoll, or makes it tell again what c is ready for.
func (l *Loop) control(op int, c *owned) error {
	return unix.EpollCtl(l.fd, op, c.fd, &unix.EpollEvent{Fd: int32(c.fd), Pad: c.gen, //nolint:gosec // a descriptor
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff})
}

// Open is the number of connections of the loop, including connections that are just handed over.
func (l *Loop) Open() int { return int(l.open.Load()) }

// Run serves the connections until ctx ends, and then closes the remaining ones.
func (l *Loop) Run(ctx context.Context) {
	l.passOn(l.nobody)
	l.keep(ctx)
	_ = l.file.Close() // ends the turns
	l.workers.Wait()
	l.each(func(c *owned) { c.close() })
}

// wait waits for something to do.
func (l *Loop) wait(events []unix.EpollEvent) (n int, err error) {
	err = l.poll.Read(func(fd uintptr) bool {
		n = epoll(int(fd), events)
		return n > 0
	})
	return n, err
}

// of returns the connection of an event, nil if it is gone.
func (l *Loop) of(e *unix.EpollEvent) *owned {
	at := l.conns[int(e.Fd)/len(chunk{})].Load()
	if at == nil {
		return nil
	}
	c := at[int(e.Fd)%len(chunk{})].Load()
	if c == nil || c.gen != e.Pad {
		return nil
	}
	return c
}

// each calls f for every connection.
func (l *Loop) each(f func(*owned)) {
	for i := range l.conns {
		at := l.conns[i].Load()
		if at == nil {
			continue
		}
		for k := range at {
			if c := at[k].Load(); c != nil {
				f(c)
			}
		}
	}
}

// forget takes c out of the loop. The descriptor is the caller's from then on.
func (l *Loop) forget(c *owned) {
	l.conns[c.fd/len(chunk{})].Load()[c.fd%len(chunk{})].CompareAndSwap(c, nil)
}
