package access

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gated is a Hasher whose hashes say which password they are of in began, and end
// one by one with a value in gate.
func gated() (h *Hasher, began chan string, gate chan struct{}) {
	began, gate = make(chan string, 100), make(chan struct{})
	h = &Hasher{derive: func(password, _ []byte, _, _ uint32, _ uint8, n uint32) []byte {
		began <- string(password)
		<-gate
		return make([]byte, n)
	}}
	return h, began, gate
}

// check starts n calls and returns once each of them hashes, waits or has returned.
func check(ctx context.Context, h *Hasher, lane Lane, password string, n int) (results chan error) {
	results = make(chan error, n)
	for range n {
		go func() {
			_, err := h.CheckPassword(ctx, lane, "", password)
			results <- err
		}()
	}
	synctest.Wait()
	return results
}

func TestHasher_RefusesWhoFindsItsQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began, gate := gated()
		strangers := check(t.Context(), h, LaneStrangers, "stranger", hashesAtOnce+waitingRoom[LaneStrangers])
		if len(began) != hashesAtOnce || len(strangers) != 0 {
			t.Fatalf("%d hash and %d are done, want %d and 0", len(began), len(strangers), hashesAtOnce)
		}
		if _, err := h.CheckPassword(t.Context(), LaneStrangers, "", "one more"); !errors.Is(err, ErrBusy) {
			t.Errorf("one more stranger: %v", err)
		}
		if _, err := h.HashPassword(t.Context(), LaneStrangers, "one more"); !errors.Is(err, ErrBusy) {
			t.Errorf("one more stranger with a new password: %v", err)
		}
		admins := check(t.Context(), h, LaneSignedIn, "admin", waitingRoom[LaneSignedIn])
		if len(admins) != 0 {
			t.Errorf("signed in, and refused: %v", <-admins)
		}
		if _, err := h.CheckPassword(t.Context(), LaneSignedIn, "", "one more"); !errors.Is(err, ErrBusy) {
			t.Errorf("one more who is signed in: %v", err)
		}
		close(gate)
		synctest.Wait()
		if len(strangers) != cap(strangers) || len(admins) != cap(admins) || h.queue.running != 0 {
			t.Errorf("%d strangers and %d signed in came in, %d still hash", len(strangers), len(admins), h.queue.running)
		}
		for range len(strangers) {
			if err := <-strangers; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestHasher_LanesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began, gate := gated()
		check(t.Context(), h, LaneStrangers, "stranger", hashesAtOnce+waitingRoom[LaneStrangers])
		check(t.Context(), h, LaneSignedIn, "admin", 2)
		order := []string{<-began, <-began}
		for range 4 {
			gate <- struct{}{}
			synctest.Wait()
			order = append(order, <-began)
		}
		want := []string{"stranger", "stranger", "stranger", "admin", "stranger", "admin"}
		if !slices.Equal(order, want) {
			t.Errorf("hashed in the order %q, want %q", order, want)
		}
		close(gate)
	})
}

func TestHasher_WhoLeavesFreesTheirPlaceAndIsNotHashed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began, gate := gated()
		check(t.Context(), h, LaneStrangers, "first", hashesAtOnce)
		ctx, leave := context.WithCancel(t.Context())
		leavers := check(ctx, h, LaneStrangers, "leaver", waitingRoom[LaneStrangers])
		leave()
		synctest.Wait()
		if len(leavers) != cap(leavers) {
			t.Fatalf("%d of %d left", len(leavers), cap(leavers))
		}
		for range cap(leavers) {
			if err := <-leavers; !errors.Is(err, context.Canceled) {
				t.Errorf("left with %v", err)
			}
		}
		stayers := check(t.Context(), h, LaneStrangers, "stayer", waitingRoom[LaneStrangers])
		if len(stayers) != 0 {
			t.Errorf("the places of leavers are taken: %v", <-stayers)
		}
		if _, err := h.CheckPassword(ctx, LaneSignedIn, "", "leaver"); !errors.Is(err, context.Canceled) {
			t.Errorf("left before: %v", err)
		}
		close(gate)
		synctest.Wait()
		close(began)
		for password := range began {
			if password == "leaver" {
				t.Error("hashed for someone who had left")
			}
		}
	})
}

func TestHasher_WhoWaitsNoLongerLearnsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, gate := gated()
		check(t.Context(), h, LaneStrangers, "first", hashesAtOnce)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, ErrBusy)
		defer cancel()
		for range 2 { // the second finds its time over
			if _, err := h.CheckPassword(ctx, LaneStrangers, "", "late"); !errors.Is(err, ErrBusy) {
				t.Errorf("left with %v", err)
			}
		}
		close(gate)
	})
}

func TestHasher_TurnsThatComeAsSomeoneLeavesArePassedOn(t *testing.T) {
	var most, now atomic.Int32
	h := &Hasher{derive: func(_, _ []byte, _, _ uint32, _ uint8, n uint32) []byte {
		for is := now.Add(1); ; {
			if was := most.Load(); is <= was || most.CompareAndSwap(was, is) {
				break
			}
		}
		now.Add(-1)
		return make([]byte, n)
	}}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 500 {
				ctx, leave := context.WithCancel(t.Context())
				go leave()
				_, _ = h.CheckPassword(ctx, Lane(i%2), "", "x")
			}
		})
	}
	all.Wait()
	if q := &h.queue; most.Load() > hashesAtOnce || q.running != 0 || len(q.waiting[0])+len(q.waiting[1]) != 0 {
		t.Errorf("%d hashed at once; at the end %d hash and %v wait", most.Load(), q.running, q.waiting)
	}
}
