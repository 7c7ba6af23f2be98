package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// proxy stands between a node and Redis. While it swallows, it drops what arrives without a word, and accepts
// connections that lead nowhere. Connections of that time stay dead, as after a lost route.
type proxy struct {
	redis     string
	listener  net.Listener
	wg        sync.WaitGroup
	mu        sync.Mutex
	swallows  bool
	conns     map[*link]bool
	goingDown bool
}

// link is one connection through the proxy.
type link struct {
	client net.Conn
	server net.Conn // nil for a connection that leads nowhere
	dead   atomic.Bool
}

func startProxy(ctx context.Context, redis string) (*proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{redis: redis, listener: l, conns: map[*link]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			p.accept(ctx, c)
		}
	})
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept(ctx context.Context, c net.Conn) {
	k := &link{client: c}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.goingDown {
		c.Close()
		return
	}
	k.dead.Store(p.swallows)
	if !p.swallows {
		s, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.redis)
		if err != nil {
			c.Close()
			return
		}
		k.server = s
		p.wg.Go(func() { k.copy(c, s) })
	}
	p.conns[k] = true
	p.wg.Go(func() {
		k.copy(k.server, c)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, k)
	})
}

// copy passes on what arrives until one side ends. It drops everything from the instant at which the link is dead.
func (k *link) copy(to, from net.Conn) {
	defer k.close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if k.dead.Load() {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (k *link) close() {
	k.client.Close()
	if k.server != nil {
		k.server.Close()
	}
}

// swallow begins or ends the time in which nothing gets through.
func (p *proxy) swallow(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallows = on
	if on {
		for k := range p.conns {
			k.dead.Store(true)
		}
	}
}

// stop ends the proxy and its connections.
func (p *proxy) stop() {
	p.listener.Close()
	p.mu.Lock()
	p.goingDown = true
	for k := range p.conns {
		k.close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
