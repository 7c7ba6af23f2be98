package plain

import (
	"context"
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

func (d *dribble) Write(p []byte) (int, error) { return len(p), nil }
func (d *dribble) RemoteAddr() net.Addr        { return &net.TCPAddr{} }
func (d *dribble) Rest()                       {}
func (d *dribble) Left(bool) bool              { return false }

const oneCheck = requestLine + "Host: x\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n0"

func newServer(t *testing.T, draining func() bool) (s *Server, checks *int) {
	t.Helper()
	checks = new(int)
	s, err := New(Deps{Check: func(_ context.Context, _ access.Call, _ net.Addr, _, dst []byte) ([]byte, *reply.Problem) {
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
