package database

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"sluice/rules"
)

// gate is a TCP proxy that can stop carrying bytes, as a dead network does: no
// reset, no end, nothing.
type gate struct {
	ln   net.Listener
	to   string
	wg   sync.WaitGroup
	mu   sync.Mutex
	open chan struct{} // closed while bytes may pass
	ends []net.Conn
}

// newGate starts an open gate before the server of a DSN; the returned DSN goes
// through it.
func newGate(t *testing.T, dsn string) (*gate, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{ln: ln, to: u.Host, open: make(chan struct{})}
	close(g.open)
	g.wg.Go(g.accept)
	u.Host = ln.Addr().String()
	t.Cleanup(g.end)
	return g, u.String()
}

func (g *gate) accept() {
	for {
		client, err := g.ln.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", g.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		g.mu.Lock()
		g.ends = append(g.ends, client, server)
		g.mu.Unlock()
		g.wg.Go(func() { g.carry(server, client) })
		g.wg.Go(func() { g.carry(client, server) })
	}
}

func (g *gate) carry(dst, src net.Conn) {
	defer func() { _ = dst.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		<-open
		if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
			if err != nil && !errors.Is(err, io.EOF) {
				_ = src.Close()
			}
			return
		}
	}
}

// shut lets nothing pass any more.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// reopen lets everything pass again.
func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.open)
}

func (g *gate) end() {
	_ = g.ln.Close()
	g.mu.Lock()
	for _, c := range g.ends {
		_ = c.Close()
	}
	g.mu.Unlock()
	g.wg.Wait()
}

func TestNetworkDies_IsUnavailableAndComesBackByItself(t *testing.T) {
	t.Parallel() // it waits for deadlines most of the time
	g, dsn := newGate(t, backends[0].dsn(t))
	d := openFor(t, dsn, 0)
	a := mustCreate(t, d, sample("a"))
	fn, called := calls()
	if err := d.Listen(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	await(t, "the listener", called)
	g.shut()
	if _, err := d.UpdateRule(context.Background(), ada, a, 1); !errors.Is(err, rules.ErrUnavailable) {
		t.Errorf("write: got %v", err)
	}
	if _, err := d.Versions(context.Background()); !errors.Is(err, rules.ErrUnavailable) {
		t.Errorf("poll: got %v", err)
	}
	g.reopen()
	a.Limit++
	if _, err := d.UpdateRule(context.Background(), ada, a, 0); err != nil {
		t.Errorf("after: got %v", err)
	}
	await(t, "the listener after it", called)
}

func TestMigrate_DoesNotWaitForANetworkThatDied(t *testing.T) {
	t.Parallel() // it waits for a deadline most of the time
	g, dsn := newGate(t, backends[0].dsn(t))
	d := openFor(t, dsn, 0)
	mustCreate(t, d, sample("a")) // over a connection that is used again
	g.shut()
	defer g.reopen()
	if err := d.Migrate(context.Background()); !errors.Is(err, rules.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
