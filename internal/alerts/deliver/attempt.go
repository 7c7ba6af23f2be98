package deliver

import (
	"context"
	"math/rand/v2"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/tick"
)

const (
	// firstRetry and lastRetry are the shortest and the longest time between two attempts.
	firstRetry, lastRetry = 5 * time.Second, time.Hour
	// retrySpread is the largest part by which a delay is prolonged at random, so that messages do not arrive all at
	// once.
	retrySpread = 0.2
	// retryFor is the age at which a message is given up.
	retryFor = 24 * time.Hour
	// noteTimeout bounds the storing of an attempt; noteAgain is the pause before it is tried again.
	noteTimeout, noteAgain = 3 * time.Second, time.Second
	// goneReason is why a webhook is disabled.
	goneReason = "the receiver answered 410: it wants no more messages"
)

// deliver sends a message once and stores the attempt. An attempt that ctx interrupts is not stored: the next node with
// the lease sends the message again.
func (w *Worker) deliver(ctx context.Context, m *alerts.DueDelivery) alerts.Attempt {
	a := w.opt.Send(ctx, m.URL, m.Secrets, &m.Message)
	if ctx.Err() != nil && !a.Delivered() {
		return a
	}
	after := retryAfter(m.Attempts, rand.Float64()) //nolint:gosec // it spreads load and keeps no secret
	last := w.opt.Now().Add(after).Sub(m.Message.At) > retryFor
	w.count(func(t *alerts.DeliveryTotals) {
		t.Attempts[a.Result()]++
		if last && !a.Delivered() {
			t.TooOld++
		}
	})
	// The message counts as in flight until the attempt is stored, so that it is not sent again before.
	for away := false; ; away = true {
		err := w.note(ctx, m, a, last, after)
		if err == nil {
			return a
		}
		if !away {
			w.opt.Log.Warn("the rules database does not take what became of a message to a webhook", "message", m.Message.ID,
				"error", err)
		}
		if !tick.Wait(ctx, noteAgain) {
			return a
		}
	}
}

// note stores the result of an attempt, even if ctx has just ended. Storing it again changes only the number of
// attempts.
func (w *Worker) note(ctx context.Context, m *alerts.DueDelivery, a alerts.Attempt, last bool,
	after time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if a.Gone {
		if err := w.opt.Queue.DisableWebhook(ctx, m.Message.Webhook, m.Version, goneReason); err != nil {
			return err
		}
	}
	if a.Delivered() || last {
		return w.opt.Queue.EndDelivery(ctx, m.ID, a)
	}
	return w.opt.Queue.RetryDelivery(ctx, m.ID, a, after)
}

// retryAfter returns the delay before the next attempt. before is the number of failed attempts before the last one.
// The delay is 5 s, 10 s, 20 s and so on up to 50 minutes, prolonged by up to a fifth; part, from 0 to 1, is the used
// part of this fifth.
func retryAfter(before int64, part float64) time.Duration {
	most := float64(lastRetry) / (1 + retrySpread)
	base := min(float64(firstRetry)*float64(int64(1)<<min(max(before, 0), 20)), most)
	return time.Duration(base * (1 + retrySpread*part))
}
