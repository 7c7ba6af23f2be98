package app

import (
	"net"
	"sync"
	"time"
)

// patient is a listener that hands on a connection when its first byte arrives.
// Clients open connections ahead of need; net/http would count the time until
// the first request against that request's headers, and cut off after two
// seconds what a client believes to be ready for use. Here such a connection may
// wait as long as one that has been used; from its first byte on net/http's own
// limits hold.
type patient struct {
	net.Listener
	wait time.Duration
	next chan accepted
	done chan struct{} // closed by Close

	mu      sync.Mutex
	waiting map[net.Conn]struct{}
	closed  bool
	wg      sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

// newPatient takes over l. A connection that says nothing for wait is closed.
func newPatient(l net.Listener, wait time.Duration) *patient {
	p := &patient{Listener: l, wait: wait, next: make(chan accepted), done: make(chan struct{}), waiting: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	return p
}

// Accept gives the next connection with something to read.
func (p *patient) Accept() (net.Conn, error) {
	select {
	case a := <-p.next:
		return a.conn, a.err
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and the connections that have said nothing.
func (p *patient) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return net.ErrClosed
	}
	p.closed = true
	close(p.done)
	err := p.Listener.Close()
	for c := range p.waiting {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
	return err
}

// accept passes errors on, so that the server logs them and decides how long to
// pause: handing one over waits for it.
func (p *patient) accept() {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			if !p.hand(accepted{err: err}) {
				return
			}
			continue
		}
		if !p.admit(c) {
			c.Close()
			return
		}
		p.wg.Go(func() { p.await(c) })
	}
}

func (p *patient) admit(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.waiting[c] = struct{}{}
	}
	return !p.closed
}

// await hands c on with its first bytes, or closes it.
func (p *patient) await(c net.Conn) {
	first := make([]byte, firstBytes)
	n, ok := 0, c.SetReadDeadline(time.Now().Add(p.wait)) == nil
	if ok {
		n, _ = c.Read(first) // whatever is wrong besides shows at the next read
	}
	p.mu.Lock()
	delete(p.waiting, c)
	p.mu.Unlock()
	if n == 0 || !p.hand(accepted{conn: &begun{Conn: c, first: first[:n]}}) {
		c.Close()
	}
}

func (p *patient) hand(a accepted) bool {
	select {
	case p.next <- a:
		return true
	case <-p.done:
		return false
	}
}

// firstBytes is how much of the first request is read at once, enough for small
// ones.
const firstBytes = 512

// begun is a connection whose first bytes have been read.
type begun struct {
	net.Conn
	first []byte
}

// Read gives the first bytes first. Like all of net/http's reads it is not
// called concurrently with itself.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	if b.first = b.first[n:]; len(b.first) == 0 {
		b.first = nil // 512 bytes a connection need not stay
	}
	return n, nil
}
