package decide

import (
	"context"

	"sluice/limiter"
	"sluice/rules"
)

// Explain answers a question as Do would with a peek, and says which rules were
// considered under the same set. A direct question considers none.
func (c *Checker) Explain(ctx context.Context, q *Question, a *Answer) (*rules.Set, []rules.Considered, error) {
	w := getWork()
	defer putWork(w)
	set := c.opt.Sets.Load()
	if set == nil {
		return nil, nil, ErrNoSet
	}
	q.Op = limiter.OpPeek
	now := c.opt.Now()
	if err := w.add(ctx, q, set, now); err != nil {
		return nil, nil, err
	}
	c.run(ctx, w)
	if err := c.settle(ctx, w, &w.jobs[0], a); err != nil {
		return nil, nil, err
	}
	if q.IsDirect {
		return set, nil, nil
	}
	considered := set.Explain(&q.Descriptor, q.Weight, now)
	return set, considered, nil
}
