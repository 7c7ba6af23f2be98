package redisstore

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// moreTime is for how long a read goes on that found bytes in the socket after its deadline, and a write that had not
// begun by its deadline.
const moreTime = 25 * time.Millisecond

// line is a connection to a server. Go runs expired timers before it asks the network what has arrived, so after a
// pause of this process a deadline beats an answer that has been in the socket all along. A line therefore looks into
// the socket before a read fails at its deadline, and reads what is there. A read that fails by its deadline means that
// nothing had arrived.
type line struct {
	net.Conn
	socket syscall.RawConn
}

// newLine wraps a connection that was just made. One without a socket of the system stays as it is.
func newLine(c net.Conn) net.Conn {
	if inner, ok := c.(*tls.Conn); ok {
		if socket := socketOf(inner.NetConn()); socket != nil {
			return &line{Conn: c, socket: socket}
		}
		return c
	}
	if socket := socketOf(c); socket != nil {
		return &plainLine{line{Conn: c, socket: socket}}
	}
	return c
}

func socketOf(c net.Conn) syscall.RawConn {
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// Read reads as the connection does, but fails by a deadline only if nothing has arrived.
func (l *line) Read(p []byte) (int, error) {
	for {
		n, err := l.Conn.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !l.arrived() {
			return n, err
		}
		if l.SetReadDeadline(wallTime().Add(moreTime)) != nil {
			return n, err
		}
	}
}

// Write writes as the connection does. If nothing was written by the deadline, this process may have been stopped
// between setting it and writing, so it tries once more.
func (l *line) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || l.SetWriteDeadline(wallTime().Add(moreTime)) != nil {
		return n, err
	}
	return l.Conn.Write(p)
}

// arrived reports whether the socket has bytes that were not read.
func (l *line) arrived() bool { return hasArrived(l.socket) }

// plainLine is a line without TLS. Only such a line shows its socket: go-redis looks into it for bytes that no command
// waits for, and the records of TLS need not be such bytes.
type plainLine struct{ line }

var _ syscall.Conn = (*plainLine)(nil)

// SyscallConn implements syscall.Conn.
func (l *plainLine) SyscallConn() (syscall.RawConn, error) { return l.socket, nil }
