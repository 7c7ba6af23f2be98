package decide

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"sluice/rules/match"
)

// Part is one of several questions that one call of the store decides independently.
type Part struct {
	Question *Question
	Answer   *Answer
	// Err is the error that Do would have returned, or a *Panic.
	Err error
}

// Panic is the error of a question at which the program has a bug. The others of its batch have their answers.
type Panic struct {
	Value any
	Stack []byte
}

// Error implements error.
func (p *Panic) Error() string { return fmt.Sprint("panic: ", p.Value) }

// DoEach answers questions of different callers with one call of the store, each as Do answers it: an error concerns
// only its question. All of them see the same set. The wait of the caller in ctx applies to all of them. It makes no
// spans.
func (c *Checker) DoEach(ctx context.Context, parts []Part) {
	w := c.work()
	start, lost := c.opt.Now(), c.lost()
	set := c.opt.Sets.Load()
	for i := range parts {
		parts[i].Err = w.tryAdd(ctx, parts[i].Question, set, start)
	}
	if err := c.tryDecide(ctx, w); err != nil {
		for i := range parts {
			if parts[i].Err == nil {
				parts[i].Err = err
			}
		}
		return // w may still be in use
	}
	p := w.plans
	for i := range parts {
		if parts[i].Err == nil {
			parts[i].Err = c.tryAnswer(ctx, w, &p[0], parts[i].Answer)
			p = p[1:]
		}
	}
	took := c.opt.Now().Sub(start)
	starved := c.starved(took, lost)
	p = w.plans
	for i := range parts {
		part := &parts[i]
		if len(p) == 0 || p[0].q != part.Question {
			continue // it was not planned
		}
		if part.Err == nil {
			w.decision = Decision{Question: part.Question, Answer: part.Answer, Took: took, Outcome: p[0].outcome,
				By: p[0].by, ID: p[0].id, Origin: part.Question.Origin, Starved: starved}
			c.opt.Observe.ObserveDecision(&w.decision)
		}
		p = p[1:]
	}
	w.release()
}

// Contain makes a panic of the function that defers it that function's error, a *Panic.
func Contain(err *error) {
	if v := recover(); v != nil {
		*err = &Panic{Value: v, Stack: debug.Stack()}
	}
}

// tryAdd is add. After an error or a panic, w is as it was before.
func (w *work) tryAdd(ctx context.Context, q *Question, set *match.Set, now time.Time) (err error) {
	limits, pools, calls := len(w.limits), len(w.pools), len(w.calls)
	defer func() {
		if err != nil {
			w.limits, w.pools, w.calls = w.limits[:limits], w.pools[:pools], w.calls[:calls]
		}
	}()
	defer Contain(&err)
	return w.add(ctx, q, set, now)
}

// tryDecide is decide. A panic is the error.
func (c *Checker) tryDecide(ctx context.Context, w *work) (err error) {
	defer Contain(&err)
	c.decide(ctx, w)
	return nil
}

// tryAnswer is answer. A panic is the error.
func (c *Checker) tryAnswer(ctx context.Context, w *work, p *plan, a *Answer) (err error) {
	defer Contain(&err)
	return c.answer(ctx, w, p, a)
}
