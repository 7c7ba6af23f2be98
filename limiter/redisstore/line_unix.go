//go:build unix

package redisstore

import "syscall"

// hasArrived reports whether a socket has bytes that were not read.
func hasArrived(socket syscall.RawConn) bool {
	n := 0
	err := socket.Control(func(fd uintptr) {
		var one [1]byte
		n, _, _ = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT) // n is 0 after an error
	})
	return err == nil && n > 0
}
