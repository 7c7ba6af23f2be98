package app

import (
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// spareDescriptors are left to Redis, the rule database and files, however
	// many connections clients open; a quarter of the limit where that is less.
	spareDescriptors = 128
	// roomRetry is how often a listener without room looks again by itself.
	roomRetry = 50 * time.Millisecond
	// roomLog is how often it may say so.
	roomLog = time.Minute
)

// descriptorCeiling is the descriptor from which on accepting waits.
func descriptorCeiling() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	n := int(limit.Cur)
	return n - min(spareDescriptors, n/4)
}

// descriptor is the number of a connection. The kernel gives the lowest that is
// free, so all below it are in use.
func descriptor(c *net.TCPConn) int {
	n := 0
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n = int(fd) })
	}
	return n
}

// waitForRoom waits until the descriptors in use are fewer than the ceiling.
// Meanwhile newcomers wait in the kernel's queue. It reports false if the
// listener was closed.
func (p *patient) waitForRoom() bool {
	if now := time.Now(); now.Sub(p.roomSaid) >= roomLog {
		p.roomSaid = now
		p.log.Warn("too many open connections; new ones wait until others close",
			"descriptors", p.ceiling, "kept_free", "for Redis, the rules database and files",
			"remedy", "raise the open-file limit (ulimit -n)")
	}
	retry := time.NewTicker(roomRetry)
	defer retry.Stop()
	for {
		select {
		case <-p.freed:
		case <-retry.C:
		case <-p.done:
			return false
		}
		if p.lowestFree() < p.ceiling {
			return true
		}
	}
}

// lowestFree is the descriptor that the next connection would get.
func (p *patient) lowestFree() int {
	free := math.MaxInt
	raw, err := p.SyscallConn()
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
