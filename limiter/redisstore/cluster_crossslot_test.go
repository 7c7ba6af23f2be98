package redisstore

import (
	"errors"
	"testing"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

var errCut = errors.New("cut off")

// threeSlots is a take of three limits in slots of their own, widest first.
func threeSlots() *crossSlot {
	ask := func(key limiter.Key, count int64) limiter.Ask {
		return limiter.Ask{Key: key, Weight: 1,
			Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: count, Window: 1000}}
	}
	return split("sl:", &limiter.Request{Asks: []limiter.Ask{ask("{a}", 900), ask("{b}", 50), ask("{c}", 3)}})
}

// answers plays the slots: it answers every part that is sent with what fn says
// (nil for yes) and advances. fn sees the count of the part's limit.
func (x *crossSlot) answers(fn func(count int64, what limiter.Op) error) {
	for _, p := range x.sending {
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
		if len(p.bans) > 0 {
			p.sent.Result.Limits = append(p.sent.Result.Limits, limiter.Decision{Allowed: true, Limit: 2, Remaining: 1})
		}
	}
	x.advance()
}

var errDenied = errors.New("denied")

func yes(int64, limiter.Op) error { return nil }

func TestJoint_NarrowestTakesFirstAndOthersLook(t *testing.T) {
	x := threeSlots()
	for _, p := range x.sending {
		if got, want := p.what == limiter.OpTake, p.asks[0].Limit.Count == 3; got != want {
			t.Errorf("the limit of %d takes: %v", p.asks[0].Limit.Count, got)
		}
	}
	x.answers(yes)
	if len(x.sending) != 2 {
		t.Fatalf("%d parts go in the second round, want the other 2", len(x.sending))
	}
	x.answers(yes)
	var res limiter.Result
	if err := x.answer(&res); err != nil || !x.done() || !res.Allowed || res.Limits[2].Remaining != 2 {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestJoint_DenialListsEveryLimitThatDeniesAndUndoes(t *testing.T) {
	x := threeSlots()
	x.answers(func(count int64, _ limiter.Op) error {
		if count > 3 {
			return errDenied
		}
		return nil
	})
	if len(x.sending) != 1 || x.sending[0].what != script.OpUndo || x.sending[0].booked[0].At != 7 {
		t.Fatalf("%+v is sent after a denial", x.sending)
	}
	x.answers(yes)
	var res limiter.Result
	if err := x.answer(&res); err != nil || !x.done() {
		t.Fatal(err)
	}
	if res.Allowed || res.Limits[0].RetryAfter != 900 || res.Limits[1].RetryAfter != 50 || !res.Limits[2].Allowed ||
		res.Limits[2].Remaining != 3 {
		t.Errorf("got %+v", res)
	}
}

func TestJoint_LostRaceIsTriedOnceMoreInOrder(t *testing.T) {
	x := threeSlots()
	x.answers(yes)
	x.answers(func(count int64, _ limiter.Op) error {
		if count == 900 {
			return errDenied
		}
		return nil
	})
	x.answers(yes) // undo 3 and 50
	var order []int64
	for rounds := 0; !x.done() && rounds < 9; rounds++ {
		x.answers(func(count int64, what limiter.Op) error {
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
	if err := x.answer(&res); err != nil || !res.Allowed {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestJoint_ADenialCountsForItsBanOnceTheRequestIsDeniedForGood(t *testing.T) {
	x := threeSlots()
	for _, p := range x.parts {
		ban := limiter.Ask{Key: limiter.BanKey(p.asks[0].Key + "|fw"), Limit: limiter.BanLimit(2, 1, 1, 1, 1)}
		p.asks = append(p.asks, ban)
		p.bans = []int{1}
	}
	counted := 0
	deny := func(count int64, what limiter.Op) error {
		if what == script.OpCount {
			counted++
		}
		if count == 900 && what != script.OpUndo {
			return errDenied
		}
		return nil
	}
	x.answers(yes)
	x.answers(deny) // a race was lost
	x.answers(deny) // undo
	if counted != 0 || x.done() {
		t.Fatalf("a denial of the first attempt counted %d times, done %v", counted, x.done())
	}
	x.answers(deny) // the second attempt is denied by a look
	x.answers(deny) // undo, and count
	var res limiter.Result
	if err := x.answer(&res); counted != 1 || !x.done() || err != nil || res.Allowed {
		t.Errorf("counted %d times, done %v, %+v, %v", counted, x.done(), res, err)
	}
}

func TestNameOf_LeavesOutBans(t *testing.T) {
	ban := func(key limiter.Key) limiter.Ask {
		return limiter.Ask{Key: limiter.BanKey(key), Limit: limiter.BanLimit(2, 1, 1, 1, 1)}
	}
	a, b := limiter.Ask{Key: "{a}|1|fw"}, limiter.Ask{Key: "{b}|2|fw"}
	name := func(asks ...limiter.Ask) string { return nameOf(&limiter.Request{Asks: asks}) }
	if want := name(a, b); name(a, ban(a.Key), b) != want || name(a, b, ban(b.Key)) != want || name(a) == want {
		t.Error("a ban is in the name, or a limit is not")
	}
}

func TestJoint_ADenialStaysOneWhileItsUndoIsRepeated(t *testing.T) {
	x := threeSlots()
	x.answers(func(count int64, _ limiter.Op) error {
		if count == 50 {
			return errDenied
		}
		return nil
	})
	x.answers(func(int64, limiter.Op) error {
		return &limiter.StoreError{Cause: limiter.CauseConnection, Unknown: true, Err: errCut}
	})
	var res limiter.Result
	if err := x.answer(&res); !x.done() || err != nil || res.Allowed {
		t.Errorf("got %+v, %v", res, err)
	}
	if x.undone != 0 || len(x.left) != 1 || !x.left[0].taken {
		t.Errorf("undid %d, left %+v", x.undone, x.left)
	}
}

func TestJoint_SlotThatCannotDecideLeavesNothingTaken(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		x := threeSlots()
		x.answers(yes)
		x.answers(func(count int64, _ limiter.Op) error {
			if count == 900 {
				return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: unknown, Err: errCut}
			}
			return nil
		})
		want := 2
		if unknown {
			want = 3
		}
		if len(x.sending) != want {
			t.Fatalf("%d parts are undone, want the 2 that were taken and one that may have been", len(x.sending))
		}
		x.answers(yes)
		var se *limiter.StoreError
		if err := x.answer(&limiter.Result{}); !errors.As(err, &se) || se.Unknown != unknown {
			t.Errorf("got %v", err)
		}
	}
}

func TestJoint_EverythingIsUndoneForACallerWhoLeft(t *testing.T) {
	x := threeSlots()
	x.giveUp = true
	x.answers(yes)
	if len(x.sending) != 1 || x.sending[0].what != script.OpUndo {
		t.Fatalf("%+v is sent", x.sending)
	}
	x.answers(yes)
	if !x.done() {
		t.Error("something is left to do")
	}
}
