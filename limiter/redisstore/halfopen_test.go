package redisstore_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// swallower is a proxy that can lose its peers without a word: from swallow to
// pass it drops every byte, and connections of before pass stay open and dead.
type swallower struct {
	net.Listener
	target string
	wg     sync.WaitGroup

	mu         sync.Mutex
	swallowing bool
	lost       int // connections before this one are dead
	conns      []net.Conn
}

func newSwallower(t *testing.T, target string) *swallower {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &swallower{Listener: l, target: target}
	p.wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			p.serve(down)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *swallower) serve(down net.Conn) {
	var d net.Dialer
	up, err := d.DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		_ = down.Close()
		return
	}
	p.mu.Lock()
	id := len(p.conns)
	p.conns = append(p.conns, down, up)
	p.mu.Unlock()
	forward := func(to, from net.Conn) {
		b := make([]byte, 16<<10)
		for {
			n, err := from.Read(b)
			p.mu.Lock()
			dead := p.swallowing || id < p.lost
			p.mu.Unlock()
			if err != nil {
				_ = errors.Join(up.Close(), down.Close())
				return
			}
			if !dead {
				_, _ = to.Write(b[:n]) // the next read tells
			}
		}
	}
	p.wg.Go(func() { forward(up, down) })
	p.wg.Go(func() { forward(down, up) })
}

// swallow loses everything until pass.
func (p *swallower) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallowing = true
}

// pass lets the connections that are made from now on live.
func (p *swallower) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallowing, p.lost = false, len(p.conns)
}

// The peer is gone without a word and comes back, while the connections of before
// stay open and dead. Callers are answered in the outage, the breaker closes over
// new connections, and nothing is charged twice.
func TestBreakers_CloseOverNewConnectionsWhenTheOldOnesAreHalfOpen(t *testing.T) {
	p := newSwallower(t, testenv.SharedRedis(t).Addr)
	s := open(t, client(t, "redis://"+p.Addr().String()), redisstore.Options{})
	a := ask(entity(), 1, shop)
	var admitted, unknown int64
	call := func() error {
		_, err := takeWithin(s, a)
		var se *limiter.StoreError
		switch {
		case err == nil:
			admitted++
		case !errors.As(err, &se):
			t.Fatalf("got %v", err)
		case se.Unknown:
			unknown++
		}
		return err
	}
	for range 3 {
		eventually(t, "Redis decides", func() bool { return call() == nil })
		p.swallow()
		// The outage lasts until the test ends it: who is answered did not wait for it.
		eventually(t, "the breaker refuses", func() bool { return limiter.CauseOf(call()) == limiter.CauseBreaker })
		before := s.Breakers()[0].Probes
		eventually(t, "probes are swallowed", func() bool { return s.Breakers()[0].Probes > before+1 })
		p.pass()
		eventually(t, "the breaker closes", func() bool {
			return call() == nil && s.Breakers()[0].State == redisstore.BreakerClosed
		})
	}
	if got := used(t, s, a); got < admitted || got > admitted+unknown {
		t.Errorf("the limit holds %d, admitted %d and perhaps %d", got, admitted, unknown)
	}
	t.Logf("%d admitted, %d without an answer", admitted, unknown)
}
