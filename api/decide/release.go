package decide

import (
	"context"
	"strconv"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// Bounds of a release.
const (
	MaxRelease     = 100 // items
	releaseBatch   = 10  // items leased at once
	releaseBuckets = 100 // different buckets that may deny before it ends
	releaseTime    = time.Second
	DefaultHold    = 30 * time.Second
)

// Released is one deferred request that may pass now.
type Released struct {
	// Ticket identifies the request. The caller of the check got it, and a runner acknowledges
	// it.
	Ticket string
	// Payload is the payload that the caller sent.
	Payload string
	// Key is the name of the rule's bucket, for people.
	Key string
	// Waited is how long the request was in the queue.
	Waited time.Duration
	// Deliveries is how often it was released, including this time.
	Deliveries int64
}

// Release is the answer to a release.
type Release struct {
	Items []Released
	// RetryAfter is the time in ms after which to try again: when the first of the denied
	// requests may pass, 0 if there may be more now, -1 if the queue is empty.
	RetryAfter int64
}

// releasing is the state of one release.
type releasing struct {
	*Checker
	rule    int64
	name    string
	hold    time.Duration
	most    int
	out     Release
	blocked []string // buckets that denied
	back    []string // tickets to return
	denied  int64    // the shortest retry-after of these, -1 for none
}

// Release returns up to most of the oldest deferred requests of a rule that may pass now. It
// takes their weight from the limits of every rule that applies to them now, so that they share
// these limits exactly with other traffic. A denied request keeps its place, and later ones of
// the same bucket wait for it. Each released request must be acknowledged within hold;
// otherwise it returns to the queue and is charged again later.
//
// No fail mode applies: while the store cannot decide, nothing is released, and the error is
// the store's unless some requests were released before it failed.
func (c *Checker) Release(ctx context.Context, rule int64, name string, most int, hold time.Duration) (Release, error) {
	if c.opt.Deferred == nil {
		return Release{RetryAfter: limiter.Never}, nil
	}
	r := &releasing{Checker: c, rule: rule, name: name, hold: hold, most: most, denied: limiter.Never}
	until := c.opt.Now().Add(releaseTime)
	more, err := true, error(nil)
	for more && err == nil && len(r.out.Items) < most && len(r.blocked) < releaseBuckets && c.opt.Now().Before(until) {
		more, err = r.batch(ctx)
	}
	r.giveBack(ctx)
	if err != nil && len(r.out.Items) == 0 {
		return r.out, err
	}
	r.out.RetryAfter = r.denied
	if more {
		r.out.RetryAfter = 0
	}
	c.observeDeferral(name, DeferralReleased, "", len(r.out.Items))
	return r.out, nil
}

// batch leases some items and checks each. It reports whether there were any.
func (r *releasing) batch(ctx context.Context) (bool, error) {
	items, err := r.lease(ctx)
	if err != nil || len(items) == 0 {
		return false, err
	}
	for i := range items {
		if err := r.ask(ctx, &items[i]); err != nil {
			for _, rest := range items[i:] {
				r.back = append(r.back, rest.Ticket)
			}
			return true, err
		}
	}
	return true, nil
}

func (r *releasing) lease(ctx context.Context) ([]QueueItem, error) {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	return r.opt.Deferred.Lease(ctx, r.rule, QueueWant{
		Max: min(releaseBatch, r.most-len(r.out.Items)), Hold: r.hold, Except: r.blocked,
	})
}

// ask checks one item against the limits.
func (r *releasing) ask(ctx context.Context, it *QueueItem) error {
	for _, b := range r.blocked {
		if b == it.Bucket { // an older one was denied in this batch
			r.back = append(r.back, it.Ticket)
			return nil
		}
	}
	q := Question{Op: limiter.OpTake, strict: true}
	if unpackDeferred(it.Body, &q) != nil {
		r.observeDeferral(r.name, DeferralDropped, DroppedUnreadable, 1)
		_, err := r.opt.Deferred.Finish(ctx, r.rule, []string{it.Ticket}, nil)
		return err
	}
	// A take whose response is lost is repeated under the same id. A repeated delivery, because
	// the first was not acknowledged in time, has another id and is charged again.
	q.RequestID = "d:" + strconv.FormatInt(r.rule, 36) + ":" + it.Ticket + ":" + strconv.FormatInt(it.Deliveries, 36)
	var a Answer
	if err := r.Do(ctx, &q, &a); err != nil {
		return err
	}
	if !a.Allowed() {
		r.blocked = append(r.blocked, it.Bucket)
		r.back = append(r.back, it.Ticket)
		if ms, ok := a.RetryAfter(); ok && ms >= 0 && (r.denied < 0 || ms < r.denied) {
			r.denied = ms
		}
		return nil
	}
	r.out.Items = append(r.out.Items, Released{
		Ticket: it.Ticket, Payload: q.Payload, Key: r.key(&a),
		Waited: max(0, r.opt.Now().Sub(time.UnixMilli(it.At))), Deliveries: it.Deliveries,
	})
	return nil
}

// key returns the bucket of the rule among the limits that applied.
func (r *releasing) key(a *Answer) string {
	for i := range a.Limits {
		if a.Limits[i].Rule == r.name {
			return a.Limits[i].Display()
		}
	}
	return ""
}

// giveBack returns the denied items to their places, even if the caller has left. An item that
// cannot be returned becomes available when its lease expires.
func (r *releasing) giveBack(ctx context.Context) {
	for len(r.back) > 0 {
		n := min(len(r.back), MaxQueueLease)
		ctx, cancel := r.limited(context.WithoutCancel(ctx))
		_, err := r.opt.Deferred.Finish(ctx, r.rule, nil, r.back[:n])
		cancel()
		if err != nil {
			return
		}
		r.back = r.back[n:]
	}
}

// Acknowledge removes deferred requests from the queue and returns their number. It ignores requests that are not
// released or do not exist.
func (c *Checker) Acknowledge(ctx context.Context, rule int64, name string, tickets []string) (int, error) {
	if c.opt.Deferred == nil {
		return 0, nil
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	n, err := c.opt.Deferred.Finish(ctx, rule, tickets, nil)
	c.observeDeferral(name, DeferralAcked, "", n)
	return n, err
}

// DropDeferred drops the items of a rule's queue that were added no later than until, in ms since the epoch on the
// queue's clock, and returns their number. name is the rule's, "" if it is not in force. If it fails half way, it
// returns the number of items that were dropped. The context bounds it.
func (c *Checker) DropDeferred(ctx context.Context, rule int64, name string, until int64) (int, error) {
	if c.opt.Deferred == nil {
		return 0, nil
	}
	total := 0
	for {
		n, err := c.opt.Deferred.Drop(ctx, rule, until)
		total += n
		if err == nil && n == MaxQueueLease {
			err = ctx.Err() // there may be more
		}
		if err != nil || n < MaxQueueLease {
			c.observeDeferral(name, DeferralDropped, DroppedByHand, total)
			return total, err
		}
	}
}

// Waiting returns the status of a rule's queue.
func (c *Checker) Waiting(ctx context.Context, rule int64) (QueueStatus, error) {
	if c.opt.Deferred == nil {
		return QueueStatus{}, nil
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.opt.Deferred.Status(ctx, rule)
}

// DeferringRules returns up to most rules in force that defer requests.
func (c *Checker) DeferringRules(most int) (list []*match.Compiled) {
	set := c.opt.Sets.Load()
	for i := 0; set != nil && i < set.Len() && len(list) < most; i++ {
		if r := set.At(i); r.Rule.Defer != nil {
			list = append(list, r)
		}
	}
	return list
}

// Queues returns the ids of up to most rules whose queues are not empty, including rules that
// are no longer in force.
func (c *Checker) Queues(ctx context.Context, most int) ([]int64, error) {
	if c.opt.Deferred == nil {
		return nil, nil
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.opt.Deferred.Rules(ctx, most)
}

// QueueNamed finds the queue of a rule by its id, or by its name if the rule is in force. A
// queue outlives its rule, so every id is accepted; name is "" if the rule is not in force.
func (c *Checker) QueueNamed(text string) (id int64, name string, err error) {
	set := c.opt.Sets.Load()
	if set == nil {
		return 0, "", ErrNoSet
	}
	if id, err := strconv.ParseInt(text, 10, 64); err == nil && id > 0 {
		if r := set.Get(id); r != nil {
			name = r.Rule.Name
		}
		return id, name, nil
	}
	if r := set.Named(text); r != nil {
		return r.Rule.ID, text, nil
	}
	return 0, "", rules.ErrNotFound
}
