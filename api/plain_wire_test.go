package api

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/api/plain"
	"sluice/api/reply"
	"sluice/internal/access"
)

// wire is a whole server over connections in memory. With plain checks it reads them itself, as the listener of a node
// does, and gives other connections to net/http.
type wire struct {
	t       testing.TB
	fixture *fixture
	plain   *plain.Server // nil: net/http reads all
	conns   chan net.Conn
	closed  chan struct{}

	mu     sync.Mutex
	counts map[string]int // checks read by plain, and handovers by reason
}

func newWire(t testing.TB, f *fixture, plainChecks bool) *wire {
	t.Helper()
	w := &wire{t: t, fixture: f, conns: make(chan net.Conn), closed: make(chan struct{}), counts: map[string]int{}}
	// The input of a connection ends early, which must not end its requests.
	staying := context.WithoutCancel
	if plainChecks {
		var err error
		w.plain, err = plain.New(plain.Deps{Check: func(ctx context.Context, call access.Call, client net.Addr, trace, body,
			dst []byte) ([]byte, *reply.Problem) {
			return f.server.Check(staying(ctx), call, client, trace, body, dst)
		}, MaxBody: MaxCheck, Idle: time.Minute, Write: time.Minute, Checked: func() { w.count("plain") },
			HandedOver: w.count, Panicked: f.seen.panicked})
		if err != nil {
			t.Fatal(err)
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		f.echo.ServeHTTP(rw, r.WithContext(staying(r.Context())))
	}), MaxHeaderBytes: 16 << 10, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	done := make(chan error)
	go func() { done <- server.Serve(w) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return w
}

func (w *wire) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// Accept, Close and Addr make it the listener of its http.Server.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	close(w.closed)
	return nil
}

func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 80} }

// send sends the input in packets of a size, and returns all that the server answers until it closes the connection.
func (w *wire) send(input []byte, packet int) string {
	c := &script{in: input, packet: max(packet, 1), closed: make(chan struct{})}
	first := make([]byte, 512)
	n, _ := c.Read(first)
	if n == 0 {
		return ""
	}
	c.first = first[:n]
	if w.plain != nil {
		c.first = nil
		unread, handOver := w.plain.Serve(c, first[:n])
		if !handOver {
			return c.out.String()
		}
		c.first = unread
	}
	w.conns <- c
	<-c.closed
	return c.out.String()
}

// script is a connection whose client sends a text, closes its side, and reads.
type script struct {
	first, in []byte
	packet    int
	out       strings.Builder
	end       sync.Once
	closed    chan struct{}
}

func (c *script) Read(p []byte) (int, error) {
	from := &c.first
	most := len(p)
	if len(c.first) == 0 {
		from, most = &c.in, min(most, c.packet)
	}
	if len(*from) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:most], *from)
	*from = (*from)[n:]
	return n, nil
}

func (c *script) Write(p []byte) (int, error) { return c.out.Write(p) }

func (c *script) Close() error {
	c.end.Do(func() { close(c.closed) })
	return nil
}

func (c *script) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 80} }
func (c *script) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234} }
func (c *script) SetDeadline(time.Time) error      { return nil }
func (c *script) SetReadDeadline(time.Time) error  { return nil }
func (c *script) SetWriteDeadline(time.Time) error { return nil }
func (c *script) Rest()                            {}
func (c *script) Left(bool) bool                   { return false }
func (c *script) Chains() [][]*x509.Certificate    { return nil }

// sorted puts the headers of every response in order and removes their dates.
func sorted(text string) string {
	blocks := strings.Split(text, "\r\n\r\n")
	for i, block := range blocks {
		lines := strings.Split(block, "\r\n")
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "Date: ") })
		if len(lines) > 1 { // the first is the end of a body and a status line
			slices.Sort(lines[1:])
		}
		blocks[i] = strings.Join(lines, "\r\n")
	}
	return strings.Join(blocks, "\r\n\r\n")
}
