package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice/limiter/redisstore"
)

// fault breaks something and repairs it. It returns a description.
type fault struct {
	name string
	do   func(*breaker, context.Context) (string, error)
}

// breaker is the environment of a fault.
type breaker struct {
	f    *fleet
	book *ledger
	rand *rand.Rand
}

// allFaults lists every fault.
func allFaults() []fault {
	return []fault{
		{"redis-kill", (*breaker).redisKill},
		{"redis-freeze", (*breaker).redisFreeze},
		{"redis-pause", (*breaker).redisPause},
		{"redis-flush", (*breaker).redisFlush},
		{"redis-script-flush", (*breaker).scriptFlush},
		{"redis-client-kill", (*breaker).clientKill},
		{"node-kill", (*breaker).nodeKill},
		{"node-restart", (*breaker).nodeRestart},
		{"postgres-restart", (*breaker).postgresRestart},
		{"rule-edit", (*breaker).ruleEdit},
	}
}

func faultNames() []string {
	var names []string
	for _, f := range allFaults() {
		names = append(names, f.name)
	}
	return names
}

// pickFaults returns the faults of a comma-separated list, all of them for an empty one.
func pickFaults(only string) ([]fault, error) {
	if only == "" {
		return allFaults(), nil
	}
	var out []fault
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(faultNames(), strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("-faults: %q is none of %s", name, strings.Join(faultNames(), ", "))
		}
		out = append(out, allFaults()[i])
	}
	return out, nil
}

