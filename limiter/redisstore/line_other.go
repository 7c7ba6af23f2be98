//go:build !unix

package redisstore

import "syscall"

// hasArrived reports false: there is no portable way to look into a socket.
func hasArrived(syscall.RawConn) bool { return false }
