package redisstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/across"
	"sluice/limiter/redisstore/script"
)

// What a confirm took anew, because the attempt that it relied on was undone meanwhile, is undone as any take.
func TestUndo_GivesBackWhatAConfirmTook(t *testing.T) {
	s := newParts(t)
	s.attempt = 1 // as every attempt under an id has
	if o := s.do(script.OpCommit, "a", "w", "two"); o.Err != nil || o.Result.Replayed {
		t.Fatalf("%+v", o)
	}
	s.holds(3)
	s.do(script.OpUndo, "a", "w", "two")
	s.holds(0)
}

// spanning is a store on a cluster, and requests over slots of three nodes whose rounds a test can look into.
type spanning struct {
	*Store
	t    *testing.T
	asks []limiter.Ask
}

func newSpanning(t *testing.T, counts ...int64) *spanning {
	t.Helper()
	cluster := testenv.SharedCluster(t)
	client, err := NewClient(cluster.URL(), ClientOptions{DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, err := New(Options{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	out := &spanning{Store: s, t: t}
	for i, count := range counts {
		key := fmt.Sprintf("{%s%d%d}|1|fw", t.Name(), time.Now().UnixNano(), i)
		out.asks = append(out.asks, limiter.Ask{Key: limiter.Key(key),
			Weight: 1, Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: count, Window: limiter.MaxWindow,
				Align: limiter.AlignFirstHit}})
	}
	return out
}

// run decides a request; look sees every round before it is sent, and reports whether the test has sent it itself.
func (s *spanning) run(id string, look func(round []*across.Part) (sent bool)) (limiter.Result, error) {
	return s.runAs(limiter.OpTake, id, look)
}

func (s *spanning) runAs(op limiter.Op, id string,
	look func(round []*across.Part) (sent bool)) (limiter.Result, error) {
	r := s.cluster.split(&limiter.Request{Op: op, ID: id, Asks: s.asks})
	across.Run([]*across.Request{r}, func(round []*across.Part) {
		if !look(round) {
			s.cluster.carry(context.Background(), round)
		}
	})
	s.cluster.undos.Keep(r, time.Now())
	var res limiter.Result
	return res, r.Answer(&res)
}

func (s *spanning) op(op limiter.Op, i int, weight int64) limiter.Result {
	s.t.Helper()
	a := s.asks[i]
	a.Weight = weight
	var res limiter.Result
	if err := s.Do(s.t.Context(), &limiter.Request{Op: op, Asks: []limiter.Ask{a}}, &res); err != nil {
		s.t.Fatal(err)
	}
	return res
}

func (s *spanning) used(i int) int64 {
	return s.asks[i].Limit.Count - s.op(limiter.OpPeek, i, 0).Limits[0].Remaining
}

func step(round []*across.Part) across.Step { return round[0].Step }

// Attempt one loses a race and is about to undo. Attempt two under the same id relies on what one took; its caller
// leaves while it confirms. Both have failed, so nothing may stay.
func TestCluster_ARepeatThatFailsWhileItConfirmsLeavesNothing(t *testing.T) {
	s := newSpanning(t, 5, 100)
	_, _ = s.run("x", func(round []*across.Part) bool {
		switch {
		case step(round) == across.Ask && len(round) == 1 && round[0].Place == s.cluster.slot(&s.asks[1]):
			s.op(limiter.OpTake, 1, 100) // another request takes all
		case step(round) == across.Undo:
			s.op(limiter.OpRefund, 1, 100)
			sent := false
			_, err := s.run("x", func(second []*across.Part) bool {
				if step(second) == across.Undo && !sent {
					t.Errorf("undone before it confirmed")
				}
				if step(second) != across.Confirm {
					return false
				}
				s.cluster.carry(context.Background(), round) // the undo of the first
				sent = true
				s.cluster.carry(context.Background(), second)
				second[0].Got = across.Answer{Err: callerLeft(context.Background(), true)} // and nobody hears it
				return true
			})
			var se *limiter.StoreError
			if !errors.As(err, &se) || !se.Unknown {
				t.Errorf("%v", err)
			}
			return true
		}
		return false
	})
	deadline := time.Now().Add(5 * time.Second)
	for s.Stats().GiveBacksPending > 0 && time.Now().Before(deadline) {
		<-time.After(5 * time.Millisecond)
	}
	t.Logf("%+v", s.Stats())
	for i := range s.asks {
		if got := s.used(i); got != 0 {
			t.Errorf("limit %d holds %d after both attempts failed", i, got)
		}
	}
}

// Both attempts under one id are denied: one lost a race for the third limit, the other confirms the first two after
// that has undone, and finds the second one full.
func TestCluster_TwoDeniedAttemptsLeaveNothing(t *testing.T) {
	s := newSpanning(t, 5, 10, 100)
	at := func(p *across.Part, i int) bool { return p.Place == s.cluster.slot(&s.asks[i]) }
	undone, lost := false, false
	first, err := s.run("x", func(round []*across.Part) bool {
		switch {
		case step(round) == across.Ask && len(round) == 2 && !lost:
			lost = true
			s.op(limiter.OpTake, 2, 100)
		case step(round) == across.Undo && !undone:
			undone = true
			s.op(limiter.OpRefund, 2, 100)
			confirmed := false
			second, err := s.run("x", func(second []*across.Part) bool {
				if step(second) == across.Confirm && !confirmed {
					if confirmed = true; len(second) != 2 || !at(second[0], 0) {
						t.Errorf("confirms %d", len(second))
					}
					s.cluster.carry(context.Background(), round)
					s.op(limiter.OpTake, 1, 10) // another request takes all
				}
				return false
			})
			if err != nil || second.Allowed {
				t.Errorf("the second: %+v, %v", second, err)
			}
			return true
		}
		return false
	})
	if err != nil || first.Allowed {
		t.Errorf("the first: %+v, %v", first, err)
	}
	s.op(limiter.OpRefund, 1, 10)
	for i := range s.asks {
		if got := s.used(i); got != 0 {
			t.Errorf("limit %d holds %d after both attempts were denied", i, got)
		}
	}
}

// A repeat after an attempt that failed relies on what that took, and fails too, at once: it says that nothing was
// charged.
func TestCluster_AnErrorWithoutUnknownAfterAConfirmLeavesNothing(t *testing.T) {
	s := newSpanning(t, 5, 10, 100)
	at := func(p *across.Part, i int) bool { return p.Place == s.cluster.slot(&s.asks[i]) }
	busy := across.Answer{Err: errOverload}
	undone := false
	_, _ = s.run("x", func(round []*across.Part) bool {
		switch {
		case step(round) == across.Ask && len(round) == 2:
			s.cluster.carry(context.Background(), round)
			for _, p := range round {
				if at(p, 2) {
					p.Got = across.Answer{Err: callerLeft(context.Background(), true)}
				}
			}
			return true
		case step(round) == across.Undo && !undone:
			undone = true
			_, err := s.run("x", func(second []*across.Part) bool {
				if step(second) != across.Confirm {
					return false
				}
				last := len(second) - 1 // its dispatcher has no room: it is not sent
				s.cluster.carry(context.Background(), second[:last])
				second[last].Got = busy
				return true
			})
			var se *limiter.StoreError
			if !errors.As(err, &se) {
				t.Errorf("%v", err)
			}
			t.Logf("the second: unknown %v", se.Unknown)
		}
		return false
	})
	deadline := time.Now().Add(5 * time.Second)
	for s.Stats().GiveBacksPending > 0 && time.Now().Before(deadline) {
		<-time.After(5 * time.Millisecond)
	}
	for i := range s.asks {
		if got := s.used(i); got != 0 {
			t.Errorf("limit %d holds %d after both attempts failed", i, got)
		}
	}
}

// The first attempt at a charge fails at one slot. Before it undoes the other one, a second attempt relies on that, and
// is carried out or fails, too.
func TestCluster_AChargeThatFailsLeavesWhatARepeatReliesOn(t *testing.T) {
	for id, want := range map[string]int64{"fails": 0, "is carried out": 1} {
		s := newSpanning(t, 5, 100)
		fail := func(round []*across.Part) bool {
			if step(round) == across.Undo {
				return false
			}
			s.cluster.carry(context.Background(), round[:1])
			round[1].Got = across.Answer{Err: errOverload}
			return true
		}
		_, first := s.runAs(limiter.OpCharge, id, func(round []*across.Part) bool {
			if step(round) == across.Undo {
				_, err := s.runAs(limiter.OpCharge, id, func(second []*across.Part) bool {
					return id == "fails" && fail(second)
				})
				if (err != nil) != (id == "fails") {
					t.Errorf("the second: %v", err)
				}
			}
			return fail(round)
		})
		if first == nil {
			t.Error("the first attempt did not fail")
		}
		for i := range s.asks {
			if got := s.used(i); got != want {
				t.Errorf("the second attempt %s: limit %d holds %d, want %d", id, i, got, want)
			}
		}
	}
}
