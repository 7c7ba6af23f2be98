package sim

import (
	"fmt"

	"sluice/limiter"
)

// memory returns the time after which an unused bucket is empty, ms.
func memory(l limiter.Limit) int64 {
	switch {
	case l.Algorithm.Traits().Decay == limiter.DecaySliding:
		return 2 * l.Window
	case l.Algorithm.Bucketed() && l.Count > 0:
		return (l.Burst*l.Window + l.Count - 1) / l.Count
	}
	return l.Window
}

// figures checks that the numbers of an answer are possible and do not contradict each other.
func (a *audit) figures() error {
	for i := range a.req.Asks {
		ask, d := &a.req.Asks[i], &a.res.Limits[i]
		if err := checkDecision(d, ask.Weight); err != nil {
			return fmt.Errorf("bucket %s: %w: %+v", ask.Key, err, *d)
		}
		if d.Allowed != a.pre[i].Allowed || d.RetryAfter != a.pre[i].RetryAfter {
			return fmt.Errorf("bucket %s answers %+v, a look just before says %+v", ask.Key, *d, a.pre[i])
		}
		if d.Remaining != a.post[i].Remaining || d.Reset != a.post[i].Reset {
			return fmt.Errorf("bucket %s answers %+v, a look just after says %+v", ask.Key, *d, a.post[i])
		}
	}
	return nil
}

// checkDecision checks a single decision.
func checkDecision(d *limiter.Decision, weight int64) error {
	switch {
	case d.Remaining < 0 || d.Remaining > d.Limit:
		return fmt.Errorf("remaining out of range")
	case d.Reset < limiter.Never || d.RetryAfter < limiter.Never:
		return fmt.Errorf("a wait below zero")
	case d.Allowed && d.RetryAfter != 0:
		return fmt.Errorf("allowed, yet to be retried")
	case !d.Allowed && d.RetryAfter == 0:
		return fmt.Errorf("denied, yet to be retried at once")
	case !d.Allowed && weight > 0 && d.Remaining >= weight:
		return fmt.Errorf("denied with enough remaining")
	case d.RetryAfter == limiter.Never && d.Allowed:
		return fmt.Errorf("allowed for ever after")
	}
	return nil
}

// checkRetryAfter checks that waiting exactly retry_after admits the same request if there are no
// others, and any less does not. No wait is longer than the bucket's lifetime. In a bucket with
// only takes under one limit, none is longer than the algorithm's memory plus the lead of its
// clock.
func (a *audit) checkRetryAfter() error {
	for i := range a.req.Asks {
		ask, wait := a.req.Asks[i], a.res.Limits[i].RetryAfter
		at := func(d int64) bool { return look(a.after[ask.Key], ask, a.req.ID, a.now+d).Allowed }
		natural := 2*memory(ask.Limit) + 1
		switch {
		case a.res.Limits[i].Allowed:
		case wait == limiter.Never && at(3*natural):
			return fmt.Errorf("bucket %s: waiting %d ms helps, the answer says never", ask.Key, 3*natural)
		case wait == limiter.Never:
		case a.post[i].Reset != limiter.Never && wait > a.post[i].Reset:
			return fmt.Errorf("bucket %s: to be retried after %d ms, empty after %d", ask.Key, wait, a.post[i].Reset)
		case wait > natural && a.bank.books.steady(ask.Key, ask.Limit):
			return fmt.Errorf("bucket %s: to be retried after %d ms, natural is at most %d", ask.Key, wait, natural)
		case !at(wait):
			return fmt.Errorf("bucket %s: still denied after the %d ms it asked for", ask.Key, wait)
		case wait > 1 && at(wait-1):
			return fmt.Errorf("bucket %s: admitted a ms before the %d it asked for", ask.Key, wait)
		}
	}
	return nil
}
