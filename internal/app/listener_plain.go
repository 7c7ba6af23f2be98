package app

import (
	"crypto/tls"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"sluice/api/plain"
)

var _ plain.Conn = (*trackedConn)(nil)

// Rest implements plain.Conn.
func (c *trackedConn) Rest() {
	c.mu.Lock()
	c.idle, c.since, c.grace, c.few = true, time.Now(), idleGrace, leastRequest
	c.mu.Unlock()
}

// Left implements plain.Conn. It reads nothing. Over TLS the unread bytes of a client that closed its side are the end
// of the session, or requests that it does not expect answers to.
func (c *trackedConn) Left(more bool) bool {
	conn := c.Conn
	encrypted, ok := conn.(*tls.Conn)
	if ok {
		conn = encrypted.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	left := false
	err = raw.Control(func(fd uintptr) {
		events := []unix.PollFd{{Fd: int32(fd), Events: closedEvents}} //nolint:gosec // a descriptor
		if n, err := unix.Poll(events, 0); err != nil || n == 0 {
			return
		}
		left = encrypted != nil && !more || events[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		if !left && !more {
			n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			left = n == 0 && err == nil
		}
	})
	return left || err != nil
}

// hasUnread reports whether the kernel has bytes of conn that were not read.
func hasUnread(conn net.Conn) bool {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		n, _, _ = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT) // -1 with an error
	})
	return n > 0 && err == nil
}

// servePlain answers the plain checks of a connection. first has the bytes that were read. It reports whether net/http
// must serve the connection, from its first bytes on.
func (f *firstByteListener) servePlain(c *trackedConn, first []byte) bool {
	if f.plain == nil {
		c.first = first
		return len(first) > 0
	}
	if len(first) == 0 {
		return false
	}
	unread, handOver := f.plain.Serve(c, first)
	c.first = unread
	return handOver
}
