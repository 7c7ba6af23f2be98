package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// urgent keeps the goroutine on a thread that runs as soon as it can, until the result is called. Callers stand for
// other machines, so the node must not make them late, and neither must other work. Without the right to do so (root),
// they compete with the node for its processors.
func urgent() (restore func()) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // without it, the kernel adds 50 µs to each wait
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0)
	return func() {
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0)
		runtime.UnlockOSThread()
	}
}

// sleepUntil sleeps in the kernel: the runtime's timers can be a millisecond late.
func sleepUntil(at time.Time) {
	for wait := time.Until(at); wait > 0; wait = time.Until(at) {
		ts := unix.NsecToTimespec(wait.Nanoseconds())
		_ = unix.Nanosleep(&ts, nil) // a signal only makes another round
	}
}
