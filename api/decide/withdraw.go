package decide

import (
	"context"
	"sync"
	"time"

	"sluice/internal/tick"
)

// The bounds of withdrawals: how many are under way at once, how long one is tried, how long one try takes at most, and
// the pauses between tries.
const (
	maxWithdrawals = 1000
	withdrawFor    = 10 * time.Second
	withdrawTry    = 500 * time.Millisecond
	withdrawPause  = 20 * time.Millisecond
	withdrawRest   = time.Second
)

// Withdrawals takes deferred requests back whose Put has an unknown outcome, so that a request that was denied does not
// run later. It owns a goroutine for each, which ends with the outcome, after withdrawFor, or on Close. It is safe for
// concurrent use.
type Withdrawals struct {
	queue Queue
	ctx   context.Context //nolint:containedctx // the context of its goroutines, which outlast the checks that start them
	end   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running int
	ended   sync.WaitGroup
}

// NewWithdrawals returns the withdrawals from a queue.
func NewWithdrawals(q Queue) *Withdrawals {
	w := &Withdrawals{queue: q}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// Close ends all withdrawals and waits for their goroutines.
func (w *Withdrawals) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end()
	w.ended.Wait()
}

// start withdraws a Put in the background. The channel gets what Withdraw returned, or is closed without that. It is
// nil if there is no room.
func (w *Withdrawals) start(rule int64, nonce string) <-chan string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.running == maxWithdrawals {
		return nil
	}
	w.running++
	outcome := make(chan string, 1)
	w.ended.Go(func() {
		w.run(rule, nonce, outcome)
		w.mu.Lock()
		w.running--
		w.mu.Unlock()
	})
	return outcome
}

func (w *Withdrawals) run(rule int64, nonce string, outcome chan<- string) {
	defer close(outcome)
	ctx, cancel := context.WithTimeout(w.ctx, withdrawFor)
	defer cancel()
	for pause := withdrawPause; ; pause = min(2*pause, withdrawRest) {
		ticket, err := w.try(ctx, rule, nonce)
		if err == nil {
			outcome <- ticket
			return
		}
		if !tick.Wait(ctx, pause) {
			return
		}
	}
}

func (w *Withdrawals) try(ctx context.Context, rule int64, nonce string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, withdrawTry)
	defer cancel()
	return w.queue.Withdraw(ctx, rule, nonce)
}
