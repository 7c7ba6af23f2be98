package envoy

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"sluice/api/envoy/quota"
)

// loop serves connections whose first call is one of Envoy's or asks for the health of the node. What one read of a
// connection brings is parsed, decided with one call of the store, and answered with one write, without a goroutine for
// a call. grpc-go gets every other connection, with the bytes that were read.
type loop struct {
	server *Server
	others *grpc.Server // serves streams of other methods on connections of the loop
	quotas *grpc.Server // serves the calls of the quota service, whose messages are larger
	passed *passed      // the connections that grpc-go gets
	watch  watch

	mu       sync.Mutex
	listener net.Listener // nil before serve
	conns    map[*h2conn]struct{}
	draining bool
	// running counts the connections and their goroutines. While connections are accepted it is not 0.
	running sync.WaitGroup
}

func newLoop(s *Server) *loop {
	return &loop{server: s, others: s.newGRPC(maxMessage), quotas: s.newGRPC(quota.MaxMessage), passed: newPassed(),
		watch: newWatch(), conns: map[*h2conn]struct{}{}}
}

// Pauses after errors of a listener that are temporary, such as too many open files.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// serve serves connections until drain.
func (p *loop) serve(l net.Listener) error {
	if !p.begin(l) {
		_ = l.Close()
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { p.watch.run(ctx) })
	defer watching.Wait()
	defer stop()
	served := make(chan error, 1)
	p.passed.addr = l.Addr()
	go func() { served <- p.server.grpc().Serve(p.passed) }()
	err := p.accept(l)
	p.running.Done()
	if err != nil {
		return err
	}
	p.running.Wait()
	if err = <-served; errors.Is(err, grpc.ErrServerStopped) {
		err = nil
	}
	return err
}

// begin reports false if drain came first.
func (p *loop) begin(l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return false
	}
	p.listener = l
	p.running.Add(1)
	return true
}

// accept accepts connections. The error is nil after drain.
func (p *loop) accept(l net.Listener) error {
	pause := firstPause
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = firstPause
			p.start(nc)
			continue
		}
		p.mu.Lock()
		draining := p.draining
		p.mu.Unlock()
		var temporary interface{ Temporary() bool }
		switch {
		case draining:
			return nil
		case !errors.As(err, &temporary) || !temporary.Temporary():
			return err
		}
		p.server.deps.Logger.Warn("accepting a connection failed", "error", err)
		timer := time.NewTimer(pause)
		<-timer.C
		pause = min(2*pause, lastPause)
	}
}

// start serves a connection.
func (p *loop) start(nc net.Conn) {
	c := newConn(p, nc)
	p.mu.Lock()
	p.conns[c] = struct{}{}
	draining := p.draining
	p.mu.Unlock()
	c.spawn(func() { c.run(0) })
	if draining {
		c.drain(drainStop)
	}
}

// remove forgets a connection.
func (p *loop) remove(c *h2conn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// all returns the open connections.
func (p *loop) all() []*h2conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := make([]*h2conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	return conns
}

// drain refuses new connections and asks the open ones to move on.
func (p *loop) drain() {
	p.mu.Lock()
	first := !p.draining && p.listener != nil
	p.draining = true
	if first {
		p.running.Add(1) // until all were asked
	}
	p.mu.Unlock()
	if !first {
		return
	}
	defer p.running.Done()
	_ = p.listener.Close()
	for _, c := range p.all() {
		c.drain(drainStop)
	}
}

// wait waits until every connection has ended.
func (p *loop) wait() {
	p.running.Wait()
	p.others.Stop()
	p.quotas.Stop()
}

// abort closes every connection.
func (p *loop) abort() {
	for _, c := range p.all() {
		c.abort()
	}
}

// passed is a listener of connections from which something was read.
type passed struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPassed() *passed { return &passed{conns: make(chan net.Conn), closed: make(chan struct{})} }

// give hands a connection over. It closes the connection if nobody accepts any more.
func (l *passed) give(c net.Conn, unread []byte) {
	select {
	case l.conns <- &unreadConn{Conn: c, unread: unread}:
	case <-l.closed:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (l *passed) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *passed) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *passed) Addr() net.Addr { return l.addr }

// unreadConn is a connection whose next bytes were read already.
type unreadConn struct {
	net.Conn
	unread []byte
}

var _ CertifiedConn = (*unreadConn)(nil)

// Read implements net.Conn.
func (c *unreadConn) Read(b []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.unread)
	if c.unread = c.unread[n:]; len(c.unread) == 0 {
		c.unread = nil
	}
	return n, nil
}

// Chains implements CertifiedConn.
func (c *unreadConn) Chains() [][]*x509.Certificate { return connChains(c.Conn) }

// connChains returns the chains of a connection, nil if it knows none.
func connChains(c net.Conn) [][]*x509.Certificate {
	if c, ok := c.(CertifiedConn); ok {
		return c.Chains()
	}
	return nil
}
