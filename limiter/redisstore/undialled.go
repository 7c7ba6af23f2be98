package redisstore

import (
	"net"
	"syscall"
	"time"
)

// undialled stands for a connection that could not be made. Every use gives
// the dial's error, and the pool finds it unhealthy.
type undialled struct{ err error }

var _ syscall.Conn = (*undialled)(nil)

// notDialled wraps the reason why a connection could not be made. It shows that nothing was sent. (The client unwraps a
// bare net.OpError.)
type notDialled struct {
	err error
	// late: the dial took longer than it may take, so this node lacked the CPU, and it says nothing about the server.
	late bool
}

func (n *notDialled) Error() string { return n.err.Error() }

// Unwrap returns the dialler's error.
func (n *notDialled) Unwrap() error { return n.err }

// Read fails.
func (u *undialled) Read([]byte) (int, error) { return 0, u.err }

// Write fails.
func (u *undialled) Write([]byte) (int, error) { return 0, u.err }

// Close has nothing to close.
func (u *undialled) Close() error { return nil }

// LocalAddr is no address.
func (u *undialled) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr is no address.
func (u *undialled) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline does nothing.
func (u *undialled) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (u *undialled) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (u *undialled) SetWriteDeadline(time.Time) error { return nil }

// SyscallConn fails, by which the pool knows that the connection is of no use.
func (u *undialled) SyscallConn() (syscall.RawConn, error) { return nil, u.err }
