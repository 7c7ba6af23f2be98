package plain

import (
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// owned is a connection of a Loop. Only its owner uses its fields, except the atomic ones.
type owned struct {
	loop   *Loop
	fd     int
	gen    int32 // distinguishes it from an earlier connection with the same descriptor
	state  atomic.Int32
	in     []byte        // was read and is not answered
	own    bool          // the connection owns in; otherwise the worker does
	empty  bool          // all that had arrived was read
	last   bool          // it is to be closed after out
	waited time.Duration // what was read last, to be read
	sender
	out     []byte      // what is left of an answer
	drained int         // bytes of requests that were answered during a drain
	used    atomic.Bool // a request was answered
	half    atomic.Bool // the client has closed its side
	// rested is when it was last added or answered. due is when the keeper ends its wait.
	rested, due atomic.Int64
	early       bool        // the keeper lists it as due soon; under the lock of the keeper
	gone        atomic.Bool // the client has left
	// Of the request that is decided: whether something that follows it was read, and its number, which is set later.
	follows atomic.Bool
	number  atomic.Int64
}

// States of a connection.
const (
	free    int32 = iota // nobody owns it: it is idle, or waits for the rest of a request or for room to write
	taken                // it has an owner
	stirred              // it has an owner, and something has happened since it was taken
)

// leaveAfter is when a client that has closed its side counts as one that left, if its request is still undecided: it
// may only have said all that it had to say, so a quick answer reaches it.
const leaveAfter = 2 * watchTick

// event notes events that the kernel reports for c, and returns whether the caller owns c from now on. The kernel
// reports only once that the client has closed its side, so that is noted for the owner, who may stop reading just
// before that end. After a reset nobody gets an answer, though requests may be unread.
func (c *owned) event(events uint32) bool {
	if events&unix.EPOLLRDHUP != 0 {
		c.half.Store(true)
	}
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.gone.Store(true)
	}
	for {
		switch state := c.state.Load(); state {
		case free:
			if c.state.CompareAndSwap(free, taken) {
				return true
			}
		case taken:
			if c.state.CompareAndSwap(taken, stirred) {
				c.leaves(events)
				return false
			}
		default:
			c.leaves(events)
			return false
		}
	}
}

// leaves notes that the client of a request that is decided may have left. Another worker may own c and close it at the
// same time: then nobody reads the note.
func (c *owned) leaves(events uint32) {
	if events&unix.EPOLLRDHUP != 0 {
		number := c.number.Load() // first: the owner may already take the next request, which is not meant
		if more, closed := unread(c.fd); !more && closed && !c.follows.Load() {
			c.leavesLater(number)
		}
	}
}

func (c *owned) leavesLater(number int64) {
	time.AfterFunc(leaveAfter, func() {
		if c.number.Load() == number {
			c.gone.Store(true)
		}
	})
}

// release ends the ownership. It reports false if something has happened: c is still the caller's, who looks again.
func (c *owned) release() bool {
	if c.state.CompareAndSwap(taken, free) {
		return true
	}
	c.state.Store(taken)
	return false
}

// keep copies the read bytes to memory that the connection owns.
func (c *owned) keep() {
	if !c.own && len(c.in) > 0 {
		c.in, c.own = append(make([]byte, 0, len(c.in)+len(c.in)/2), c.in...), true
	}
}

// grow makes room for more of a request. Memory doubles when it is full, up to the size of the largest plain request
// and the beginning of the next one. A client has thus sent at least half of the memory that is kept for it, whatever
// length it states for its body.
func (c *owned) grow() {
	if c.own && len(c.in) < cap(c.in) {
		return
	}
	size := max(smallBuffer, min(2*len(c.in), maxHead+c.loop.s.d.MaxBody+leastRead))
	c.in, c.own = append(make([]byte, 0, size), c.in...), true
}

// rest notes that the connection is idle from now on.
func (c *owned) rest(at int64) {
	c.rested.Store(at)
	c.due.Store(at + int64(c.loop.s.d.Idle))
}

// close closes the connection, whose owner the caller is.
func (c *owned) close() {
	c.number.Add(1)
	c.loop.forget(c)
	_ = unix.Close(c.fd)
	c.loop.open.Add(-1)
	c.loop.d.Freed()
}

// contain closes c at a panic, unless it is net/http's. Its owner defers it.
func (l *Loop) contain(c *owned) {
	if v := recover(); v != nil {
		l.s.recovered(c, v)
		if l.has(c) {
			c.close()
		}
	}
}

// handOver gives the connection to net/http, with the bytes that were read and are not answered.
func (c *owned) handOver(why string) {
	c.number.Add(1)
	c.loop.forget(c)
	in := c.in
	if !c.own {
		in = append([]byte(nil), in...)
	}
	_ = unix.EpollCtl(c.loop.fd, unix.EPOLL_CTL_DEL, c.fd, nil)
	conn, err := netConn(c.fd)
	if err == nil {
		c.loop.s.d.HandedOver(why)
		c.loop.d.HandOver(conn, in)
	} else { // there is no other descriptor
		c.loop.s.d.Logger.Error("a connection was closed: net/http cannot have it", "error", err)
	}
	c.loop.open.Add(-1)
	c.loop.d.Freed()
}

// netConn closes a descriptor and returns its connection. That has the lowest free descriptor, as a new one has: the
// listener takes a lower one that is free for a sign that few are in use.
func netConn(fd int) (net.Conn, error) {
	second, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) //nolint:gosec // a descriptor
	_ = unix.Close(fd)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(second), "connection") //nolint:gosec // a descriptor
	conn, err := net.FileConn(file)
	_ = file.Close() // conn uses another descriptor
	return conn, err
}

// Network implements net.Addr.
func (*owned) Network() string { return "tcp" }

// String is the address of the client. Only the owner calls it.
func (c *owned) String() string {
	peer, err := unix.Getpeername(c.fd)
	if err != nil {
		return "a client that left"
	}
	switch a := peer.(type) {
	case *unix.SockaddrInet4:
		return (&net.TCPAddr{IP: a.Addr[:], Port: a.Port}).String()
	case *unix.SockaddrInet6:
		return (&net.TCPAddr{IP: a.Addr[:], Port: a.Port}).String()
	}
	return "a local client"
}

// now is the clock of deadlines of sockets, ns since the program began. No step of the machine's clock moves it.
func now() int64 { return int64(time.Since(started)) } //nolint:forbidigo // deadlines of sockets

var started = time.Now() //nolint:forbidigo // deadlines of sockets
