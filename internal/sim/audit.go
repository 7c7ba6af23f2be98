package sim

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/limiter"
)

// audit checks one applied request by the images of the store before and after it. It relies
// neither on the store's answer nor on its records, only on peeks at the buckets and on the
// books.
type audit struct {
	bank          *bank
	req           *limiter.Request
	res           *limiter.Result
	now           int64
	before, after map[limiter.Key]*limiter.State
	record        *record            // of the request's name, before
	pre, post     []limiter.Decision // looks at each ask's bucket, before and after
}

// run checks everything except the bounds and returns the entry for the books.
func (a *audit) run() (*entry, error) {
	for i := range a.req.Asks {
		ask := a.req.Asks[i]
		a.pre = append(a.pre, look(a.before[ask.Key], ask, a.req.ID, a.now))
		a.post = append(a.post, look(a.after[ask.Key], ask, a.req.ID, a.now))
	}
	if err := a.checkOtherBuckets(); err != nil {
		return nil, err
	}
	e := &entry{moved: make([]int64, len(a.req.Asks)), of: -1}
	switch a.req.Op {
	case limiter.OpTake, limiter.OpPeek, limiter.OpCharge:
		return e, a.spending(e)
	case limiter.OpRefund:
		return e, a.refund(e)
	case limiter.OpReset:
		for i := range a.post {
			if a.post[i].Remaining != a.post[i].Limit || a.post[i].Reset != 0 {
				return nil, fmt.Errorf("bucket %s still holds something", a.req.Asks[i].Key)
			}
		}
	case limiter.OpRelease, limiter.OpRenew:
		return e, a.leases(e)
	}
	return e, nil
}

// checkOtherBuckets checks that buckets that are not in the request did not change.
func (a *audit) checkOtherBuckets() error {
	asked := func(key limiter.Key) bool {
		return slices.ContainsFunc(a.req.Asks, func(k limiter.Ask) bool { return k.Key == key })
	}
	for key, s := range a.after {
		if a.before[key] != s && !asked(key) {
			return fmt.Errorf("bucket %s changed though nobody asked about it", key)
		}
	}
	for key := range a.before {
		if a.after[key] == nil && !asked(key) {
			return fmt.Errorf("bucket %s vanished though nobody asked about it", key)
		}
	}
	return nil
}

// checkUnchanged checks that the request had no visible effect. Storing a rebased clock has none.
func (a *audit) checkUnchanged(why string) error {
	for i := range a.req.Asks {
		key := a.req.Asks[i].Key
		if a.pre[i] != a.post[i] {
			return fmt.Errorf("%s but changed bucket %s from %+v to %+v", why, key, a.pre[i], a.post[i])
		}
		if a.before[key] == nil && a.after[key] != nil {
			return fmt.Errorf("%s but created bucket %s", why, key)
		}
	}
	if a.req.Op == limiter.OpRefund {
		return nil
	}
	if a.record != a.bank.model.recordOf(a.req) {
		return fmt.Errorf("%s but left a record", why)
	}
	return nil
}

// spending checks a take, peek or charge.
func (a *audit) spending(e *entry) error {
	if n := a.bank.books.repeats(a.req, a.now); n >= 0 {
		first := &a.bank.books.entries[n].res
		if !a.res.Replayed {
			return fmt.Errorf("charged again within %d ms of its first time", a.now-first.At)
		}
		if a.res.Allowed != first.Allowed || a.res.At != first.At || !slices.Equal(a.res.Limits, first.Limits) {
			return fmt.Errorf("replayed %+v, the first answer was %+v", *a.res, *first)
		}
		return a.checkUnchanged("replayed")
	}
	if a.res.Replayed {
		return fmt.Errorf("replayed an answer to a charge that does not stand")
	}
	if err := a.figures(); err != nil {
		return err
	}
	all := !slices.ContainsFunc(a.pre, func(d limiter.Decision) bool { return !d.Allowed })
	if a.res.Allowed != all {
		return fmt.Errorf("allowed = %v, the buckets say %v", a.res.Allowed, all)
	}
	if a.req.Op == limiter.OpPeek || (a.req.Op == limiter.OpTake && !all) {
		return cmp.Or(a.checkUnchanged("spent nothing"), a.checkRetryAfter())
	}
	for i := range a.req.Asks {
		if err := a.charged(e, i); err != nil {
			return err
		}
	}
	return nil
}

