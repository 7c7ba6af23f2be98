package across

import (
	"testing"

	"sluice/limiter"
)

// A take that lost a race to another one is not tried again if its undo is not confirmed. It stays denied, and its ban
// counts that.
func TestRequest_ABanCountsADenialWhoseUndoIsNotConfirmed(t *testing.T) {
	window := func(key limiter.Key, count int64) limiter.Ask {
		return limiter.Ask{Key: key, Weight: 1,
			Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: count, Window: 1000}}
	}
	wide := window("{a}|1|fw", 900)
	ban := limiter.Ask{Key: limiter.BanKey(wide.Key), Limit: limiter.BanLimit(2, 1000, 1000, 1, 1000)}
	r := New(&limiter.Request{Asks: []limiter.Ask{wide, ban, window("{b}|1|fw", 50), window("{c}|1|fw", 3)}},
		Options{Place: func(a *limiter.Ask) int { return int(a.Key[1]) }, LookFirst: true})
	counted := 0
	r.answers(yes)
	r.answers(deny(900))
	for !r.done() {
		r.answers(func(_ int64, s Step) error {
			switch s {
			case Count:
				counted++
			case Undo:
				return errCut
			}
			return nil
		})
	}
	var res limiter.Result
	if err := r.Answer(&res); err != nil || res.Allowed || counted != 1 {
		t.Errorf("%+v, %v: the denial was counted %d times", res, err, counted)
	}
}

// The time of an answer is that of a part that has one.
func TestRequest_TheTimeIsNotThatOfAPartThatWasNotSeen(t *testing.T) {
	window := func(key limiter.Key, count int64) limiter.Ask {
		return limiter.Ask{Key: key, Weight: 1,
			Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: count, Window: 1000}}
	}
	r := New(&limiter.Request{Asks: []limiter.Ask{window("{b}|1|fw", 900), window("{a}|1|fw", 3)}},
		Options{Place: func(a *limiter.Ask) int { return int(a.Key[1]) }})
	for !r.done() {
		for _, p := range r.round {
			if p.Place == 'b' {
				p.Got = Answer{Err: errCut}
				continue
			}
			p.Got = Answer{Result: &limiter.Result{At: 77, Limits: make([]limiter.Decision, 1)}}
		}
		r.advance()
	}
	var res limiter.Result
	if err := r.Answer(&res); err != nil || res.Allowed || res.At != 77 {
		t.Errorf("%+v, %v: want the time of the part that denied", res, err)
	}
}
