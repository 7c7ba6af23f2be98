package main

import (
	"context"
	"fmt"
	"time"
)

const (
	busyLength = 10 * time.Second
	// openSockets bounds the connections, or the calls in flight, of an open loop.
	openSockets = 4096
	// callersWait is how long callers wait for an answer before they decide without the node.
	callersWait = 100 * time.Millisecond
	// ofCapacity is the part of the capacity that a node must still decide.
	ofCapacity = 0.9
	// byModes is the largest part of the answers that fail modes may decide under load.
	byModes = 0.001
)

// measureCapacity is the part that measures the capacity alone.
func measureCapacity(ctx context.Context, b *bench) error {
	for _, f := range faces {
		if _, err := b.capacities.of(ctx, b, f); err != nil {
			return err
		}
	}
	return nil
}

// measureBusy is a closed loop of more callers than a node can serve within the store timeout.
func measureBusy(ctx context.Context, b *bench) error {
	for _, c := range []struct {
		face       face
		callers    int
		overloaded float64 // the largest part of the answers
	}{{overHTTP, 1000, 0}, {overHTTP, 2000, 0.01}, {overHTTP, 8000, 1}, {overGRPC, 1024, 0}, {overGRPC, 2048, 0.01},
		{overGRPC, 8192, 1}} {
		name := fmt.Sprintf("%d busy callers, %s", c.callers, c.face.name)
		err := b.beyond(ctx, name, c.face, func(n *node, _ int) *load {
			return c.face.load(n, c.callers)
		}, func(m *measured) []goal {
			return []goal{atMost("overloaded %", 100*m.share(overloaded), 100*c.overloaded),
				atMost("breaker opened", m.breaker, 0)}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// measureOpen is an open loop at twice the capacity.
func measureOpen(ctx context.Context, b *bench) error {
	for _, f := range faces {
		name := "open loop at twice the capacity, " + f.name
		err := b.beyond(ctx, name, f, func(n *node, capacity int) *load {
			l := f.load(n, openSockets)
			l.rate = 2 * capacity
			return l
		}, func(m *measured) []goal {
			return []goal{atMost("99 % of the answers ms", milliseconds(quantile(m.took, 0.99)),
				milliseconds(callersWait))}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// measured contains the counts of a load and of the node.
type measured struct {
	*tally
	counters
}

// beyond measures a load beyond the capacity, and adds its row.
func (b *bench) beyond(ctx context.Context, name string, f face, loadOf func(n *node, capacity int) *load,
	goals func(*measured) []goal) error {
	capacity, err := b.capacities.of(ctx, b, f)
	if err != nil {
		return err
	}
	progress(name)
	n, err := b.onRedis(ctx, nil, f.rules...)
	if err != nil {
		return err
	}
	defer n.stop()
	l := loadOf(n, capacity)
	l.length = b.length(busyLength)
	m, err := n.measure(ctx, l)
	if err != nil {
		return err
	}
	r := row{name: name, measured: *m, capacity: capacity}
	r.goals = append([]goal{
		atLeast("checks", float64(m.answered()), leastChecks),
		atMost("unanswered", float64(m.unanswered()), 0),
		atMost("fail modes %", 100*m.share(byFailMode), 100*byModes),
		atLeast("decided/s of the capacity", m.rate()/float64(capacity), ofCapacity),
	}, goals(m)...)
	b.rows = append(b.rows, r)
	return nil
}

// measure runs a load on a node and returns the increase of the counters of the node during the load.
func (n *node) measure(ctx context.Context, l *load) (*measured, error) {
	before, err := n.counters(ctx)
	if err != nil {
		return nil, err
	}
	m := &measured{}
	if m.tally, err = l.run(ctx); err != nil {
		return nil, err
	}
	after, err := n.counters(ctx)
	m.counters = counters{breaker: after.breaker - before.breaker, overloaded: after.overloaded - before.overloaded,
		starved: after.starved - before.starved}
	return m, err
}
