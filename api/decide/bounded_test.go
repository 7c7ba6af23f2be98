package decide

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestBounded_IsAnOrdinaryContextToWhoeverAsks(t *testing.T) {
	parent, leave := context.WithCancel(context.Background())
	defer leave()
	b := new(Checker).within(parent, 20*time.Millisecond)
	if at, ok := b.Deadline(); !ok || time.Until(at) > 20*time.Millisecond {
		t.Errorf("deadline %v %v", at, ok)
	}
	if err := b.Err(); err != nil {
		t.Errorf("err %v before the deadline", err)
	}
	child, cancel := context.WithCancel(b)
	defer cancel()
	<-child.Done()
	if !errors.Is(child.Err(), context.DeadlineExceeded) || !errors.Is(b.Err(), context.DeadlineExceeded) {
		t.Errorf("at the deadline: child %v, itself %v", child.Err(), b.Err())
	}
	select {
	case <-b.Bound().Canceled:
		t.Error("the deadline shows as the caller's leaving")
	default:
	}
	b.release()
}

func TestBounded_NeverOutlivesItsCaller(t *testing.T) {
	soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	b := new(Checker).within(soon, time.Hour)
	defer b.release()
	if at, _ := b.Deadline(); time.Until(at) > time.Second {
		t.Errorf("deadline %v is later than the caller's", at)
	}
	<-b.Bound().Canceled
	if !errors.Is(b.Err(), context.DeadlineExceeded) {
		t.Errorf("err %v", b.Err())
	}
}

func TestBounded_ErrNeedsNobodyToAskForDone(t *testing.T) {
	b := new(Checker).within(context.Background(), -time.Second)
	if !errors.Is(b.Err(), context.DeadlineExceeded) {
		t.Errorf("err %v after the deadline", b.Err())
	}
	b.release()
	b = new(Checker).within(context.Background(), time.Hour)
	b.release()
	if !errors.Is(b.Err(), context.Canceled) {
		t.Errorf("err %v after release", b.Err())
	}
	<-b.Done() // closed, or this test hangs
}
