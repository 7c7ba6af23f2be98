package decide

import (
	"context"
	"runtime/debug"
	"time"

	"sluice/rules/match"
)

// DescriptorPart is one of several calls of descriptors that one call of the store decides independently.
type DescriptorPart struct {
	Question *DescriptorQuestion
	Answer   *DescriptorAnswer
	// Err is the error that DoDescriptors would have returned, or a *Panic.
	Err error
}

// DoDescriptorsEach answers calls of different callers with one call of the store, each as DoDescriptors answers it: an
// error concerns only its call. All of them see the same set. The wait of the caller in ctx applies to all of them.
func (c *Checker) DoDescriptorsEach(ctx context.Context, parts []DescriptorPart) {
	if c.opt.Trace != nil { // each call needs its own span, to which the call of the store belongs
		for i := range parts {
			parts[i].Err = c.DoDescriptors(ctx, parts[i].Question, parts[i].Answer)
		}
		return
	}
	w := c.work()
	defer w.release()
	start, lost := c.opt.Now(), c.lost()
	set := c.opt.Sets.Load()
	for i := range parts {
		parts[i].Err = w.tryDescriptors(&parts[i], set, start)
	}
	c.decide(ctx, w)
	for i := range parts {
		if part := &parts[i]; part.Err == nil {
			part.Err = c.tryAnswerDescriptors(ctx, w, &w.plans[i], part)
		}
	}
	took := c.opt.Now().Sub(start)
	starved := c.starved(took, lost)
	for i := range parts {
		if part := &parts[i]; part.Err == nil {
			c.observeDescriptors(w, &w.plans[i], part.Question, part.Answer, took, starved)
		}
	}
}

// tryDescriptors is addDescriptors. After an error or a panic, nothing is planned for the call: it has an empty plan.
func (w *work) tryDescriptors(part *DescriptorPart, set *match.Set, now time.Time) (err error) {
	limits, calls, plans := len(w.limits), len(w.calls), len(w.plans)
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			w.limits, w.calls, w.plans = w.limits[:limits], w.calls[:calls], append(w.plans[:plans], plan{})
		}
	}()
	if set == nil {
		return ErrNoSet
	}
	w.addDescriptors(part.Question, set, now, part.Answer)
	return nil
}

// tryAnswerDescriptors is answerDescriptors. A panic is the error.
func (c *Checker) tryAnswerDescriptors(ctx context.Context, w *work, p *plan, part *DescriptorPart) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	c.answerDescriptors(ctx, w, p, part.Question, part.Answer)
	return nil
}
