package api

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/api/plain"
	"sluice/api/reply"
	"sluice/internal/access"
)

// reader says who reads plain checks.
type reader int

const (
	byNetHTTP reader = iota
	byServer         // plain.Server, one connection by itself
	byLoop           // plain.Loop
)

// wire is a whole server over connections in memory, or over sockets if a loop reads them. What is no plain check is
// net/http's, as it is in the listener of a node.
type wire struct {
	t       testing.TB
	fixture *fixture
	plain   *plain.Server // nil: net/http reads all
	loop    *plain.Loop   // nil: plain reads
	conns   chan net.Conn
	closed  chan struct{}

	mu     sync.Mutex
	counts map[string]int // checks read by plain, and handovers by reason
}

func newWire(t testing.TB, f *fixture, by reader) *wire {
	t.Helper()
	w := &wire{t: t, fixture: f, conns: make(chan net.Conn), closed: make(chan struct{}), counts: map[string]int{}}
	// The input of a connection ends early, which must not end its requests.
	staying := context.WithoutCancel
	if by != byNetHTTP {
		var err error
		w.plain, err = plain.New(plain.Deps{Check: func(ctx context.Context, call access.Call, client net.Addr, trace, body,
			dst []byte) ([]byte, *reply.Problem) {
			return f.server.Check(staying(ctx), call, client, trace, body, dst)
		}, CheckAll: func(ctx context.Context, asks []plain.Ask) {
			for i := range asks {
				asks[i].Gone = nil
			}
			f.server.CheckAll(ctx, asks)
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
	ctx, stop := context.WithCancel(context.Background())
	var looping sync.WaitGroup
	if by == byLoop {
		var err error
		if w.loop, err = plain.NewLoop(w.plain, plain.LoopDeps{HandOver: func(c net.Conn, unread []byte) {
			w.conns <- &resumed{Conn: c, unread: unread}
		}}); err != nil {
			t.Fatal(err)
		}
		looping.Go(func() { w.loop.Run(ctx) })
	}
	t.Cleanup(func() {
		stop()
		looping.Wait()
		_ = server.Close()
		<-done
	})
	return w
}

// resumed is a connection of which something was read.
type resumed struct {
	net.Conn
	unread []byte
}

func (c *resumed) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// sendOverSocket is send to a loop.
func (w *wire) sendOverSocket(input []byte, packet int) string {
	w.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[1]), "client")
	conn, err := net.FileConn(file)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if err := errors.Join(file.Close(), w.loop.Add(fds[0])); err != nil {
		w.t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for len(input) > 0 {
			n, err := conn.Write(input[:min(len(input), max(packet, 1))])
			if err != nil {
				return // the server has closed the connection
			}
			input = input[n:]
		}
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	answers, _ := io.ReadAll(conn) // the server may reset it
	<-sent
	return string(answers)
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
	if w.loop != nil {
		return w.sendOverSocket(input, packet)
	}
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
