package plain

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These calls never block, so they bypass Go's scheduler, which would cost a tenth of a microsecond each.

// epoll returns how many events there are now.
func epoll(fd int, events []unix.EpollEvent) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(fd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0) //nolint:gosec // as package unix does
	if errno != 0 {
		return 0
	}
	return int(n) //nolint:gosec // at most len(events)
}

// read reads once. The error is nil or a syscall.Errno; 0 bytes without an error are the end.
func read(fd int, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p) }

// read reads as the function does, and tells when the last byte of it had arrived, ns since 1970, or 0 if the kernel
// does not say. The socket is one of stamp.
func (s *stamps) read(fd int, p []byte) (n int, arrived int64, err error) {
	s.to = unix.Iovec{Base: &p[0]}
	s.to.SetLen(len(p))
	s.message = unix.Msghdr{Iov: &s.to, Iovlen: 1, Control: &s.control[0]}
	s.message.SetControllen(len(s.control))
	for {
		//nolint:gosec // as package unix does
		r, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&s.message)), 0)
		switch errno {
		case 0:
			return int(r), s.arrived(), nil //nolint:gosec // at most len(p)
		case syscall.EINTR:
		default:
			return 0, 0, errno
		}
	}
}

// stamps is the memory of a read that receives the time of arrival.
type stamps struct {
	message unix.Msghdr
	to      unix.Iovec
	control [64]byte
}

// stamp makes the kernel note when something arrives on a socket.
func stamp(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) }

func (s *stamps) arrived() int64 {
	//nolint:gosec // within control
	messages, err := unix.ParseSocketControlMessage(s.control[:s.message.Controllen])
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS &&
			len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			return (*unix.Timespec)(unsafe.Pointer(&m.Data[0])).Nano() //nolint:gosec // the kernel's
		}
	}
	return 0
}

// write writes once.
func write(fd int, p []byte) (int, error) { return call(syscall.SYS_WRITE, fd, p) }

func call(trap uintptr, fd int, p []byte) (int, error) {
	for {
		//nolint:gosec // as package unix does
		n, _, errno := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil //nolint:gosec // at most len(p)
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// unread reports whether bytes of the client are unread, and whether it has closed its side.
func unread(fd int) (more, closed bool) {
	n, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n > 0, err == nil && n == 0 || err != nil && err != unix.EAGAIN
}
