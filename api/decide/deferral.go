package decide

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"sluice/internal/wire"
	"sluice/limiter"
	"sluice/rules/match"
)

// MaxPayload bounds the payload of a check, in bytes.
const MaxPayload = 16 << 10

// Reasons why a deferrable request was denied, as in answers and metrics.
const (
	notDeferredFull        = "full"        // the queue is full
	notDeferredUnavailable = "unavailable" // the queue did not take it, or gave it back
)

// Changes of a deferred request.
const (
	DeferralDeferred = "deferred"
	DeferralUnknown  = "unknown" // whether it is deferred
	DeferralReleased = "released"
	DeferralAcked    = "acked"
	DeferralDropped  = "dropped"
	DeferralRefused  = "refused"
)

// Reasons for which a queue drops an item.
const (
	DroppedExpired    = "expired"    // older than the rule's max_age_ms
	DroppedUnreadable = "unreadable" // in a form that this version does not read
	DroppedByHand     = "by_hand"    // by a person
)

func (c *Checker) observeDeferral(rule, what, reason string, n int) {
	if n > 0 {
		c.opt.Observe.ObserveDeferral(Deferral{Rule: rule, What: what, Reason: reason, Count: n})
	}
}

// postpone puts a denied request into the queue of the rule that decided, if every limit that denied it defers, the
// store decided all of them, and waiting can help. It has a separate timeout, as long as the timeout of a check. If the
// outcome is unknown, the request is withdrawn; while that does not succeed within another such timeout, the answer is
// a deferral without a ticket.
func (c *Checker) postpone(ctx context.Context, q *Question, limits []plannedLimit, a *Answer) {
	rule := deferring(limits, a)
	if rule == nil {
		return
	}
	name := rule.Rule.Name
	nonce := rand.Text()
	ticket, err := c.enqueue(ctx, rule, a.Limits[a.Strictest].Key, nonce, q)
	known := true
	if errors.Is(err, ErrQueueUnsure) {
		var kept string
		if kept, known = c.withdraw(ctx, rule.Rule.ID, nonce); kept != "" {
			ticket, err = kept, nil
		}
	}
	switch {
	case err == nil:
		a.Ticket, a.Verdict = ticket, Deferred
		c.observeDeferral(name, DeferralDeferred, "", 1)
	case !known:
		a.Verdict = Deferred
		c.opt.Observe.ObserveDeferral(Deferral{Rule: name, What: DeferralUnknown, Count: 1, Err: err})
	case errors.Is(err, ErrQueueFull):
		a.NotDeferred = notDeferredFull
		c.observeDeferral(name, DeferralRefused, notDeferredFull, 1)
	default:
		a.NotDeferred = notDeferredUnavailable
		c.opt.Observe.ObserveDeferral(Deferral{
			Rule: name, What: DeferralRefused, Reason: notDeferredUnavailable, Count: 1, Err: err,
		})
	}
}

// withdraw takes back a Put. known is false if the outcome is still unknown after the time of a check; otherwise the
// item is not in the queue if ticket is "".
func (c *Checker) withdraw(ctx context.Context, rule int64, nonce string) (ticket string, known bool) {
	if c.opt.Withdrawals == nil {
		return "", false
	}
	outcome := c.opt.Withdrawals.start(rule, nonce)
	if outcome == nil {
		return "", false
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	select {
	case ticket, known = <-outcome:
		return ticket, known
	case <-ctx.Done():
		return "", false
	}
}

// deferring returns the rule whose queue takes a denied request, nil if it stays denied.
func deferring(limits []plannedLimit, a *Answer) *match.Compiled {
	if a.Verdict != Denied || ByFailMode(a.Degraded) || a.Strictest < 0 || a.Strictest >= len(limits) {
		return nil
	}
	for i := range limits {
		la := &a.Limits[i]
		if la.Decision.Allowed {
			continue
		}
		if r := limits[i].rule; r == nil || r.Rule.Defer == nil || !la.Known || la.Decision.RetryAfter == limiter.Never {
			return nil
		}
	}
	if a.Limits[a.Strictest].Decision.Allowed {
		return nil
	}
	return limits[a.Strictest].rule
}

func (c *Checker) enqueue(ctx context.Context, rule *match.Compiled, key limiter.Key, nonce string, q *Question) (
	string, error) {
	if c.opt.Deferred == nil {
		return "", ErrQueueUnavailable
	}
	body, err := packDeferred(q)
	if err != nil {
		return "", err
	}
	it := QueueItem{Nonce: nonce, Bucket: shortHash(string(key)), Body: body}
	if q.RequestID != "" {
		it.ID = shortHash(q.RequestID)
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.opt.Deferred.Put(ctx, rule.Rule.ID, it, QueueBounds{
		Items: rule.Rule.Defer.MaxItems, Age: time.Duration(rule.Rule.Defer.MaxAgeMS) * time.Millisecond,
	})
}

// limited bounds a call of a store or queue by the timeout of a check.
func (c *Checker) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.opt.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.opt.Timeout)
}

// shortHash returns 128 bits of a text's hash in 22 letters, digits, - and _, enough to make
// accidental collisions impossible in practice.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// A deferred request is stored as
//
//	version (1), weight, length of descriptor, descriptor (rules.MarshalStored), payload
//
// with numbers as uvarints.
const deferredVersion = 1

var errUnreadable = errors.New("not a deferred request that this version can read")

func packDeferred(q *Question) ([]byte, error) {
	d, err := q.Descriptor.MarshalStored()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(d)+len(q.Payload)+16)
	b = binary.AppendUvarint(append(b, deferredVersion), uint64(q.Weight))
	b = append(binary.AppendUvarint(b, uint64(len(d))), d...)
	return append(b, q.Payload...), nil
}

func unpackDeferred(b []byte, q *Question) error {
	if len(b) == 0 || b[0] != deferredVersion {
		return errUnreadable
	}
	r := wire.Read(b[1:])
	weight := r.Number(limiter.MaxExact)
	d := r.Text(MaxQueueBody)
	if r.Failed() || q.Descriptor.UnmarshalStored([]byte(d)) != nil {
		return errUnreadable
	}
	q.Weight, q.Payload = weight, string(r.Bytes(int64(r.Len())))
	return nil
}