// charged checks that ask i took exactly its weight from the remaining units.
func (a *audit) charged(e *entry, i int) error {
	ask := &a.req.Asks[i]
	gone := a.pre[i].Remaining - a.post[i].Remaining
	want := ask.Weight
	switch {
	case lease(a.req, i) && gone == 0:
		want = 0 // its holder repeated the request
		if !a.pre[i].Allowed || a.bank.holding(ask, a.req.ID, a.before, a.now) == 0 {
			want = ask.Weight
		}
	case a.req.Op == limiter.OpCharge:
		want = min(want, a.pre[i].Remaining)
		e.spilled = e.spilled || (ask.Limit.Algorithm.Traits().Instant && want < ask.Weight)
	}
	if gone != want {
		return fmt.Errorf("bucket %s lost %d units for a weight of %d", ask.Key, gone, ask.Weight)
	}
	e.moved[i] = ask.Weight
	if lease(a.req, i) {
		e.moved[i] = gone
	}
	return nil
}

// holding returns the weight of the lease of id in a bucket's image. It finds it by releasing the
// lease in a copy.
func (b *bank) holding(ask *limiter.Ask, id string, image map[limiter.Key]*limiter.State, now int64) int64 {
	d, _ := limiter.Release(ask.Limit, load(image[ask.Key]), now, id)
	return d.Refunded
}

// refund checks a refund, with or without an id.
func (a *audit) refund(e *entry) error {
	n := a.bank.books.charge(a.req)
	if n >= 0 {
		e.of, e.claims = n, make([]bool, len(a.req.Asks))
	}
	for i := range a.req.Asks {
		most := a.req.Asks[i].Weight
		if a.req.ID != "" {
			most = 0
			if n >= 0 {
				first := &a.bank.books.entries[n]
				if k := first.ask(a.req.Asks[i].Key); k >= 0 && !a.bank.books.refunded(n, k) && first.req.Asks[k].Weight > 0 {
					most, e.claims[i] = first.req.Asks[k].Weight, true
				}
			}
			if lease(a.req, i) {
				most = a.bank.holding(&a.req.Asks[i], a.req.ID, a.before, a.now)
			}
		}
		if err := a.gave(e, i, most); err != nil {
			return err
		}
	}
	return a.checkRefundHistory(e)
}

// gave checks that ask i gave back no more than possible, and reports that number.
func (a *audit) gave(e *entry, i int, most int64) error {
	key, units := a.req.Asks[i].Key, a.res.Limits[i].Refunded
	back := a.post[i].Remaining - a.pre[i].Remaining
	switch {
	case most == 0 && a.pre[i] != a.post[i]:
		return fmt.Errorf("nothing to give back, but bucket %s went from %+v to %+v", key, a.pre[i], a.post[i])
	case units < 0 || units > most:
		return fmt.Errorf("bucket %s gave back %d units of %d", key, units, most)
	case back < 0 || back > units+1:
		return fmt.Errorf("bucket %s gained %d units, the answer says %d", key, back, units)
	case a.post[i].Reset > a.pre[i].Reset && a.pre[i].Reset != limiter.Never:
		return fmt.Errorf("bucket %s empties later after a refund", key)
	}
	e.moved[i] = units
	return nil
}

// leases checks a release or renew.
func (a *audit) leases(e *entry) error {
	for i := range a.req.Asks {
		ask := &a.req.Asks[i]
		held := a.bank.holding(ask, a.req.ID, a.before, a.now)
		d := &a.res.Limits[i]
		switch {
		case a.req.Op == limiter.OpRelease && d.Refunded != held:
			return fmt.Errorf("bucket %s: released %d units of %d held", ask.Key, d.Refunded, held)
		case a.req.Op == limiter.OpRelease && a.post[i].Remaining < a.pre[i].Remaining:
			return fmt.Errorf("bucket %s holds more after a release", ask.Key)
		case a.req.Op == limiter.OpRenew && d.Allowed != (held > 0):
			return fmt.Errorf("bucket %s: renewed = %v with %d units held", ask.Key, d.Allowed, held)
		case a.req.Op == limiter.OpRenew && a.post[i].Remaining != a.pre[i].Remaining:
			return fmt.Errorf("bucket %s: renewing changed what remains", ask.Key)
		}
		e.moved[i] = d.Refunded
	}
	return nil
}

// bounds checks that the books stay within the published bound.
func (a *audit) bounds() error {
	if a.req.Op != limiter.OpTake || !a.res.Allowed || a.res.Replayed {
		return nil
	}
	for i := range a.req.Asks {
		ask := &a.req.Asks[i]
		if lease(a.req, i) {
			if n := a.bank.books.leases(ask.Key, ask.Limit, a.bank.epoch, a.now); n > ask.Limit.Count {
				return broken("%s: bucket %s has %d leases of %d", a.bank.name, ask.Key, n, ask.Limit.Count)
			}
			continue
		}
		if msg := a.bank.books.overrun(ask.Key, ask.Limit, a.bank.epoch); msg != "" {
			return broken("%s: bucket %s (%s): %s", a.bank.name, ask.Key, ask.Limit.Algorithm, msg)
		}
	}
	return nil
}
