package plain

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/access"
)

// Deps are the dependencies of a Server. Check, MaxBody, Idle and Write are required.
type Deps struct {
	// Check answers one check, as api.Server.Check does. It keeps no part of traceparent and body.
	Check func(ctx context.Context, call access.Call, client net.Addr, traceparent, body, dst []byte) (out []byte,
		problem *reply.Problem)
	// CheckAll answers checks of several connections together, each as Check would. A Loop requires it.
	CheckAll func(ctx context.Context, asks []Ask)
	// MaxBody is the size of the largest body that Check takes.
	MaxBody int
	// Idle is how long a connection may stay without a request, and Write how long a request may take from its last
	// byte to the end of its response.
	Idle, Write time.Duration
	// Draining reports whether clients are to close their connections. Nil means never.
	Draining func() bool
	// Checked is called for each check that was answered, and HandedOver for each connection that is given to net/http,
	// with one of Reasons. Both may be nil.
	Checked    func()
	HandedOver func(reason string)
	// Panicked is called after a panic; it may be nil.
	Panicked func()
	// Logger receives errors for operators; nil discards them.
	Logger *slog.Logger
}

// Ask is one of several checks that are answered together. Its memory is valid until CheckAll returns.
type Ask struct {
	Call        access.Call
	Client      net.Addr
	Traceparent []byte // that header, nil for none
	Body        []byte
	Gone        *atomic.Bool // true once the client has left
	Late        bool         // it was not read for as long as it may wait for its turn
	// Out has room before the body of the response, which is appended. Problem is what Check returns.
	Out     []byte
	Problem *reply.Problem
}

// Conn is a connection of the listener.
type Conn interface {
	net.Conn
	// Rest says that every request that was read is answered, so that the connection is idle until bytes are read.
	Rest()
	// Left reports whether the client has left: it has reset the connection, or it has closed its side and all its
	// bytes were read. If more is true, some bytes that were read are not answered, and only a reset counts.
	Left(more bool) bool
	// Chains are the verified chains of the client certificate, as in tls.ConnectionState.
	Chains() [][]*x509.Certificate
}

// Server answers plain checks. It is safe for concurrent use. Run must run while connections are served.
type Server struct {
	d    Deps
	outs sync.Pool // of *[]byte, responses
	date atomic.Pointer[date]
	watch
}

