package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/process"
)

// A node that lacks a processor gets few checks, so that the lack is its only trouble.
const (
	starvedRate    = 200
	starvedLength  = leastChecks / starvedRate * time.Second
	starvedSockets = 256
	// pulsePeriod is the usual period of a CPU quota.
	pulsePeriod = 100 * time.Millisecond
	hogs        = 6
	// redisNice gives Redis a processor whenever it needs one.
	redisNice = -10
)

// measureStopped stops the node for most of each tenth of a second.
func measureStopped(ctx context.Context, b *bench) error {
	for _, c := range []struct {
		stopped      time.Duration
		modes, turns float64 // the largest part by fail modes and overloaded, in percent
	}{{98 * time.Millisecond, 0.5, 0.5}, {96 * time.Millisecond, 0, 0}} {
		name := fmt.Sprintf("stopped %d of every %d ms", c.stopped.Milliseconds(), pulsePeriod.Milliseconds())
		var ran float64
		err := b.starve(ctx, name, func(n *node) (func() error, error) {
			ended, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				ran = pulse(n.Process, pulsePeriod-c.stopped, ended)
			}()
			return func() error { close(ended); <-done; return nil }, nil
		}, c.modes, c.turns)
		if err != nil {
			return err
		}
		r := &b.rows[len(b.rows)-1]
		r.note = join(r.note, fmt.Sprintf("it ran %.1f %% of the time", 100*ran))
	}
	return nil
}

// measureHogs runs busy loops on the same processors as the node. Redis is not affected.
func measureHogs(ctx context.Context, b *bench) error {
	return b.starve(ctx, fmt.Sprintf("beside %d hogs", hogs), func(n *node) (func() error, error) {
		if err := unix.Setpriority(unix.PRIO_PROCESS, n.redis.Pid(), redisNice); err != nil {
			return nil, fmt.Errorf("give Redis priority %d (as root): %w", redisNice, err)
		}
		return startHogs(ctx, n.dir, hogs, b.length(starvedLength)+2*grace)
	}, 0, 0)
}

// starve measures a node while other work takes its processor, and adds the row. take starts this work and returns the
// function that ends it. modes and turns are the largest parts by fail modes and overloaded, in percent.
func (b *bench) starve(ctx context.Context, name string, take func(*node) (func() error, error),
	modes, turns float64) error {
	progress(name)
	n, err := b.onRedis(ctx, nil, overHTTP.rules...)
	if err != nil {
		return err
	}
	defer n.stop()
	l := overHTTP.load(n, starvedSockets)
	l.rate, l.length = starvedRate, b.length(starvedLength)
	l.during = func() (func() error, error) { return take(n) }
	m, err := n.measure(ctx, l)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{name: name, measured: *m, goals: []goal{
		atLeast("checks", float64(m.answered()), leastChecks),
		atMost("unanswered", float64(m.unanswered()), 0),
		atMost("fail modes %", 100*m.share(byFailMode), modes),
		atMost("overloaded %", 100*m.share(overloaded), turns),
		atMost("breaker opened", m.breaker, 0),
	}})
	return nil
}

// pulse lets a process run at the beginning of every period and stops it for the rest, until ended is closed. Then the
// process continues. It returns the part of the time that the process was not stopped.
func pulse(p *process.Process, run time.Duration, ended <-chan struct{}) float64 {
	defer urgent()()
	defer p.Signal(syscall.SIGCONT)
	begin := time.Now()
	var ran time.Duration
	for next := begin; ; next = next.Add(pulsePeriod) {
		from := time.Now()
		p.Signal(syscall.SIGCONT)
		sleepUntil(next.Add(run))
		p.Signal(syscall.SIGSTOP)
		ran += time.Since(from)
		sleepUntil(next.Add(pulsePeriod))
		select {
		case <-ended:
			return ran.Seconds() / time.Since(begin).Seconds()
		default:
		}
	}
}

// startHogs starts processes that are busy loops, each for at most the given time. The result ends them.
func startHogs(ctx context.Context, dir string, count int, length time.Duration) (func() error, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var started []*process.Process
	stop := func() error {
		for _, p := range started {
			p.Stop()
		}
		return nil
	}
	for i := range count {
		p, err := process.Start(ctx, filepath.Join(dir, fmt.Sprintf("hog-%d.log", i)), []string{"GOMAXPROCS=1"}, program,
			"-hog", length.String())
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		started = append(started, p)
	}
	return stop, nil
}

// spin is a busy loop.
func spin(length time.Duration) {
	for end := time.Now().Add(length); time.Now().Before(end); {
	}
}
