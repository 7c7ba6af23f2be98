package across

import (
	"errors"
	"testing"

	"sluice/limiter"
)

var (
	errCut    = errors.New("cut off")
	errDenied = errors.New("denied")
)

// threePlaces is a take of three limits at places of their own, widest first.
func threePlaces() *Request {
	ask := func(key limiter.Key, count int64) limiter.Ask {
		return limiter.Ask{Key: key, Weight: 1,
			Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: count, Window: 1000}}
	}
	return New(&limiter.Request{Asks: []limiter.Ask{ask("{a}", 900), ask("{b}", 50), ask("{c}", 3)}},
		Options{Place: func(a *limiter.Ask) int { return int(a.Key[1]) }, LookFirst: true})
}

// answers plays the places: it answers every part that is sent with what fn says (nil for yes) and advances. fn sees
// the count of the part's limit.
func (r *Request) answers(fn func(count int64, s Step) error) {
	for _, p := range r.round {
		count := p.Request.Asks[0].Limit.Count
		d := limiter.Decision{Allowed: true, Limit: count, Remaining: count - 1}
		p.Got = Answer{}
		switch err := fn(count, p.Step); {
		case errors.Is(err, errDenied):
			d = limiter.Decision{Limit: count, RetryAfter: count}
		case err != nil:
			p.Got.Err = err
			continue
		case p.Step == Ask:
			p.Got.Took = true
		case p.Step == Undo:
			d.Remaining = count
		}
		p.Got.Result = &limiter.Result{Allowed: d.Allowed, Limits: []limiter.Decision{d}}
		if len(p.bans) > 0 {
			p.Got.Result.Limits = append(p.Got.Result.Limits, limiter.Decision{Allowed: true, Limit: 2, Remaining: 1})
		}
	}
	r.advance()
}

func (r *Request) done() bool { return len(r.round) == 0 }

func yes(int64, Step) error { return nil }

// deny denies at the limit of a count.
func deny(at int64) func(int64, Step) error {
	return func(count int64, s Step) error {
		if count == at && s != Undo {
			return errDenied
		}
		return nil
	}
}

