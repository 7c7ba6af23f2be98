package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// coalescer is the simplest service that batches concurrent checks: one counter per key, and one
// script call at a time for all waiting checks. It has no rules, one algorithm without a sliding
// window, no deadlines, and no answer while Redis is unavailable. It shows the cost of batching
// on a machine.
type coalescer struct {
	client  *redis.Client
	waiting chan *waiter
}

type waiter struct {
	q    question
	a    answer
	err  error
	done chan struct{}
}

// mostAtOnce is the maximum number of checks in a script call.
const mostAtOnce = 100

var counts = redis.NewScript(`
local out = {}
for i = 1, #KEYS do
  local n = redis.call('INCRBY', KEYS[i], 1)
  if n == 1 then redis.call('PEXPIRE', KEYS[i], ARGV[i]) end
  out[i] = n
end
return out`)

// newCoalescer starts a coalescer that runs as long as the process.
func newCoalescer(client *redis.Client) *coalescer {
	c := &coalescer{client: client, waiting: make(chan *waiter, 4096)}
	go func() {
		for first := range c.waiting {
			c.carry(c.gather(first))
		}
	}()
	return c
}

// gather returns all waiting checks, up to the number of one call.
func (c *coalescer) gather(first *waiter) []*waiter {
	all := []*waiter{first}
	for len(all) < mostAtOnce {
		select {
		case w := <-c.waiting:
			all = append(all, w)
		default:
			return all
		}
	}
	return all
}

func (c *coalescer) carry(all []*waiter) {
	keys, windows := make([]string, len(all)), make([]any, len(all))
	for i, w := range all {
		keys[i], windows[i] = w.q.Key, w.q.Window
	}
	ns, err := counts.Run(context.Background(), c.client, keys, windows...).Int64Slice()
	for i, w := range all {
		if w.err = err; err == nil {
			w.a = answer{Allowed: ns[i] <= w.q.Limit, Limit: w.q.Limit, Remaining: max(0, w.q.Limit-ns[i])}
		}
		close(w.done)
	}
}

func (c *coalescer) decide(_ context.Context, q question) (answer, error) {
	w := &waiter{q: q, done: make(chan struct{})}
	c.waiting <- w
	<-w.done
	return w.a, w.err
}
