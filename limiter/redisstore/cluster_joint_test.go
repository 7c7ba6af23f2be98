package redisstore

import (
	"errors"
	"testing"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

var errCut = errors.New("cut off")

// threeSlots is a take of three limits in slots of their own, widest first.
func threeSlots() *joint {
	ask := func(key limiter.Key, count int64) limiter.Ask {
		return limiter.Ask{Key: key, Weight: 1,
			Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: count, Window: 1000}}
	}
	return split("sl:", &limiter.Request{Asks: []limiter.Ask{ask("{a}", 900), ask("{b}", 50), ask("{c}", 3)}})
}

// answers plays the slots: it answers every part that is sent with what fn says
// (nil for yes) and advances. fn sees the count of the part's limit.
func (j *joint) answers(fn func(count int64, what limiter.Op) error) {
	for _, p := range j.sending {
		count := p.asks[0].Limit.Count
		p.sent = &script.Request{}
		d := limiter.Decision{Allowed: true, Limit: count, Remaining: count - 1}
		switch err := fn(count, p.what); {
		case errors.Is(err, errDenied):
			d = limiter.Decision{Limit: count, RetryAfter: count}
		case err != nil:
			p.sent.Err = err
			continue
		case p.what == limiter.OpTake:
			p.sent.Booked = []script.Booking{{At: 7, Weight: 1}}
		case p.what == script.OpUndo:
			d.Remaining = count
		}
		p.sent.Result = limiter.Result{Allowed: d.Allowed, Limits: []limiter.Decision{d}}
	}
	j.advance()
}

var errDenied = errors.New("denied")

func yes(int64, limiter.Op) error { return nil }

func TestJoint_NarrowestTakesFirstAndOthersLook(t *testing.T) {
	j := threeSlots()
	for _, p := range j.sending {
		if got, want := p.what == limiter.OpTake, p.asks[0].Limit.Count == 3; got != want {
			t.Errorf("the limit of %d takes: %v", p.asks[0].Limit.Count, got)
		}
	}
	j.answers(yes)
	if len(j.sending) != 2 {
		t.Fatalf("%d parts go in the second round, want the other 2", len(j.sending))
	}
	j.answers(yes)
	var res limiter.Result
	if err := j.answer(&res); err != nil || !j.done() || !res.Allowed || res.Limits[2].Remaining != 2 {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestJoint_DenialListsEveryLimitThatDeniesAndUndoes(t *testing.T) {
	j := threeSlots()
	j.answers(func(count int64, _ limiter.Op) error {
		if count > 3 {
			return errDenied
		}
		return nil
	})
	if len(j.sending) != 1 || j.sending[0].what != script.OpUndo || j.sending[0].booked[0].At != 7 {
		t.Fatalf("%+v is sent after a denial", j.sending)
	}
	j.answers(yes)
	var res limiter.Result
	if err := j.answer(&res); err != nil || !j.done() {
		t.Fatal(err)
	}
	if res.Allowed || res.Limits[0].RetryAfter != 900 || res.Limits[1].RetryAfter != 50 || !res.Limits[2].Allowed ||
		res.Limits[2].Remaining != 3 {
		t.Errorf("got %+v", res)
	}
}

func TestJoint_LostRaceIsTriedOnceMoreInOrder(t *testing.T) {
	j := threeSlots()
	j.answers(yes)
	j.answers(func(count int64, _ limiter.Op) error {
		if count == 900 {
			return errDenied
		}
		return nil
	})
	j.answers(yes) // undo 3 and 50
	var order []int64
	for rounds := 0; !j.done() && rounds < 9; rounds++ {
		j.answers(func(count int64, what limiter.Op) error {
			if what == limiter.OpTake {
				order = append(order, count)
			}
			return nil
		})
	}
	if len(order) != 3 || order[0] != 3 || order[1] != 50 || order[2] != 900 {
		t.Errorf("taken in the order %v", order)
	}
	var res limiter.Result
	if err := j.answer(&res); err != nil || !res.Allowed {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestJoint_ADenialStaysOneWhileItsUndoIsRepeated(t *testing.T) {
	j := threeSlots()
	j.answers(func(count int64, _ limiter.Op) error {
		if count == 50 {
			return errDenied
		}
		return nil
	})
	j.answers(func(int64, limiter.Op) error {
		return &limiter.StoreError{Cause: limiter.CauseConnection, Unknown: true, Err: errCut}
	})
	var res limiter.Result
	if err := j.answer(&res); !j.done() || err != nil || res.Allowed {
		t.Errorf("got %+v, %v", res, err)
	}
	if j.undone != 0 || len(j.left) != 1 || !j.left[0].taken {
		t.Errorf("undid %d, left %+v", j.undone, j.left)
	}
}

func TestJoint_SlotThatCannotDecideLeavesNothingTaken(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		j := threeSlots()
		j.answers(yes)
		j.answers(func(count int64, _ limiter.Op) error {
			if count == 900 {
				return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: unknown, Err: errCut}
			}
			return nil
		})
		want := 2
		if unknown {
			want = 3
		}
		if len(j.sending) != want {
			t.Fatalf("%d parts are undone, want the 2 that were taken and one that may have been", len(j.sending))
		}
		j.answers(yes)
		var se *limiter.StoreError
		if err := j.answer(&limiter.Result{}); !errors.As(err, &se) || se.Unknown != unknown {
			t.Errorf("got %v", err)
		}
	}
}

func TestJoint_EverythingIsUndoneForACallerWhoLeft(t *testing.T) {
	j := threeSlots()
	j.giveUp = true
	j.answers(yes)
	if len(j.sending) != 1 || j.sending[0].what != script.OpUndo {
		t.Fatalf("%+v is sent", j.sending)
	}
	j.answers(yes)
	if !j.done() {
		t.Error("something is left to do")
	}
}