func TestRequest_NarrowestTakesFirstAndOthersLook(t *testing.T) {
	r := threePlaces()
	for _, p := range r.round {
		if got, want := p.Step == Ask, p.Request.Asks[0].Limit.Count == 3; got != want {
			t.Errorf("the limit of %d takes: %v", p.Request.Asks[0].Limit.Count, got)
		}
	}
	r.answers(yes)
	if len(r.round) != 2 {
		t.Fatalf("%d parts go in the second round, want the other 2", len(r.round))
	}
	r.answers(yes)
	var res limiter.Result
	if err := r.Answer(&res); err != nil || !r.done() || !res.Allowed || res.Limits[2].Remaining != 2 {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestRequest_DenialListsEveryLimitThatDeniesAndUndoes(t *testing.T) {
	r := threePlaces()
	r.answers(func(count int64, _ Step) error {
		if count > 3 {
			return errDenied
		}
		return nil
	})
	if len(r.round) != 1 || r.round[0].Step != Undo || r.round[0] != r.Parts[0] {
		t.Fatalf("%+v is sent after a denial", r.round)
	}
	r.answers(yes)
	var res limiter.Result
	if err := r.Answer(&res); err != nil || !r.done() {
		t.Fatal(err)
	}
	if res.Allowed || res.Limits[0].RetryAfter != 900 || res.Limits[1].RetryAfter != 50 || !res.Limits[2].Allowed ||
		res.Limits[2].Remaining != 3 {
		t.Errorf("got %+v", res)
	}
}

func TestRequest_LostRaceIsTriedOnceMoreInOrder(t *testing.T) {
	r := threePlaces()
	first := r.Name
	r.answers(yes)
	r.answers(deny(900))
	r.answers(yes) // undo 3 and 50
	var order []int64
	for rounds := 0; !r.done() && rounds < 9; rounds++ {
		r.answers(func(count int64, s Step) error {
			if s == Ask {
				order = append(order, count)
			}
			return nil
		})
	}
	if len(order) != 3 || order[0] != 3 || order[1] != 50 || order[2] != 900 || r.Name == first {
		t.Errorf("taken in the order %v under the name %q", order, r.Name)
	}
	var res limiter.Result
	if err := r.Answer(&res); err != nil || !res.Allowed {
		t.Errorf("got %+v, %v", res, err)
	}
}

// The second attempt finds the denial where it takes, and looks at what it has not come to.
func TestRequest_ADenialInOrderListsEveryLimitThatDenies(t *testing.T) {
	r := threePlaces()
	r.answers(yes)
	r.answers(deny(900))
	r.answers(yes)       // undo
	r.answers(yes)       // 3 is taken
	r.answers(deny(50))  // 50 denies
	r.answers(deny(900)) // 3 is undone, and 900 looks
	var res limiter.Result
	if err := r.Answer(&res); err != nil || !r.done() || res.Allowed {
		t.Fatalf("got %+v, %v", res, err)
	}
	if res.Limits[0].RetryAfter != 900 || res.Limits[1].RetryAfter != 50 || res.Limits[2].Remaining != 3 {
		t.Errorf("got %+v", res)
	}
}

func TestRequest_ADenialCountsForItsBanOnceTheRequestIsDeniedForGood(t *testing.T) {
	r := threePlaces()
	for _, p := range r.Parts {
		ban := limiter.Ask{Key: limiter.BanKey(p.Request.Asks[0].Key + "|fw"), Limit: limiter.BanLimit(2, 1, 1, 1, 1)}
		p.Request.Asks = append(p.Request.Asks, ban)
		p.positions = append(p.positions, 0)
		p.bans = []int{1}
	}
	counted := 0
	play := func(count int64, s Step) error {
		if s == Count {
			counted++
		}
		return deny(900)(count, s)
	}
	r.answers(yes)
	r.answers(play) // a race was lost
	r.answers(play) // undo
	if counted != 0 || r.done() {
		t.Fatalf("a denial of the first attempt counted %d times, done %v", counted, r.done())
	}
	r.answers(play) // the second attempt takes 3,
	r.answers(play) // 50,
	r.answers(play) // and is denied
	r.answers(play) // undo, and count
	var res limiter.Result
	if err := r.Answer(&res); counted != 1 || !r.done() || err != nil || res.Allowed {
		t.Errorf("counted %d times, done %v, %+v, %v", counted, r.done(), res, err)
	}
}

func TestRequest_ADenialStaysOneWhileItsUndoIsRepeated(t *testing.T) {
	r := threePlaces()
	r.answers(deny(50))
	r.answers(func(int64, Step) error {
		return &limiter.StoreError{Cause: limiter.CauseConnection, Unknown: true, Err: errCut}
	})
	var res limiter.Result
	if err := r.Answer(&res); !r.done() || err != nil || res.Allowed {
		t.Errorf("got %+v, %v", res, err)
	}
	if r.undone != 0 || len(r.left) != 1 || !r.left[0].took {
		t.Errorf("undid %d, left %+v", r.undone, r.left)
	}
	if res.Limits[2].Remaining != 3 {
		t.Errorf("%+v: the answer has what is given back later", res.Limits[2])
	}
}

func TestRequest_PlaceThatCannotDecideLeavesNothingTaken(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		r := threePlaces()
		r.answers(yes)
		r.answers(func(count int64, _ Step) error {
			if count == 900 {
				return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: unknown, Err: errCut}
			}
			return nil
		})
		want := 2
		if unknown {
			want = 3
		}
		if len(r.round) != want {
			t.Fatalf("%d parts are undone, want the 2 that were taken and one that may have been", len(r.round))
		}
		r.answers(yes)
		var se *limiter.StoreError
		if err := r.Answer(&limiter.Result{}); !errors.As(err, &se) || se.Unknown != unknown {
			t.Errorf("got %v", err)
		}
	}
}

// What was taken for a request that its caller may repeat stays, and the error says so.
func TestRequest_WhatIsKeptMayHaveBeenApplied(t *testing.T) {
	r := threePlaces()
	for _, p := range r.Parts {
		p.Kept = true
	}
	r.answers(func(count int64, _ Step) error {
		if count == 900 {
			return &limiter.StoreError{Cause: limiter.CauseTimeout, Err: errCut}
		}
		return nil
	})
	var se *limiter.StoreError
	if err := r.Answer(&limiter.Result{}); !r.done() || !errors.As(err, &se) || !se.Unknown {
		t.Errorf("done %v, %v", r.done(), err)
	}
	r = threePlaces()
	for _, p := range r.Parts {
		p.Kept = true
	}
	if r.answers(deny(900)); len(r.round) != 1 || r.round[0].Step != Undo {
		t.Errorf("after a denial %+v is sent", r.round)
	}
}
