package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	clusterPrimaries = 3
	clusterNodes     = 2 * clusterPrimaries
	clusterSlots     = 16384

	// The node timeout (ms), after which the cluster considers a silent node dead. It must be
	// long enough for a slow node on a busy machine.
	quickTimeout   = "2000"
	patientTimeout = "15000"
)

// RedisCluster is a private Redis cluster: three primaries, each with one replica. A node is a
// RedisServer, which can be killed, frozen and restarted. A killed node restarts at the same
// address with the same role.
type RedisCluster struct {
	// Nodes holds the primaries, in order of their slots, then the replicas
	// in the order of their primaries. Roles stay as they are until
	// AllowFailover.
	Nodes []*RedisServer

	tb testing.TB
}

// Cluster starts a cluster for this test and returns when every node reports it healthy and every
// replica follows its primary. No replica takes over before AllowFailover, even if a primary does
// not answer for a long time on a busy machine. The other primaries keep serving while one is
// dead (cluster-require-full-coverage no).
func Cluster(t testing.TB) *RedisCluster {
	t.Helper()
	c, err := newCluster()
	c.tb = t
	for _, n := range c.Nodes {
		if n != nil {
			n.ownedBy(t)
		}
	}
	if err != nil {
		t.Fatalf("redis cluster: %v", err)
	}
	return c
}

var sharedCluster = sync.OnceValues(func() (*RedisCluster, error) {
	c, err := newCluster()
	atExit(func() {
		for _, n := range c.Nodes {
			if n != nil {
				_ = n.close()
			}
		}
	})
	return c, err
})

// SharedCluster returns the test binary's common cluster, started on first use and stopped by Main: a cluster takes
// seconds to agree on its state. Nothing empties it between tests. Each test uses separate keys, and must not stop or
// freeze a node or let a replica take over.
func SharedCluster(t testing.TB) *RedisCluster {
	t.Helper()
	c, err := sharedCluster()
	if err != nil {
		t.Fatalf("redis cluster: %v", err)
	}
	return &RedisCluster{Nodes: c.Nodes, tb: t}
}

