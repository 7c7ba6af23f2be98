package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"sluice/api/plain"
)

// openLoop starts the loop that reads new connections until Close.
func (f *firstByteListener) openLoop() error {
	loop, err := plain.NewLoop(f.plain, plain.LoopDeps{HandOver: f.resume, Freed: f.free})
	if err != nil {
		return fmt.Errorf("%w: set --loop=off (SLUICE_LOOP)", err)
	}
	f.loop, f.stopLoop = loop, task(loop.Run)
	return nil
}

// addToLoop gives a new connection to the loop. Go's own poller has no part in it any more: it would be woken for each
// request too.
func (f *firstByteListener) addToLoop(tcp *net.TCPConn) {
	fd, err := own(tcp)
	if err == nil {
		if err = f.loop.Add(fd); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		f.log.Error("a new connection was closed", "error", err)
	}
}

// own closes tcp and returns another descriptor of its connection. It is the lowest free descriptor, which is the
// former descriptor of tcp. The descriptors of a listener have no gaps, so the next one shows how many are in use; see
// waitForDescriptors.
func own(tcp *net.TCPConn) (fd int, err error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, errors.Join(err, tcp.Close())
	}
	second := -1
	if controlled := raw.Control(func(first uintptr) {
		second, err = unix.FcntlInt(first, unix.F_DUPFD_CLOEXEC, 0)
	}); controlled != nil {
		err = controlled
	}
	_ = tcp.Close() // second keeps the connection
	if err != nil {
		return 0, err
	}
	fd, err = unix.FcntlInt(uintptr(second), unix.F_DUPFD_CLOEXEC, 0)
	_ = unix.Close(second)
	return fd, err
}

// resume passes a connection of the loop to Accept, to be served from the unread bytes on.
func (f *firstByteListener) resume(conn net.Conn, unread []byte) {
	c := &trackedConn{Conn: conn, listener: f, first: unread, since: time.Now()}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		_ = conn.Close()
		return
	}
	f.conns[c] = false
	f.wg.Go(func() { f.offer(c) }) // within the lock: Close has not begun to wait
	f.mu.Unlock()
}

// drainLoop closes idle connections of the loop if it may, and reports whether none is left.
func (f *firstByteListener) drainLoop(closes bool) bool {
	if f.loop == nil {
		return true
	}
	if closes {
		f.loop.Drain(newConnGrace+finalRead, idleGrace+finalRead)
	}
	return f.loop.Open() == 0
}

// closeLoop ends the loop once no connection is added any more.
func (f *firstByteListener) closeLoop() {
	if f.loop != nil {
		<-f.stopped
		_ = f.stopLoop(context.Background()) // running batches have separate time limits
	}
}
