package api

import (
	"errors"
	"testing"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

func TestBuckets_LookAtAndForgetOne(t *testing.T) {
	f := newFixture(t, []rules.Rule{{Name: "a", Scope: "user", Limit: 3, WindowMS: 60_000, Algorithm: "fixed_window",
		FailMode: rules.FailLocal, IsActive: true}})
	take := func(user string) {
		var a decide.Answer
		q := decide.Question{Op: limiter.OpTake, Descriptor: match.Descriptor{User: user}, Weight: 2}
		if err := f.checker.Do(t.Context(), &q, &a); err != nil || !a.Allowed() {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	take("42")
	take("43")
	set := f.sets.Load()
	look := func(op limiter.Op, user string) limiter.Decision {
		b, err := set.FindBucket(set.At(0), user, f.book.now())
		if err != nil {
			t.Fatal(err)
		}
		var res limiter.Result
		if err := f.checker.Buckets(t.Context(), b.Rule, op, []limiter.Ask{{Key: b.Key, Limit: b.Limit, Weight: 2}},
			&res); err != nil {
			t.Fatal(err)
		}
		return res.Limits[0]
	}
	for range 2 { // looking spends nothing
		if d := look(limiter.OpPeek, "42"); d.Allowed || d.Remaining != 1 {
			t.Errorf("before: %+v", d)
		}
	}
	look(limiter.OpReset, "42")
	if d := look(limiter.OpPeek, "42"); !d.Allowed || d.Remaining != 3 {
		t.Errorf("after the reset: %+v", d)
	}
	if d := look(limiter.OpPeek, "43"); d.Remaining != 1 {
		t.Errorf("another key: %+v", d)
	}
	var res limiter.Result
	if err := f.checker.Buckets(t.Context(), set.At(0), limiter.OpCharge, nil, &res); !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("a charge: %v", err)
	}
}

func TestBuckets_NoFailModeDecides(t *testing.T) {
	f := newFixture(t, []rules.Rule{{Name: "a", Scope: "user", Limit: 3, WindowMS: 60_000, IsActive: true}})
	f.store.fail(errAway)
	set := f.sets.Load()
	b, err := set.FindBucket(set.At(0), "42", f.book.now())
	if err != nil {
		t.Fatal(err)
	}
	var res limiter.Result
	err = f.checker.Buckets(t.Context(), b.Rule, limiter.OpPeek, []limiter.Ask{{Key: b.Key, Limit: b.Limit}}, &res)
	var failed *limiter.StoreError
	if !errors.As(err, &failed) {
		t.Errorf("%v", err)
	}
}