// New returns a Server. It fails only if a required dependency is missing.
func New(d Deps) (*Server, error) {
	if d.Check == nil || d.MaxBody == 0 || d.Idle == 0 || d.Write == 0 {
		return nil, errors.New("plain: Check, MaxBody, Idle and Write are required")
	}
	if d.Draining == nil {
		d.Draining = func() bool { return false }
	}
	if d.Checked == nil {
		d.Checked = func() {}
	}
	if d.HandedOver == nil {
		d.HandedOver = func(string) {}
	}
	if d.Panicked == nil {
		d.Panicked = func() {}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{d: d, watch: newWatch(d.Write)}
	s.outs.New = func() any {
		out := make([]byte, headRoom, smallOut)
		return &out
	}
	return s, nil
}

const (
	// patience is how long the rest of a request may take before net/http gets it, whose limits for slow clients apply
	// from then on.
	patience = 100 * time.Millisecond
	// smallBuffer is the size of the buffer of a connection after its first request, and largestKept the largest buffer
	// of an idle connection.
	smallBuffer, largestKept = 2 << 10, 4 << 10
	// smallOut is enough for a response with a few limits. Larger buffers up to largestOut are kept for reuse.
	smallOut, largestOut = 2 << 10, 64 << 10
	// glance is how long a connection is read once more, during a drain, before its last answer, and mostDrained how
	// many bytes of requests are answered before that.
	glance, mostDrained = time.Millisecond, 128 << 10
	// leastRead is what net/http waits for, within the limit of idle connections, before it reads another request on a
	// connection. After a POST it skips line breaks among these bytes.
	leastRead = 4
)

// conn is a connection while plain checks are read from it.
type conn struct {
	Conn
	server  *Server
	buffer  []byte // the memory of in
	in      []byte // has been read and is not answered
	head    head   // of the request with which in begins
	used    bool   // a request was answered
	drained int    // bytes of requests that were answered during a drain
	sender
	// ctx ends when the client leaves. Every request uses it: no request follows after it has ended.
	ctx    context.Context //nolint:containedctx // see above
	cancel context.CancelFunc
	watched
}

// Serve answers the plain checks of a connection until it ends or a request is not plain. first has the bytes that were
// read from it already; Serve uses its memory. If handOver is true, net/http must serve the connection from unread on;
// otherwise the caller closes it.
func (s *Server) Serve(nc Conn, first []byte) (unread []byte, handOver bool) {
	c := &conn{Conn: nc, server: s, buffer: first[:0], in: first}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	defer c.cancel()
	defer c.busy.Store(gone)
	defer func() {
		if v := recover(); v != nil {
			s.recovered(c.RemoteAddr(), v)
			unread, handOver = nil, false
		}
	}()
	for {
		why, err := c.next()
		if err != nil {
			return nil, false
		}
		if why == "" && !c.answer() {
			return nil, false
		}
		if why == "" && c.ctx.Err() != nil {
			why = clientLeft
		}
		if why != "" {
			s.d.HandedOver(why)
			return c.in, true
		}
	}
}

// next reads until c.in begins with a complete plain request, or until that is impossible: why is the reason why
// net/http gets the connection. An error means that the connection ended between requests.
func (c *conn) next() (why string, err error) {
	var late time.Time // when the rest of a request is late
	for waited := false; ; {
		var found finding
		if c.in, found, why = scan(c.in, c.used, &c.head, c.server.d.MaxBody); found >= whole {
			return why, nil
		}
		switch {
		case found == nothing && !waited:
			waited = true
			err = c.SetReadDeadline(time.Now().Add(c.server.d.Idle)) //nolint:forbidigo // deadlines of sockets
		case found == nothing: // a few bytes do not make the connection younger
		case late.IsZero():
			late = time.Now().Add(patience) //nolint:forbidigo // deadlines of sockets
			err = c.SetReadDeadline(late)
		}
		if err == nil {
			err = c.read()
		}
		switch {
		case err == nil:
		case found == nothing:
			return "", err
		case errors.Is(err, os.ErrDeadlineExceeded):
			return slow, nil
		default:
			return cutShort, nil // net/http meets the same error
		}
	}
}

// read reads once. The buffer doubles when it is full, up to the size of the largest plain request. A client has thus
// sent at least half of the memory that is kept for it, whatever length it states for its body.
func (c *conn) read() error {
	if len(c.in) == cap(c.in) {
		if size := cap(c.buffer); len(c.in) == size {
			size = max(smallBuffer, 2*size)
			c.buffer = make([]byte, 0, min(size, maxHead+c.server.d.MaxBody))
		}
		c.in = append(c.buffer, c.in...)
	}
	n, err := c.Read(c.in[len(c.in):cap(c.in)])
	if c.in = c.in[:len(c.in)+n]; n > 0 {
		return nil // the next read returns the same error
	}
	return err
}

// answer answers the request with which c.in begins. It reports false if the connection is to be closed.
func (c *conn) answer() bool {
	s, h := c.server, &c.head
	end := h.size + h.body
	out, _ := s.outs.Get().(*[]byte)
	began := s.begin(c, len(c.in) > end)
	ctx := c.ctx
	if h.timeout > 0 {
		ctx = decide.WithPatience(ctx, h.timeout)
	}
	text, problem := s.d.Check(ctx, c.call(h, c.Chains()), c.RemoteAddr(), h.traceparent, c.in[h.size:end],
		(*out)[:headRoom])
	s.d.Checked()
	closing := c.closing(end)
	_, err := c.Write(s.frame(text, problem, closing))
	inTime := s.end(c, began)
	if cap(text) <= largestOut {
		*out = text
		s.outs.Put(out)
	}
	c.used = true
	c.consume(end)
	return err == nil && inTime && !closing
}

// closing reports whether the answer to the request of that size is the last one of the connection: during a drain, it
// is unless another request has arrived. A client that never stops sending them is not waited for.
func (c *conn) closing(size int) bool {
	if !c.server.d.Draining() {
		return false
	}
	if c.drained += size; c.drained > mostDrained {
		return true
	}
	//nolint:forbidigo // deadlines of sockets
	if len(c.in) == size && c.SetReadDeadline(time.Now().Add(glance)) == nil {
		_ = c.read() // the next read returns the same error
	}
	return len(c.in) < size+leastRead
}

// consume removes an answered request from the buffer. A few bytes after it, such as a line break, are no request: the
// connection is idle.
func (c *conn) consume(n int) {
	if c.in = c.in[n:]; len(c.in) < leastRead {
		c.Rest()
	}
	if len(c.in) > 0 {
		return
	}
	if cap(c.buffer) > largestKept {
		c.buffer = make([]byte, 0, smallBuffer)
	}
	c.in = c.buffer
}

// recovered notes a panic, which ends connections. One of a check is contained by Check itself.
func (s *Server) recovered(client net.Addr, v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // the value that net/http documents
		return
	}
	s.d.Panicked()
	s.d.Logger.Error("panic in a connection of plain checks", "client", client.String(), "panic", fmt.Sprint(v),
		"stack", string(debug.Stack()))
}
