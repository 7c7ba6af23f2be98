package app

import (
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// spareDescriptors are kept free for Redis, the rules database and files, however
	// many connections clients open; at most a quarter of the limit.
	spareDescriptors = 128
	// descriptorRetry is how often a listener at the ceiling checks again.
	descriptorRetry = 50 * time.Millisecond
	// descriptorLog is the shortest time between two log lines about it.
	descriptorLog = time.Minute
)

// descriptorCeiling is the file descriptor from which on new connections wait.
func descriptorCeiling() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	n := int(limit.Cur)
	return n - min(spareDescriptors, n/4)
}

// descriptor is the file descriptor of a connection. The kernel assigns the lowest
// free one, so all lower ones are in use.
func descriptor(c *net.TCPConn) int {
	n := 0
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n = int(fd) })
	}
	return n
}

// waitForDescriptors waits until a descriptor below the ceiling is free. Meanwhile
// new connections wait in the kernel's queue. It reports false if the listener was
// closed.
func (f *firstByteListener) waitForDescriptors() bool {
	if f.lowestFree() < f.ceiling {
		return true
	}
	if now := time.Now(); now.Sub(f.ceilingLogged) >= descriptorLog {
		f.ceilingLogged = now
		f.log.Warn("too many open connections; new ones wait until others close",
			"descriptors", f.ceiling, "kept_free", "for Redis, the rules database and files",
			"remedy", "raise the open-file limit (ulimit -n)")
	}
	retry := time.NewTicker(descriptorRetry)
	defer retry.Stop()
	for {
		select {
		case <-f.freed:
		case <-retry.C:
		case <-f.closing:
			return false
		}
		if f.lowestFree() < f.ceiling {
			return true
		}
	}
}

// lowestFree is the file descriptor that the next connection would get.
func (f *firstByteListener) lowestFree() int {
	free := math.MaxInt
	raw, err := f.SyscallConn()
	if err != nil {
		return free
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			free = n
			_ = unix.Close(n)
		}
	})
	return free
}
