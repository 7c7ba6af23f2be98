package decide

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// eachObserver notes decisions by their routes.
type eachObserver struct {
	NopObserver
	decisions []string
}

func (o *eachObserver) ObserveDecision(d *Decision) {
	o.decisions = append(o.decisions, d.Question.Descriptor.Route)
}

func question(user, route string) *Question {
	return &Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{User: user, Route: route}}
}

// Questions of several callers have the answers that they would have had one after the other.
func TestDoEach_AnswersEachByItself(t *testing.T) {
	told := new(eachObserver)
	f := newFixture(t, []rules.Rule{perUser("r", rules.FailClosed, 3)}, func(o *CheckerOptions) { o.Observe = told })
	parts := make([]Part, 0, 8)
	for _, route := range []string{"a", "b", "c", "d"} {
		parts = append(parts, Part{Question: question("42", route), Answer: new(Answer)})
	}
	parts = append(parts, Part{Question: question("7", "e"), Answer: new(Answer)})
	f.DoEach(t.Context(), parts)
	for i, want := range []bool{true, true, true, false, true} {
		if p := &parts[i]; p.Err != nil || p.Answer.Allowed() != want || len(p.Answer.Limits) != 1 {
			t.Errorf("question %d: %v %+v, want allowed %t", i, p.Err, p.Answer, want)
		}
	}
	if len(told.decisions) != 5 {
		t.Errorf("told of %v", told.decisions)
	}
}

// The error of one question is not that of the others, also if the program has a bug there.
func TestDoEach_KeepsErrorsApart(t *testing.T) {
	told := new(eachObserver)
	f := newFixture(t, []rules.Rule{perUser("r", rules.FailClosed, 10)}, func(o *CheckerOptions) {
		o.Observe = told
		o.Sets = new(match.Current) // none is loaded: only direct questions can be decided
	})
	one := &Question{Op: limiter.OpTake, IsDirect: true, Weight: 1,
		Direct: Direct{Key: "k", Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: 60_000}}}
	two := *one
	parts := []Part{
		{Question: question("42", "unknown"), Answer: new(Answer)},
		{Question: one, Answer: new(Answer)},
		{Question: nil, Answer: new(Answer)}, // a bug while it is planned
		{Question: &two, Answer: nil},        // a bug while it is answered
		{Question: one, Answer: new(Answer)},
	}
	f.DoEach(t.Context(), parts)
	if !errors.Is(parts[0].Err, ErrNoSet) {
		t.Errorf("without rules: %v", parts[0].Err)
	}
	for _, i := range []int{2, 3} {
		var p *Panic
		if !errors.As(parts[i].Err, &p) || len(p.Stack) == 0 {
			t.Errorf("question %d: %v, want a panic", i, parts[i].Err)
		}
	}
	if parts[1].Err != nil || !parts[1].Answer.Allowed() || parts[4].Err != nil || parts[4].Answer.Allowed() {
		t.Errorf("the others: %+v, %+v, want allowed and denied", parts[1], parts[4])
	}
	if len(told.decisions) != 2 {
		t.Errorf("told of %d decisions, want the two that were made", len(told.decisions))
	}
}

// A bug of the store is the error of every question that it was asked, and of no other.
func TestDoEach_APanicOfTheStoreIsThatOfItsQuestions(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", rules.FailClosed, 10)}, func(*CheckerOptions) {})
	f.opt.Store = nil
	parts := []Part{{Question: question("42", ""), Answer: new(Answer)}, {Question: nil, Answer: new(Answer)},
		{Question: question("7", ""), Answer: new(Answer)}}
	f.DoEach(t.Context(), parts)
	for i := range parts {
		var p *Panic
		if !errors.As(parts[i].Err, &p) {
			t.Errorf("question %d: %v, want a panic", i, parts[i].Err)
		}
	}
}

// Whether a caller has left, or has waited too long, reaches the store with its question, and does not stay in pooled
// memory.
func TestDoEach_TellsTheStoreOfCallers(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", rules.FailClosed, 10)}, func(*CheckerOptions) {})
	seen := &goneStore{Store: f.store}
	f.opt.Store = seen
	gone := question("42", "gone")
	gone.Gone, gone.Late = new(atomic.Bool), true
	f.DoEach(t.Context(), []Part{
		{Question: gone, Answer: new(Answer)}, {Question: question("7", ""), Answer: new(Answer)}})
	f.take()
	if len(seen.seen) != 3 || !seen.seen[0] || seen.seen[1] || seen.seen[2] {
		t.Errorf("got %v, want it for the first request only", seen.seen)
	}
}

// goneStore notes which requests say both.
type goneStore struct {
	limiter.Store
	seen []bool
}

func (s *goneStore) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	s.seen = append(s.seen, req.Gone != nil && req.Late)
	return s.Store.Do(ctx, req, res)
}

func (s *goneStore) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}