// breakThings causes faults at intervals until ctx ends. Every fault occurs once before any
// occurs again.
func breakThings(ctx context.Context, s *settings, f *fleet, book *ledger, faults []fault) []*phase {
	b := &breaker{f: f, book: book,
		rand: rand.New(rand.NewPCG(s.seed, 1<<32))} //nolint:gosec // an order that can be repeated, no secret
	first := book.phase
	phases := []*phase{first}
	end, _ := ctx.Deadline()
	var bag []fault
	for {
		wait(ctx, s.every)
		if ctx.Err() != nil || time.Until(end) < s.every/2 {
			wait(ctx, time.Until(end))
			return phases
		}
		if len(bag) == 0 {
			bag = slices.Clone(faults)
			b.rand.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		next := bag[0]
		bag = bag[1:]
		p := book.turn(next.name)
		phases = append(phases, p)
		what, err := next.do(b, context.WithoutCancel(ctx))
		err = errors.Join(err, f.died())
		book.mu.Lock()
		p.what, p.err, p.healed = what, err, time.Now()
		book.mu.Unlock()
		for _, n := range f.nodes {
			n.metrics.read(ctx, n.addr)
		}
		if err != nil {
			return phases // further faults would only be consequences
		}
	}
}

// redisKill empties Redis by killing it. Writes are paused between the audit and the kill, so that
// the loss is known exactly.
func (b *breaker) redisKill(ctx context.Context) (string, error) {
	d, err := b.f.audit(ctx, thenKill)
	if err != nil {
		return "", err
	}
	b.book.found(d, false)
	away := 1500*time.Millisecond + time.Duration(b.rand.IntN(1500))*time.Millisecond
	wait(ctx, away)
	return fmt.Sprintf("kill −9, away for %.1f s, back empty: %d units lost", away.Seconds(), d.sum()),
		b.f.redis.start(ctx)
}

func (d *deposit) sum() (n int64) {
	for _, units := range d.spent {
		n += units
	}
	return n
}

// redisFreeze pauses the process without closing connections. It applies requests after it
// resumes, long after their callers have left.
func (b *breaker) redisFreeze(ctx context.Context) (string, error) {
	b.f.redis.signal(syscall.SIGSTOP)
	still := time.Second + time.Duration(b.rand.IntN(2000))*time.Millisecond
	wait(ctx, still)
	b.f.redis.signal(syscall.SIGCONT)
	return fmt.Sprintf("SIGSTOP for %.1f s", still.Seconds()), nil
}

// command runs one command on Redis.
func (b *breaker) command(ctx context.Context, args ...any) error {
	client, err := redisstore.NewClient(b.f.redis.url(), redisstore.ClientOptions{DialTimeout: 2 * time.Second,
		Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	return errors.Join(client.Do(ctx, args...).Err(), client.Close())
}

// redisPause pauses all clients, but not the process.
func (b *breaker) redisPause(ctx context.Context) (string, error) {
	ms := 200 + b.rand.IntN(600)
	err := b.command(ctx, "CLIENT", "PAUSE", fmt.Sprint(ms), "ALL")
	wait(ctx, time.Duration(ms)*time.Millisecond)
	return fmt.Sprintf("CLIENT PAUSE for %d ms", ms), err
}

// redisFlush empties Redis in one instant.
func (b *breaker) redisFlush(ctx context.Context) (string, error) {
	d, err := b.f.audit(ctx, thenFlush)
	if err != nil {
		return "", err
	}
	b.book.found(d, false)
	return fmt.Sprintf("FLUSHALL: %d units lost", d.sum()), nil
}

// scriptFlush makes Redis forget the script, again and again.
func (b *breaker) scriptFlush(ctx context.Context) (string, error) {
	var errs []error
	for range 40 {
		errs = append(errs, b.command(ctx, "SCRIPT", "FLUSH"))
		wait(ctx, 50*time.Millisecond)
	}
	return "SCRIPT FLUSH every 50 ms for 2 s", errors.Join(errs...)
}

// clientKill cuts every connection, some of them between a charge and its reply.
func (b *breaker) clientKill(ctx context.Context) (string, error) {
	var errs []error
	for range 20 {
		errs = append(errs, b.command(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
		wait(ctx, 50*time.Millisecond)
	}
	return "CLIENT KILL every 50 ms for 1 s", errors.Join(errs...)
}

func (b *breaker) anyNode() *node { return b.f.nodes[b.rand.IntN(len(b.f.nodes))] }

func (b *breaker) nodeKill(ctx context.Context) (string, error) {
	n := b.anyNode()
	n.kill(ctx)
	wait(ctx, time.Second)
	return n.name + " kill −9, started again after 1 s", n.start(ctx)
}

func (b *breaker) nodeRestart(ctx context.Context) (string, error) {
	for _, n := range b.f.nodes {
		if err := n.restart(ctx); err != nil {
			return "", err
		}
	}
	return "SIGTERM to one node after the other, each started again", nil
}

func (b *breaker) postgresRestart(ctx context.Context) (string, error) {
	if err := b.f.postgres.end(syscall.SIGINT); err != nil {
		return "", err
	}
	wait(ctx, 3*time.Second)
	return "stopped for 3 s", b.f.postgres.start(ctx)
}

// ruleEdit raises a limit through one node and waits until it is in force on both.
func (b *breaker) ruleEdit(ctx context.Context) (string, error) {
	i := slices.IndexFunc(classes, func(c class) bool { return c.edited })
	id := ""
	for rule, of := range b.f.rules {
		if of.class == i {
			id = rule
		}
	}
	limit := b.f.limit + b.book.edited()
	began := time.Now()
	status, doc, err := send(ctx, http.MethodPatch, "http://"+b.anyNode().addr+"/ratelimit/rules/"+id,
		fmt.Sprintf(`{"limit":%d}`, limit))
	if err != nil || status != http.StatusOK {
		return "", fmt.Errorf("edit answered %d %s: %w", status, doc, errors.Join(err))
	}
	want := fmt.Sprintf(`"limit":%d,`, limit)
	for _, n := range b.f.nodes {
		err := until(ctx, n.now.Load(), func(ctx context.Context) error {
			_, doc, err := send(ctx, http.MethodPost, "http://"+n.addr+"/ratelimit/check",
				classes[i].question("nobody", 0, 0, ""))
			if err == nil && !strings.Contains(string(doc), want) {
				err = fmt.Errorf("%s goes by another limit: %s", n.name, doc)
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("a limit raised by 1, in force on both nodes after %d ms", time.Since(began).Milliseconds()), nil
}
