package plain

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/api/reply"
	"sluice/internal/access"
)

// dribble is a connection whose client sends pieces.
type dribble struct {
	net.Conn  // nil
	pieces    []string
	deadlines []int // the number of pieces that were left when each was set
	left, cut bool  // the client left; a write was cut off
	chains    [][]*x509.Certificate
}

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.pieces[0])
	if d.pieces[0] = d.pieces[0][n:]; d.pieces[0] == "" {
		d.pieces = d.pieces[1:]
	}
	return n, nil
}

func (d *dribble) SetReadDeadline(time.Time) error {
	d.deadlines = append(d.deadlines, len(d.pieces))
	return nil
}

func (d *dribble) Write(p []byte) (int, error)   { return len(p), nil }
func (d *dribble) RemoteAddr() net.Addr          { return &net.TCPAddr{} }
func (d *dribble) Rest()                         {}
func (d *dribble) Left(bool) bool                { return d.left }
func (d *dribble) Chains() [][]*x509.Certificate { return d.chains }

func (d *dribble) SetWriteDeadline(time.Time) error {
	d.cut = true
	return nil
}

const oneCheck = requestLine + "Host: x\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n0"

func newServer(t *testing.T, draining func() bool) (s *Server, checks *int) {
	t.Helper()
	checks = new(int)
	s, err := New(Deps{Check: func(_ context.Context, _ access.Call, _ net.Addr, _, _, dst []byte) ([]byte,
		*reply.Problem) {
		return dst, nil
	}, MaxBody: 1, Idle: time.Minute, Write: time.Minute, Draining: draining, Checked: func() { *checks++ }})
	if err != nil {
		t.Fatal(err)
	}
	return s, checks
}

// The limit of idle connections begins with the response. A client that sends a line break now and then does not move
// it.
func TestServe_AFewBytesDoNotMoveTheIdleLimit(t *testing.T) {
	s, _ := newServer(t, nil)
	c := &dribble{pieces: []string{"\r", "\n", "\r"}}
	if _, handOver := s.Serve(c, []byte(oneCheck)); handOver {
		t.Error("it is handed over")
	}
	if len(c.deadlines) != 1 || c.deadlines[0] != 3 {
		t.Errorf("deadlines are set with %v pieces left, want one before all 3", c.deadlines)
	}
}

// A drain answers requests that have arrived, but does not wait for a client that never stops sending them.
func TestServe_ADrainEndsAnEndlessPipeline(t *testing.T) {
	s, checks := newServer(t, func() bool { return true })
	most := mostDrained/len(oneCheck) + 1
	c := &dribble{pieces: []string{strings.Repeat(oneCheck, most+100)}}
	if _, handOver := s.Serve(c, []byte(oneCheck)); handOver {
		t.Error("it is handed over")
	}
	if *checks != most {
		t.Errorf("%d checks are answered, want %d", *checks, most)
	}
}

// A request is looked at from its second tick on, and idle connections are not looked at.
func TestWatch_LooksAtConnectionsInUse(t *testing.T) {
	s, _ := newServer(t, nil)
	now := time.Unix(0, 0)
	look := func(times int) (any bool) {
		for range times {
			now = now.Add(watchTick)
			any = s.look(now)
		}
		return any
	}
	var conns []*conn
	for range 3 {
		d := &dribble{left: true}
		c := &conn{Conn: d, server: s}
		c.ctx, c.cancel = context.WithCancel(t.Context())
		conns = append(conns, c)
	}
	used, second, over := conns[0], conns[1], conns[2]
	busy := s.begin(used, false)
	if look(1); used.ctx.Err() != nil {
		t.Error("a request is looked at within its first tick")
	}
	if look(1); used.ctx.Err() == nil {
		t.Error("a request is not looked at in its second tick")
	}
	s.end(used, busy)
	s.end(over, s.begin(over, false))
	over.busy.Store(gone)
	if look(1); len(s.conns) != 1 {
		t.Errorf("%d connections are looked at, want 1", len(s.conns))
	}
	if look(quietTicks) {
		t.Error("idle connections are looked at")
	}
	s.begin(second, false)
	if !look(2) || second.ctx.Err() == nil || len(s.conns) != 1 {
		t.Error("a request after a pause is not looked at")
	}
	for range 3 {
		s.end(used, s.begin(used, false))
		if look(quietTicks); len(s.conns) != 1 {
			t.Errorf("%d connections are looked at, want 1", len(s.conns))
		}
	}
}

// The limit of a write is one of time, however long a look takes.
func TestWatch_CutsOffAWriteAfterItsLimit(t *testing.T) {
	s, _ := newServer(t, nil)
	d := &dribble{}
	c := &conn{Conn: d, server: s}
	c.ctx, c.cancel = context.WithCancel(t.Context())
	busy := s.begin(c, false)
	now := time.Unix(0, 0)
	for _, step := range []struct {
		after time.Duration
		cut   bool
	}{{0, false}, {time.Minute, false}, {time.Second, true}} {
		now = now.Add(step.after)
		if s.look(now); d.cut != step.cut {
			t.Errorf("after %v: cut off %v, want %v", step.after, d.cut, step.cut)
		}
	}
	if s.end(c, busy) {
		t.Error("the request ended in time")
	}
}

// A connection that is busy whenever it is looked at has a limit for each of its requests.
func TestWatch_TheLimitBeginsWithEachRequest(t *testing.T) {
	s, _ := newServer(t, nil)
	d := &dribble{}
	c := &conn{Conn: d, server: s}
	c.ctx, c.cancel = context.WithCancel(t.Context())
	now := time.Unix(0, 0)
	for range 5 {
		busy := s.begin(c, false)
		s.look(now)
		now = now.Add(time.Minute)
		s.look(now)
		if !s.end(c, busy) || d.cut {
			t.Fatalf("a request is cut off after %v", now.Sub(time.Unix(0, 0)))
		}
	}
}

// A buffer grows with what a client has sent, not with what it announces.
func TestServe_KeepsNoMoreThanTwiceWhatWasSent(t *testing.T) {
	for _, sent := range []int{512, 2 << 10, 4 << 10, 20 << 10, 60 << 10} {
		s, err := New(Deps{Check: func(_ context.Context, _ access.Call, _ net.Addr, _, _, dst []byte) ([]byte,
			*reply.Problem) {
			return dst, nil
		}, MaxBody: 64 << 10, Idle: time.Minute, Write: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		head := requestLine + "Host: x\r\nContent-Type: application/json\r\nContent-Length: 65536\r\n\r\n"
		text := head + strings.Repeat("x", sent-len(head))
		first := make([]byte, 512)
		c := &dribble{pieces: []string{text[copy(first, text):]}}
		unread, handOver := s.Serve(c, first)
		if !handOver || string(unread) != text || cap(unread) > max(2*sent, 2<<10) {
			t.Errorf("%d bytes sent: handed over %v with %d of %d bytes", sent, handOver, len(unread), cap(unread))
		}
	}
}
