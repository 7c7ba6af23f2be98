package app

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// halfClosed returns the only connection of the node, and waits until its client has closed its side.
func (p *plainNode) halfClosed(t *testing.T) (c *trackedConn) {
	t.Helper()
	p.listener.mu.Lock()
	for c = range p.listener.conns {
	}
	p.listener.mu.Unlock()
	conn := c.Conn
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client has closed its side", func() (closed bool) {
		_ = raw.Control(func(fd uintptr) {
			events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
			n, err := unix.Poll(events, 0)
			closed = err == nil && n == 1
		})
		return closed
	})
	return c
}

// A client that closed its side waits for answers to what was read but not answered, and over TCP to what is unread.
func TestLeft_AHalfClosedClientWaitsForItsAnswers(t *testing.T) {
	s := newSecured(t)
	for _, tt := range []struct {
		name   string
		secure *tls.Config
		later  string // is sent while the check is decided, and not read
		left   bool
	}{
		{"TCP", nil, "", true}, {"TCP with more", nil, plainCheck("quick"), false}, {"TLS", s.server, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := startPlain(t, way{secure: tt.secure}, time.Minute)
			c := connect(t, p.addr, "")
			tcp := c.(*net.TCPConn)
			if tt.secure != nil {
				conf := s.authority.Client(t, "")
				conf.ServerName = "localhost"
				c = tls.Client(c, conf)
			}
			say(t, c, plainCheck("slow")+plainCheck("quick"))
			<-p.checks
			say(t, c, tt.later)
			if err := tcp.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			conn := p.halfClosed(t)
			if conn.Left(true) {
				t.Error("left, although something that was read is not answered")
			}
			if got := conn.Left(false); got != tt.left {
				t.Errorf("left %v with nothing to answer, want %v", got, tt.left)
			}
			p.finish <- "slow"
		})
	}
}

// The grace time of a drain begins with the response, and is shorter than that of a new connection.
func TestTrackedConn_RestsFromItsResponseOn(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	c := &trackedConn{Conn: server, grace: newConnGrace, since: time.Now().Add(-time.Hour)}
	before := time.Now()
	c.Rest()
	if c.expireIdle(before.Add(idleGrace - 1)); c.expired {
		t.Error("it has no grace time")
	}
	if c.expireIdle(time.Now().Add(idleGrace)); !c.expired {
		t.Error("it stays longer than its grace time")
	}
}
