package redisstore

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// reloadRest is the pause between two reloads of the view of a cluster. However many calls fail, each node of Sluice
// requests it at most ten times per second.
const reloadRest = 100 * time.Millisecond

// topology is which node of a cluster serves which slot, as far as the client
// knows, and the way to nodes that it does not know yet. It is safe for
// concurrent use.
type topology struct {
	client *redis.ClusterClient

	resting, wanted, closed atomic.Bool
	reloads                 atomic.Int64

	mu    sync.Mutex
	known map[string]*redis.Client // the client's own, by address
	extra map[string]*redis.Client // ours, of nodes that serve no slot yet
}

func newTopology(c *redis.ClusterClient) *topology {
	t := &topology{client: c, known: make(map[string]*redis.Client), extra: make(map[string]*redis.Client)}
	c.OnNewNode(func(node *redis.Client) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.known[node.Options().Addr] = node
	})
	return t
}

// doubt reloads the view after an error that may mean that it is out of date.
func (t *topology) doubt(ctx context.Context, err error) {
	if outdates(err) {
		t.reload(ctx)
	}
}

// reload makes the client read the slot map again, now or when the pause after the
// last reload is over. It does not wait.
func (t *topology) reload(ctx context.Context) {
	t.wanted.Store(true)
	if t.closed.Load() || !t.resting.CompareAndSwap(false, true) {
		return
	}
	t.wanted.Store(false)
	t.reloads.Add(1)
	t.client.ReloadState(ctx)
	time.AfterFunc(reloadRest, func() {
		t.resting.Store(false)
		if t.wanted.Load() {
			t.reload(context.Background())
		}
	})
}

// at returns a client for the node at addr, which another node has named. An
// address without a host means the host of that other node.
func (t *topology) at(addr string, from *redis.Client) *redis.Client {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		if host, _, err := net.SplitHostPort(from.Options().Addr); err == nil {
			addr = net.JoinHostPort(host, port)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.known[addr]; c != nil {
		return c
	}
	c := t.extra[addr]
	if c == nil {
		c = redis.NewClient(t.options(addr))
		t.extra[addr] = c
	}
	return c
}

// options returns the options that the client uses for its nodes.
func (t *topology) options(addr string) *redis.Options {
	o := t.client.Options()
	return &redis.Options{
		Addr: addr, Dialer: o.Dialer, OnConnect: o.OnConnect, TLSConfig: o.TLSConfig, Protocol: o.Protocol,
		Username: o.Username, Password: o.Password,
		CredentialsProvider: o.CredentialsProvider, CredentialsProviderContext: o.CredentialsProviderContext,
		MaxRetries: -1, DialerRetries: o.DialerRetries, DialTimeout: o.DialTimeout,
		ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, ContextTimeoutEnabled: o.ContextTimeoutEnabled,
		PoolSize: o.PoolSize, MaxActiveConns: o.MaxActiveConns, PoolTimeout: o.PoolTimeout,
		ConnMaxIdleTime: o.ConnMaxIdleTime, DisableIdentity: o.DisableIdentity,
		MaintNotificationsConfig: o.MaintNotificationsConfig,
	}
}

// forget drops a client that has been closed.
func (t *topology) forget(node *redis.Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range []map[string]*redis.Client{t.known, t.extra} {
		for addr, c := range of {
			if c == node {
				delete(of, addr)
			}
		}
	}
}

// close ends reloading and closes the connections that are ours.
func (t *topology) close() {
	t.closed.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.extra {
		_ = c.Close() // nothing depends on its error
	}
	clear(t.extra)
}
