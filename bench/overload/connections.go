package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// manyConns is the number of connections whose memory is measured.
	manyConns = 10_000
	// onceRate is how many of them are used a second, so that few checks are under way at once.
	onceRate = 5000
	// memorySettles is how long a node is idle before its memory is read.
	memorySettles = 10 * time.Second
	// idleMemory is the most that idle connections may add to an idle node, in MiB.
	idleMemory = 20
)

// measureConnections measures the resident memory of a node with many connections over HTTP: used once and idle since,
// then busy, and idle again.
func measureConnections(ctx context.Context, b *bench) error {
	n, err := b.onRedis(ctx, nil, overHTTP.rules...)
	if err != nil {
		return err
	}
	defer n.stop()
	warm := overHTTP.load(n, 8)
	warm.length = 2 * time.Second
	if _, err := warm.run(ctx); err != nil {
		return err
	}
	idle, err := n.settled(ctx)
	if err != nil {
		return err
	}
	once := overHTTP.load(n, manyConns)
	once.rate, once.length, once.inTurn = onceRate, manyConns/onceRate*time.Second, true
	m, _, kept, err := n.residentAfter(ctx, fmt.Sprintf("%d connections, one check each", manyConns), once)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{name: fmt.Sprintf("%d idle connections, HTTP", manyConns), measured: *m,
		note: fmt.Sprintf("one check on each, then %.0f s idle: %.0f MiB more than the %.0f of an idle node",
			memorySettles.Seconds(), kept-idle, idle),
		goals: []goal{
			atLeast("checks", float64(m.answered()), manyConns),
			atMost("unanswered", float64(m.unanswered()), 0),
			atMost("MiB above an idle node", kept-idle, idleMemory),
		}})
	busy := overHTTP.load(n, manyConns)
	busy.length = b.length(busyLength)
	m, peak, kept, err := n.residentAfter(ctx, fmt.Sprintf("%d busy connections", manyConns), busy)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{name: fmt.Sprintf("%d busy connections, HTTP", manyConns), measured: *m,
		note: fmt.Sprintf("%.0f MiB more than an idle node at the peak, %.0f after %.0f s idle", peak-idle, kept-idle,
			memorySettles.Seconds()),
		goals: []goal{
			atLeast("checks", float64(m.answered()), leastChecks),
			atMost("unanswered", float64(m.unanswered()), 0),
			atMost("breaker opened", m.breaker, 0),
		}})
	return nil
}

// residentAfter runs a load and returns the resident memory of the node in MiB: the peak during the load, and the value
// after the connections have been idle for a while.
func (n *node) residentAfter(ctx context.Context, name string, l *load) (m *measured, peak, kept float64, err error) {
	progress(name)
	l.during = func() (func() error, error) {
		ended, most := make(chan struct{}), make(chan float64)
		go func() {
			look := time.NewTicker(50 * time.Millisecond)
			defer look.Stop()
			greatest := n.mebibytes()
			for {
				select {
				case <-look.C:
					greatest = max(greatest, n.mebibytes())
				case <-ended:
					most <- greatest
					return
				}
			}
		}()
		return func() error { // the connections are still open
			close(ended)
			peak = <-most
			var err error
			kept, err = n.settled(ctx)
			return err
		}, nil
	}
	m, err = n.measure(ctx, l)
	return m, peak, kept, err
}

// settled returns the resident memory in MiB after the node was left alone for a while.
func (n *node) settled(ctx context.Context) (float64, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(memorySettles):
		return n.mebibytes(), nil
	}
}

func (n *node) mebibytes() float64 { return float64(n.Resident()) / (1 << 20) }