// newCluster starts the nodes and makes them one cluster. After an error some nodes may be nil, and
// the others run.
func newCluster() (*RedisCluster, error) {
	c := &RedisCluster{Nodes: make([]*RedisServer, clusterNodes)}
	errs := make([]error, clusterNodes)
	var wg sync.WaitGroup
	for i := range clusterNodes {
		wg.Go(func() {
			c.Nodes[i], errs[i] = newRedis([]string{
				"--cluster-enabled", "yes",
				"--cluster-node-timeout", quickTimeout, // a shorter one causes more messages
				"--cluster-replica-no-failover", "yes",
				"--cluster-require-full-coverage", "no",
				"--cluster-replica-validity-factor", "0",
				"--cluster-allow-replica-migration", "no",
				"--repl-ping-replica-period", "1",
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := c.join(ctx); err != nil {
		return c, err
	}
	return c, c.configure(ctx, "cluster-node-timeout", patientTimeout)
}

// AllowFailover lets a replica take over from a primary that has been silent for
// about two seconds. A test calls it once, right before it kills a primary.
func (c *RedisCluster) AllowFailover() {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := errors.Join(c.configure(ctx, "cluster-node-timeout", quickTimeout),
		c.configure(ctx, "cluster-replica-no-failover", "no")); err != nil {
		c.tb.Fatalf("redis cluster: %v", err)
	}
}

// configure changes an option of every node, for its restart too.
func (c *RedisCluster) configure(ctx context.Context, option, value string) error {
	for _, n := range c.Nodes {
		if _, err := command(ctx, n.Addr, "CONFIG", "SET", option, value); err != nil {
			return err
		}
		n.mu.Lock()
		n.args = append(n.args, "--"+option, value)
		n.mu.Unlock()
	}
	return nil
}

// Addrs returns the addresses of all nodes, primaries first.
func (c *RedisCluster) Addrs() []string {
	addrs := make([]string, 0, len(c.Nodes))
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// URL returns the nodes as one address, redis://host:port,host:port and so on.
func (c *RedisCluster) URL() string { return "redis://" + strings.Join(c.Addrs(), ",") }

// PrimaryOf returns the node that was given this slot (0 to 16383) at the
// start; after a failover its replica serves the slot.
func (c *RedisCluster) PrimaryOf(slot int) *RedisServer {
	for i := range clusterPrimaries {
		if first, last := slotRange(i); first <= slot && slot <= last {
			return c.Nodes[i]
		}
	}
	c.tb.Helper()
	c.tb.Fatalf("slot %d is not between 0 and %d", slot, clusterSlots-1)
	return nil
}

// ReplicaOf returns the node that followed this primary at the start.
func (c *RedisCluster) ReplicaOf(primary *RedisServer) *RedisServer {
	i := slices.Index(c.Nodes[:clusterPrimaries], primary)
	if i < 0 {
		c.tb.Helper()
		c.tb.Fatalf("%s was not a primary of this cluster", primary.Addr)
		return nil
	}
	return c.Nodes[clusterPrimaries+i]
}

// WaitHealthy returns when every running node sees every slot served by a
// running node and every running replica is in step with its primary, as after
// a failover or a restart; it fails the test after a minute.
func (c *RedisCluster) WaitHealthy() {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := c.healthy(ctx); err != nil {
		c.tb.Fatalf("redis cluster: %v", err)
	}
}

// healthy waits for what WaitHealthy promises.
func (c *RedisCluster) healthy(ctx context.Context) error {
	running := make(map[string]bool)
	for _, n := range c.Nodes {
		running[n.Addr] = n.running()
	}
	for _, n := range c.Nodes {
		if !running[n.Addr] {
			continue
		}
		err := poll(ctx, nil, func(ctx context.Context) error {
			return errors.Join(allSlotsServed(ctx, n.Addr), ownersRun(ctx, n.Addr, running), inStep(ctx, n.Addr))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// slotRange returns the first and last slot of primary i.
func slotRange(i int) (first, last int) {
	return i * clusterSlots / clusterPrimaries, (i+1)*clusterSlots/clusterPrimaries - 1
}

// join makes one cluster of the empty nodes.
func (c *RedisCluster) join(ctx context.Context) error {
	ids := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		// With distinct epochs the nodes need no collision protocol.
		if _, err := command(ctx, n.Addr, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		id, err := command(ctx, n.Addr, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids[i] = id
	}
	for i, n := range c.Nodes[:clusterPrimaries] {
		first, last := slotRange(i)
		if _, err := command(ctx, n.Addr, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
			return err
		}
	}
	var err error
	for ctx.Err() == nil {
		if err = c.introduce(ctx, ids); err == nil {
			return c.healthy(ctx)
		}
	}
	return err
}

// introduceFor is how long nodes have to find each other before they are introduced again, because
// introductions can be lost on a busy machine.
const introduceFor = 5 * time.Second

// introduce introduces nodes that do not know each other yet, and makes the replicas follow their
// primaries.
func (c *RedisCluster) introduce(ctx context.Context, ids []string) error {
	for _, from := range c.Nodes {
		known, err := c.known(ctx, from.Addr)
		if err != nil {
			return err
		}
		for i, to := range c.Nodes {
			if _, ok := known[ids[i]]; ok {
				continue
			}
			if _, err := command(ctx, from.Addr, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(to.port),
				strconv.Itoa(to.busPort)); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, introduceFor)
	defer cancel()
	for i, n := range c.Nodes[clusterPrimaries:] {
		follow := func(ctx context.Context) error {
			known, err := c.known(ctx, n.Addr)
			if err != nil || known[ids[clusterPrimaries+i]] == ids[i] {
				return err
			}
			_, err = command(ctx, n.Addr, "CLUSTER", "REPLICATE", ids[i])
			return err // unknown node, until the introduction went round
		}
		if err := poll(ctx, nil, follow); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := poll(ctx, nil, func(ctx context.Context) error { return c.knowsRoles(ctx, n.Addr, ids) }); err != nil {
			return err
		}
	}
	return nil
}

// allSlotsServed returns nil when the node calls the cluster healthy.
func allSlotsServed(ctx context.Context, addr string) error {
	info, err := command(ctx, addr, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	for name, want := range map[string]string{"cluster_state": "ok", "cluster_slots_ok": strconv.Itoa(clusterSlots)} {
		if got := infoField(info, name); got != want {
			return fmt.Errorf("%s of %s is %q, want %q", name, addr, got, want)
		}
	}
	return nil
}

// knowsRoles returns nil when the node knows every other and sees every replica
// behind its primary.
func (c *RedisCluster) knowsRoles(ctx context.Context, addr string, ids []string) error {
	known, err := c.known(ctx, addr)
	if err != nil {
		return err
	}
	for i, id := range ids {
		want := "-" // a primary
		if i >= clusterPrimaries {
			want = ids[i-clusterPrimaries]
		}
		if got := known[id]; got != want {
			return fmt.Errorf("%s sees node %d follow %q, want %q", addr, i, got, want)
		}
	}
	return nil
}

// known returns the nodes that a node knows, by id, and whom each follows: the id
// of its primary or "-".
func (*RedisCluster) known(ctx context.Context, addr string) (map[string]string, error) {
	table, err := command(ctx, addr, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	follows := make(map[string]string)
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 3 && !strings.Contains(f[2], "handshake") {
			follows[f[0]] = f[3]
		}
	}
	return follows, nil
}

// ownersRun returns nil if, according to the node, every slot is served by a running node. Until
// the node timeout a node considers a dead primary healthy, so its own report is not sufficient.
func ownersRun(ctx context.Context, addr string, running map[string]bool) error {
	table, err := command(ctx, addr, "CLUSTER", "NODES")
	if err != nil {
		return err
	}
	for line := range strings.Lines(table) {
		const slots = 8 // fields before the slots: id, address, flags, primary, ...
		f := strings.Fields(line)
		if len(f) <= slots {
			continue
		}
		owner, _, _ := strings.Cut(f[1], "@")
		if !running[owner] {
			return fmt.Errorf("%s sees slots %v with %s, which does not run", addr, f[slots:], owner)
		}
	}
	return nil
}

// inStep returns nil for a primary, and for a replica whose link is up.
func inStep(ctx context.Context, addr string) error {
	info, err := command(ctx, addr, "INFO", "replication")
	if err != nil {
		return err
	}
	if got := infoField(info, "master_link_status"); infoField(info, "role") == "slave" && got != "up" {
		return fmt.Errorf("link of replica %s is %q", addr, got)
	}
	return nil
}
