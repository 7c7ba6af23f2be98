package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"sluice/bench/process"
)

const (
	outageRate    = 2000
	outageLength  = 8 * time.Second
	outageSockets = 1024
	// Redis fails after a quarter of the length of a load and is reachable again after five eighths.
	failsAt, returnsAt = 0.25, 0.625
	// outageTail is the longest allowed latency of 99.9 % of the answers, from sending.
	outageTail = 50 * time.Millisecond
	// normalAgain is how long after the return of Redis the last answer by a fail mode may come.
	normalAgain = 700 * time.Millisecond
	// envoysWait is the deadline of callers over gRPC.
	envoysWait = 20 * time.Millisecond
)

// outage is a way in which Redis fails.
type outage struct {
	name     string
	through  bool // the node connects through a proxy
	overGRPC bool
	fail     func(context.Context, *node, *proxy) error
	repair   func(context.Context, *node, *proxy) error
}

var outages = []outage{
	{name: "Redis killed", fail: killRedis, repair: restartRedis},
	{name: "Redis frozen", fail: signalRedis(syscall.SIGSTOP), repair: signalRedis(syscall.SIGCONT)},
	{name: "Redis half-open", through: true, fail: swallow(true), repair: swallow(false)},
	{name: "Redis frozen, gRPC callers of 20 ms", overGRPC: true, fail: signalRedis(syscall.SIGSTOP),
		repair: signalRedis(syscall.SIGCONT)},
}

func killRedis(_ context.Context, n *node, _ *proxy) error {
	n.redis.End(syscall.SIGKILL)
	return nil
}

func restartRedis(ctx context.Context, n *node, _ *proxy) (err error) {
	n.redis, err = process.StartRedisAt(ctx, n.dir, n.redisAddr)
	return err
}

func signalRedis(sig syscall.Signal) func(context.Context, *node, *proxy) error {
	return func(_ context.Context, n *node, _ *proxy) error {
		n.redis.Signal(sig)
		return nil
	}
}

func swallow(on bool) func(context.Context, *node, *proxy) error {
	return func(_ context.Context, _ *node, p *proxy) error {
		p.swallow(on)
		return nil
	}
}

func measureOutages(ctx context.Context, b *bench) error {
	for i := range outages {
		if err := outages[i].measure(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", outages[i].name, err)
		}
	}
	return nil
}

func (o *outage) measure(ctx context.Context, b *bench) error {
	progress(o.name)
	var p *proxy
	var between func(string) (string, error)
	if o.through {
		between = func(redis string) (_ string, err error) {
			if p, err = startProxy(ctx, redis); err != nil {
				return "", err
			}
			return p.addr(), nil
		}
	}
	n, err := b.onRedis(ctx, between, o.rules()...)
	if p != nil {
		defer p.stop()
	}
	if err != nil {
		return err
	}
	defer n.stop()
	l := o.load(n)
	l.rate, l.length, l.right, l.fromSending = outageRate, b.length(outageLength), asTheFailModeSays, true
	var back time.Time
	l.during = func() (func() error, error) {
		repaired := make(chan error, 1)
		go func() { repaired <- o.run(ctx, n, p, l.length, &back) }()
		return func() error { return <-repaired }, nil
	}
	m, err := n.measure(ctx, l)
	if err != nil {
		return err
	}
	again := max(0, m.lastFailMode-back.Sub(m.begin))
	r := row{name: o.name, measured: *m, note: fmt.Sprintf("normal again after %.2f s", again.Seconds()), goals: []goal{
		atLeast("checks", float64(m.answered()), leastChecks),
		atMost("unanswered", float64(m.unanswered()), 0),
		atMost("against the fail mode", float64(m.wrong), 0),
		atLeast("by fail modes", float64(m.verdicts[byFailMode]), 1),
		atMost("99.9 % of the answers ms", milliseconds(quantile(m.took, 0.999)), milliseconds(outageTail)),
		atMost("normal again s", again.Seconds(), normalAgain.Seconds()),
	}}
	if o.overGRPC { // a call that its own deadline ended has no answer
		r.goals = append(r.goals, atMost("past their deadline", float64(m.late(envoysWait)+m.unanswered()), 0))
	}
	b.rows = append(b.rows, r)
	return nil
}

// run breaks Redis and repairs it at its times, and notes when it was there again.
func (o *outage) run(ctx context.Context, n *node, p *proxy, length time.Duration, back *time.Time) error {
	begin := time.Now()
	at := func(part float64) error {
		select {
		case <-time.After(time.Until(begin.Add(time.Duration(part * float64(length))))):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := at(failsAt); err != nil {
		return err
	}
	if err := o.fail(ctx, n, p); err != nil {
		return err
	}
	err := errors.Join(at(returnsAt), o.repair(ctx, n, p))
	*back = time.Now()
	return err
}

// rules are one for each fail mode.
func (o *outage) rules() (rules []string) {
	for _, mode := range failModes {
		matches := fmt.Sprintf(`"scope":"user","route":"/%s"`, mode)
		if o.overGRPC {
			matches = descriptorOf(mode)
		}
		rules = append(rules, ruleOf(mode, mode, matches))
	}
	return rules
}

// load asks the rules in turn: check n is one of rule n%3.
func (o *outage) load(n *node) *load {
	if o.overGRPC {
		return grpcLoad(n, outageSockets, fmt.Sprintf("%dm", envoysWait.Milliseconds()), failModes...)
	}
	every := bodies(func(user int) string {
		return fmt.Sprintf(`{"method":"GET","route":"/%s","user":"u%d"}`, failModes[user%len(failModes)], user)
	})
	requests := plainChecks(n.Addr, every[:users/len(failModes)*len(failModes)])
	return &load{addr: n.Addr, conns: outageSockets, wire: func() wire { return &httpWire{requests: requests} }}
}

// asTheFailModeSays reports whether a check was decided by its limit, which nobody reaches, or by the fail mode of its
// rule. A check without an answer is counted elsewhere.
func asTheFailModeSays(a *answer) bool {
	want := failModes[a.n%len(failModes)]
	switch a.verdict {
	case decided:
		return a.allowed
	case byFailMode:
		return a.mode == want && a.allowed == (want != "closed")
	case failed:
		return true
	}
	return false
}
